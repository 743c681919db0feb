"""One site as an HTTP service, or in a pipe. schema.py imports only msgspec and text, because clients use it too.

May import: axes, config, engine, errors, models, runtime, text, transport, version.
Touches: clock, network, processes, files of tokens and certificates.
"""
