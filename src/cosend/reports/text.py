"""Numbers and tables as text; a table is a title, a heading and rows of cells."""

from __future__ import annotations

import math
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


def round_numbers(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most so many round numbers (1, 2 or 5 times a power of ten apart) from low to high."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10, 20) if (high - low) / (times * power) <= most - 1 + 1e-9)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def short_text(value: object, longest: int = 18) -> str:
    """Return a value as it stands beside an axis: a number in few digits, a text cut to a length."""
    if isinstance(value, float) and math.isfinite(value):
        return short_number(value) if abs(value) >= 10_000 else f"{value:.4g}"
    text = str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 seed, 5 seeds."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def signed(number: float, decimals: int = 3) -> str:
    """Return a number with its sign, and a minus that is one."""
    return f"{number:+.{decimals}f}".replace("-", "\N{MINUS SIGN}")
