"""What open pages cost: a site under load with ten pages and with none, in turns: `python -m benchmarks.dashboard`.

The pages are real: each has its web socket and gets what a browser gets. Only nobody draws it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row, yes
from benchmarks.service import Place
from benchmarks.service_processes import Load, Server, put_under, server

PAGES = 10
LOADS = (Load(1, 32, labels=True), Load(64, 8, labels=True))
ROUNDS, ROUND_S = 9, 2.0
LEAST = 0.95


@contextmanager
def open_pages(running: Server, count: int) -> Iterator[subprocess.Popen[str]]:
    """Open pages of a site until the block ends."""
    command = [sys.executable, "-m", "benchmarks.dashboard_pages", str(running.port), "--count", str(count)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101 - for the type checker
        if process.stdout.readline() != "open\n":
            raise SystemExit("the pages could not be opened")
        try:
            yield process
        finally:
            process.communicate(timeout=20)
    if process.returncode:
        raise SystemExit("a page was closed")


class Ratio(NamedTuple):
    """A site with open pages beside itself without any."""

    items_per_s: float
    busy_s: float  # of the processor, for an item


def ratios(rounds: int, seconds: float, count: int = PAGES) -> dict[Load, list[Ratio]]:
    """Return for every load how a site with open pages compares with itself without any, once for each round."""
    found: dict[Load, list[Ratio]] = {load: [] for load in LOADS}
    with Place() as place, server("pages", place / "site") as running:
        put_under(LOADS[1], running, 0.5)  # compiled code is loaded now
        with open_pages(running, 1):
            pass  # and NiceGUI
        for number in range(rounds):
            for load in LOADS:
                found[load].append(_pair(running, load, seconds, count, pages_first=bool(number % 2)))
    return found


def _pair(running: Server, load: Load, seconds: float, count: int, *, pages_first: bool) -> Ratio:
    """Measure a site with pages and without, in this order or the other: its log grows meanwhile."""
    seen = {}
    for has_pages in (pages_first, not pages_first):
        with open_pages(running, count) if has_pages else nullcontext():
            seen[has_pages] = put_under(load, running, seconds)
    return Ratio(seen[True].items_per_s / seen[False].items_per_s, seen[True].busy_s / seen[False].busy_s)


def rows(rounds: int, seconds: float) -> list[Row]:
    """Measure what open pages cost."""
    found = []
    for load, each in ratios(rounds, seconds).items():
        speed, busy = (median(values) for values in zip(*each, strict=True))
        shown = f"{speed:.2f} x items/s, {busy:.2f} x processor"
        found.append(Row(f"{PAGES} pages / none, {load}", shown, f">= {LEAST}", yes(speed >= LEAST)))
    return found


def main() -> None:
    console, table = Console(), Table("what", "measured", "goal", "reached", title="the dashboard")
    with console.status("the dashboard"):
        found = rows(ROUNDS, ROUND_S)
    for row in found:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
