"""What several commands show alike: a progress bar and tables."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from cosend.compiled import telling
from cosend.reports.text import TableText
from cosend.version import VERSION

READING = "reading the data"  # before the first step of an experiment


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: a title or a path may have square brackets or colons in it."""
    return Console(stderr=stderr, markup=False, emoji=False)


@contextmanager
def saying_when_compiling(console: Console) -> Iterator[None]:
    """Say that something is compiled, as soon as it is."""
    with telling(console.print):
        yield


def how_it_was_made() -> dict[str, str]:
    """Return what made a report or an export, and when; SOURCE_DATE_EPOCH sets the date, as it does for builds."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(seconds) if seconds.isdigit() else time.time(), UTC)
    command = shlex.join(["cosend", *sys.argv[1:]])
    return {"version": VERSION, "date": moment.isoformat(timespec="seconds"), "command": command}


def printable(path: Path) -> str:
    """Return a path as text that can be printed, also one whose bytes are no text."""
    return str(path).encode(errors="backslashreplace").decode()


def steps_bar(console: Console) -> Progress:
    """Return a progress bar that says what is being done."""
    return Progress(TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), console=console)


def print_tables(console: Console, tables: Iterable[TableText]) -> None:
    """Print tables of text."""
    for title, heading, lines in tables:
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for n, text in enumerate(heading):
            table.add_column(text, no_wrap=n == 0)  # who it is about must be readable
        for line in lines:
            table.add_row(*line)
        console.print(table)
