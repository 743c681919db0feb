"""A whole network over a whole stream, compiled."""
