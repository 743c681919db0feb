"""What a benchmark prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Row(NamedTuple):
    """One line of the result."""

    what: str
    measured: str
    goal: str
    reached: str


def yes(reached: bool) -> str:
    return "yes" if reached else "NO"


def show(rows: Iterable[Row], title: str) -> None:
    """Print rows as a table."""
    table = Table("what", "measured", "goal", "reached", title=title)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def save(rows: Iterable[Row], folder: Path) -> None:
    """Write rows to results.json in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps({"rows": [row._asdict() for row in rows]}, indent=1) + "\n")
