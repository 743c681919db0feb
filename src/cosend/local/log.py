"""One log of many processes: for people with a name and a colour for each, for programs as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, Literal

from rich.console import Console
from rich.text import Text

COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")
OWN: Final = "cosend"  # the name under which the process that starts the others speaks


class Log:
    """Prints what processes say, a line at a time, so that no two lines mix."""

    def __init__(self, console: Console, names: Sequence[str], form: Literal["json", "text"]) -> None:
        self._console, self._form = console, form
        self._unread = False
        self._when_unread: Callable[[], None] | None = None
        self._width = max(map(len, (OWN, *names)))
        self._colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}

    def line(self, name: str, line: str) -> None:
        """Print what a process has said."""
        shown = "".join(
            letter if letter.isprintable() or letter == "\t" else "\N{REPLACEMENT CHARACTER}" for letter in line
        )
        if self._form == "json":
            text = Text(shown if line.startswith("{") else json.dumps({"site": name, "event": line}))
        else:
            text = Text.assemble((f"{name:{self._width}} | ", self._colours.get(name, "bold")), shown)
        try:
            self._console.print(text, soft_wrap=True)
        except SystemExit:  # how rich says that nobody reads any more; from now on it prints nothing
            self._unread = True
            if self._when_unread is not None:
                self._when_unread()

    def when_unread(self, then: Callable[[], None]) -> None:
        """Do something when nobody reads any more, which may be so already."""
        self._when_unread = then
        if self._unread:
            then()

    def say(self, line: str) -> None:
        """Print what the process that starts the others has to say."""
        self.line(OWN, line)
