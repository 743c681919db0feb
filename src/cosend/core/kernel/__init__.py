"""The compiled rules: small functions over flat arrays, which allocate nothing and never wait."""
