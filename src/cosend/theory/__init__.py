"""What is proven of the algorithm: bounds, and what regret is measured against. No rule uses it."""
