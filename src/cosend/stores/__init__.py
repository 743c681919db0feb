"""Where what a site knows is kept."""
