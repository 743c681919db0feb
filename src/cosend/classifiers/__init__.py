"""What can be an arm: scikit-learn and river models, plain functions, and views of some of the features."""
