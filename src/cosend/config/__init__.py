"""The network file: what it may say, checked before anything runs, and what is built from it.

May import: algorithm, axes, checks, engine, errors, models, site, streams, transport.
Touches: files that the network file names, models (user code).
"""
