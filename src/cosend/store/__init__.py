"""Where what a site knows is kept: the event log in SQLite, snapshots, saved states.

May import: algorithm, axes, checks, engine, errors.
Touches: disk, clock.
"""
