"""cosend: classify or send."""
