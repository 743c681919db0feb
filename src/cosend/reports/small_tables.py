"""A small table with a title, for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class SmallTable(NamedTuple):
    """A title, a heading and rows; the first column is text, and the others are numbers or short words."""

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """Return what print() shows: the table."""
        return self.text()

    def text(self) -> str:
        """Return the table in columns of the same width."""
        lines = [self.heading, *self.rows]
        widths = [max(len(line[n]) for line in lines) for n in range(len(self.heading))]
        return "\n".join([self.title, *("  ".join(_padded(line, widths)).rstrip() for line in lines)])

    def html(self) -> str:
        """Return the table as HTML, in the colours of whatever page it stands on."""
        heading = "".join(f"<th style='text-align:{_side(n)}'>{escape(c)}</th>" for n, c in enumerate(self.heading))
        rows = "".join(f"<tr>{_cells(row)}</tr>" for row in self.rows)
        caption = f"<caption style='text-align:left'>{escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>"


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = [*zip(line, widths, strict=True)]
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td style='text-align:{_side(n)}'>{escape(cell)}</td>" for n, cell in enumerate(row))


def _side(column: int) -> str:
    return "right" if column else "left"
