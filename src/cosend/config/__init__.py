"""The network file: what it may say, checked before anything runs, and what is built from it.

May import: algorithm, axes, checks, engine, errors, models, site, streams, transport.
Touches: files that the network file names, models (user code).
"""

from typing import Final

# Texts of the help of commands; this file loads nothing, so that help is quick.
MOST_ROWS: Final = 10_000_000  # a run holds them all in memory
LARGEST_SEED: Final = 2**63 - 1
LONGEST_CALL_S: Final = 3_600.0
BUILT_IN: Final = ("clinics", "traffic")  # network files in this folder; the first is played if none is named
