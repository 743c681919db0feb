"""The report of `cosend run`: a page that works offline, its figures, and the verdict in words.

May import: charts, checks, errors, text.
Touches: the folder that it is given.
"""
