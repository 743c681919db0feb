"""One site as an HTTP service."""
