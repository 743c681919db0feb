"""A site that runs: many items in flight, models in threads, events on disk before anybody is answered."""
