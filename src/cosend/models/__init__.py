"""What can be an arm: scikit-learn, river and ONNX models, functions; and how models are loaded.

May import: checks, errors.
Touches: model files, models (user code).
"""
