"""Sites over recorded items in one compiled loop, and the baselines they are compared with.

May import: algorithm, checks, compiled, engine, errors.
Touches: nothing.
"""
