"""The main job: a network of sites over a stream, described by a scenario file."""
