"""One log for many processes: with a name and a colour for each, or as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, Literal

from rich.console import Console
from rich.text import Text

COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")
OWN: Final = "cosend"  # the name of the supervisor


class ProcessLog:
    """Prints what processes say, a line at a time, so that no two lines mix."""

    def __init__(self, console: Console, names: Sequence[str], form: Literal["json", "text"] = "text") -> None:
        self._console, self._form = console, form
        self._width = max(map(len, (OWN, *names)))
        self._colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
        self.is_closed = False  # nobody reads it any more
        self.when_closed: Callable[[], None] = lambda: None

    def line(self, name: str, line: str) -> None:
        """Print what a process has said."""
        shown = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)
        if self._form == "json":
            text = Text(shown if line.startswith("{") else json.dumps({"site": name, "event": line}))
        else:
            text = Text.assemble((f"{name:{self._width}} | ", self._colours.get(name, "bold")), shown)
        try:
            self._console.print(text, soft_wrap=True)
        except SystemExit:  # how rich reports a broken pipe; from now on it prints nothing
            self.is_closed = True
            self.when_closed()

    def say(self, line: str) -> None:
        """Print what the supervisor has to say."""
        self.line(OWN, line)
