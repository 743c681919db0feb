"""How sites reach each other: within one process, or over NATS. The same bytes and the same limits.

May import: algorithm, checks, engine, errors, version.
Touches: clock, network, files of credentials.
"""
