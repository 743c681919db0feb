"""Speed and memory, measured in one run beside something to compare with."""
