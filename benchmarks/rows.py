"""What a benchmark prints."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One line of the result."""

    what: str
    measured: str
    goal: str
    reached: str


def yes(reached: bool) -> str:
    return "yes" if reached else "NO"
