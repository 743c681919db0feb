"""Many sites in one process: wired directly, or replayed compiled."""
