"""What a scenario file may say, checked before anything runs."""
