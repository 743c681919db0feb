"""`cosend run`: a network file played over recorded or generated items, with other policies and baselines.

May import: algorithm, axes, axis_format, config, engine, errors, models, network, simulation, site, streams, text.
Touches: models (user code), files that the network file names.
"""
