"""A site as a process: its engine driven on threads of models, links to peers and a log; recovery and export.

May import: algorithm, axes, checks, engine, errors, models, site, store, text, transport, version.
Touches: clock, threads, disk, network, models (user code).
"""
