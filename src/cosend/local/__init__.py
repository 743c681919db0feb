"""All sites of a network file as processes on this machine: `cosend up` and `cosend demo`.

May import: client, config, errors, streams.
Touches: processes, ports, terminal, clock, files.
"""
