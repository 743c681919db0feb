"""Where items come from: recorded data in files, datasets of river, and generated ones, all as a `Table`.

May import: checks, errors.
Touches: files, and the network if river downloads a dataset.
"""
