"""Numbers and tables as text, for terminals, notebooks, Markdown and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from jinja2 import Environment

SMALLEST: Final = 1e-7  # that is written without an exponent


def short_number(number: float) -> str:
    """Return a number of at least 1 in at most four characters: 950, 1.2k, 15k, 2.0M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.{0 if number >= 10 * size else 1}f}{unit}"
    return f"{number:.0f}"


def plain_number(number: float, digits: int = 4) -> str:
    """Return a number with this many significant digits, without an exponent: 0.00006, 0.1235, 123457."""
    if not math.isfinite(number) or 0 < abs(number) < SMALLEST:
        return f"{number:.{digits}g}"
    if abs(number) >= 10 ** (digits - 1):
        return f"{number:.0f}"
    text = f"{Decimal(f'{number:.{digits - 1}e}'):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def short_text(value: object, longest: int = 18) -> str:
    """Return a value as a label of an axis: a number in few digits, a text cut to a length."""
    if isinstance(value, float) and math.isfinite(value):
        return short_number(value) if abs(value) >= 10_000 else plain_number(value)
    text = str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 seed, 5 seeds."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def round_numbers(low: float, high: float, most: int = 6) -> list[float]:
    """Return up to `most` round numbers (1, 2 or 5 times a power of ten apart) from low to high."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10, 20) if (high - low) / (times * power) <= most - 1 + 1e-9)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heading, ["---"] * len(heading), *rows)]


@cache
def templates(package: str) -> Environment:
    """Return the Jinja2 templates of a package; they escape what is put into them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # `cosend --help` does not wait for it

    loader = PackageLoader(package)
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)


class SmallTable(NamedTuple):
    """A title, a heading and rows; the first column is text, and the others are numbers or short words."""

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """Return what print() shows: the table."""
        return self.text()

    def text(self) -> str:
        lines = [self.heading, *self.rows]
        widths = [max(len(line[n]) for line in lines) for n in range(len(self.heading))]
        padded = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
        for line, cells in zip(lines, padded, strict=True):
            cells[0] = line[0].ljust(widths[0])
        return "\n".join([self.title, *("  ".join(cells).rstrip() for cells in padded)])

    def html(self) -> str:
        caption = f"<caption style='text-align:left'>{escape(self.title)}</caption>"
        rows = "".join(f"<tr>{_html_cells('td', row)}</tr>" for row in self.rows)
        return f"<table>{caption}<thead><tr>{_html_cells('th', self.heading)}</tr></thead><tbody>{rows}</tbody></table>"


def _html_cells(tag: str, cells: Sequence[str]) -> str:
    sides = ("left", *("right" for _ in cells[1:]))
    return "".join(
        f"<{tag} style='text-align:{side}'>{escape(c)}</{tag}>" for side, c in zip(sides, cells, strict=True)
    )
