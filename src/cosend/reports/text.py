"""Numbers and tables as text; a table is a title, a heading and rows of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Cells: TypeAlias = list[str]
TableText: TypeAlias = tuple[str, Cells, list[Cells]]  # title, heading, rows


def short_number(number: float) -> str:
    """Return a number of at least 1 in at most four characters: 950, 1.2k, 15k, 2.0M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.{0 if number >= 10 * size else 1}f}{unit}"
    return f"{number:.0f}"


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [_line(heading), _line(["---"] * len(heading)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
