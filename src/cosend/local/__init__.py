"""A whole network on this machine."""
