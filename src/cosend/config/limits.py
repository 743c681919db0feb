"""Limits and names of the network file that the help of commands shows; loads nothing else, so that help is quick."""

from __future__ import annotations

from typing import Final

MOST_ROWS: Final = 10_000_000  # a run holds them all in memory
LARGEST_SEED: Final = 2**63 - 1
LONGEST_CALL_S: Final = 3_600.0
BUILT_IN: Final = ("clinics", "traffic")  # network files beside this one; the first is played if none is named
