"""Measured regret beside the theorems, on problems whose accuracies are known."""
