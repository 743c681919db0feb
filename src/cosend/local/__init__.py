"""All sites of a network file as processes on this machine: `cosend up` and `cosend demo`.

May import: axes, client, compiled, config, errors, models, runtime, streams.
Touches: processes, ports, terminal, clock, files.
"""
