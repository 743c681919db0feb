"""How a site decides, as values that are checked when they are built."""
