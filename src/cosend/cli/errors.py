"""How the command line says what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cosend.errors import CosendError, cut, install
from cosend.reports.text import counted

STOPPED = 130  # the exit code of whatever Ctrl-C has stopped, as shells have it
LONGEST_LINE = 400  # characters: five lines of a terminal
MOST_LINES = 25


def on_a_screen(sentence: str) -> str:
    """Return a message that fits on a screen: long lines without their middle, and not too many of them."""
    lines = [cut(line, LONGEST_LINE) for line in sentence.splitlines()]
    more = [f"... and {counted(len(lines) - MOST_LINES, 'more line')}"] if len(lines) > MOST_LINES else []
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
        typer.secho("error: not enough memory for that; use fewer items", fg="red", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.secho("stopped before it was done", fg="red", err=True)
        raise typer.Exit(STOPPED) from None


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import what only some commands need; if it is not there, say how to get it."""
    try:
        yield
    except ImportError as error:
        raise CosendError(f"this needs {error.name or error}: {install(name)}") from error
