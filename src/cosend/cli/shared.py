"""Parts that commands share: options, errors in one line, progress, and missing libraries.

Nothing heavy is imported here or at the top of a command: `cosend --help` has to be quick.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cosend.config import BUILT_IN
from cosend.errors import CosendError, cut, install
from cosend.version import VERSION

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

STOPPED: Final = 130  # the exit code after Ctrl-C, as shells have it
LONGEST_LINE: Final = 400  # characters of a line of an error: five lines of a terminal
MOST_LINES: Final = 25

StreamFile = Annotated[
    Path | None,
    typer.Option("--stream", help="Recorded data (CSV, JSON lines or Parquet); overrides the stream of the file."),
]
LabelColumn = Annotated[str | None, typer.Option("--label", help="The column with the true labels.")]
ScoreColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--score",
        metavar="ARM=COLUMN",
        help="Instead of --label: the column with the scores of a classifier. Repeat it for each classifier.",
    ),
]
SiteColumn = Annotated[str | None, typer.Option("--site-column", help="The column that names the site of a row.")]


# Errors


def on_a_screen(sentence: str) -> str:
    """Return a message that fits on a screen: long lines without their middle, and not too many of them."""
    lines = [cut(line, LONGEST_LINE) for line in sentence.splitlines()]
    left = len(lines) - MOST_LINES
    more = [f"... and {left} more {'line' if left == 1 else 'lines'}"] if left > 0 else []
    return "\n".join([*lines[:MOST_LINES], *more])


@contextmanager
def say_errors() -> Iterator[None]:
    """Turn our errors into one line and exit code 2; anything else is a bug and shows its traceback."""
    try:
        yield
    except CosendError as error:
        typer.secho(f"error: {on_a_screen(str(error))}", fg="red", err=True)
        raise typer.Exit(2) from None
    except MemoryError:
        typer.secho("error: not enough memory; use fewer items", fg="red", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.secho("stopped before it was finished", fg="red", err=True)
        raise typer.Exit(STOPPED) from None


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import what only some commands need; if it is not there, say how to get it."""
    try:
        yield
    except ImportError as error:
        raise CosendError(f"this needs {error.name or error}: {install(name)}") from error


# Missing libraries

SERVER: Final = "nats-server"  # a program, not a module
SERVICE: Final = ("httptools", "prometheus_client", "starlette", "uvicorn")
NETWORK: Final = ("nats",)
EXTRAS: Final = dict.fromkeys(SERVICE, "service") | {
    "httpx": "client",
    "matplotlib": "reports",
    "nats": "network",
    "scipy": "reports",
    "sklearn": "models",
    SERVER: "local",
}


def lacking(needed: Iterable[str], extra: str = "") -> str:
    """Return what is not installed and how to get it; empty if all of it is there.

    extra  the extra that brings all of it; by default those of what is missing
    """
    missing = [name for name in dict.fromkeys(needed) if not _is_installed(name)]
    extras = extra or ",".join(sorted({EXTRAS[name] for name in missing}))
    return f"this needs {', '.join(missing)}: {install(extras)}" if missing else ""


def check_installed(*needed: str, extra: str = "") -> None:
    """Raise unless all of it is installed; nothing is imported by this."""
    why = lacking(needed, extra)
    if why:
        raise CosendError(why)


def _is_installed(name: str) -> bool:
    if name != SERVER:
        return find_spec(name) is not None
    from cosend.local.plan import find_server

    return find_server() is not None


def network_files_like(incomplete: str) -> list[str]:
    """Return the built-in network files, the folders and the network files whose names begin like this."""
    place = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    found = [path for path in sorted(place.glob("*")) if path.suffix == ".toml" or path.is_dir()]
    offered = [f"{path}/" if path.is_dir() else str(path) for path in found]
    return [name for name in (*BUILT_IN, *offered) if name.startswith(incomplete)]


# Output


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: a title or a path may have square brackets or colons in it."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


@contextmanager
def saying_when_compiling(console: Console) -> Iterator[None]:
    from cosend.compiled import telling

    with telling(console.print):
        yield


def how_it_was_made() -> dict[str, str]:
    """Return what made a report or an export, and when; SOURCE_DATE_EPOCH sets the date, as it does for builds."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(seconds) if seconds.isdigit() else time.time(), UTC)
    command = shlex.join(["cosend", *sys.argv[1:]])
    return {"version": VERSION, "date": moment.isoformat(timespec="seconds"), "command": command}


def printable(path: Path) -> str:
    """Return a path as text that can be printed, also one whose bytes are not text."""
    return str(path).encode(errors="backslashreplace").decode()


def steps_bar(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), console=console)


@contextmanager
def watched(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for steps; gives what is told which step it is, how much of it is done, and of how much."""
    with steps_bar(console) as progress:
        task = progress.add_task("", total=1)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)
