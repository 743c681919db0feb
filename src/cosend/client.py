"""A client of the HTTP service of a site."""
