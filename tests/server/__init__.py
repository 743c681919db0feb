"""Tests of the service and of its client."""
