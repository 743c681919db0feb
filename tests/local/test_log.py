"""One log of many processes."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any, Literal

from rich.console import Console

from cosend.local.log import Log


def printed(form: Literal["json", "text"], lines: list[tuple[str, str]], **options: Any) -> list[str]:
    out = StringIO()
    log = Log(Console(file=out, markup=False, emoji=False, width=20, **options), ["north", "se"], form)
    for name, line in lines:
        log.line(name, line)
    log.say("stopped")
    return out.getvalue().splitlines()


def test_every_line_has_its_name_and_stays_one_line() -> None:
    lines = printed("text", [("north", "ready [1] :smile: " * 3), ("se", "a\x1b[2Jb")])
    assert lines == [
        f"north  | {'ready [1] :smile: ' * 3}",
        "se     | a\N{REPLACEMENT CHARACTER}[2Jb",
        "cosend | stopped",
    ]


def test_names_have_colours() -> None:
    north, south, _ = printed("text", [("north", "x"), ("se", "x")], force_terminal=True, color_system="standard")
    assert north.split("m")[0] != south.split("m")[0]


def test_for_programs_every_line_is_json() -> None:
    lines = printed("json", [("north", '{"event": "ready", "site": "north"}'), ("north", "starting")])
    assert [json.loads(line) for line in lines] == [
        {"event": "ready", "site": "north"},
        {"site": "north", "event": "starting"},
        {"site": "cosend", "event": "stopped"},
    ]


class Unread(Console):
    def print(self, *_: Any, **__: Any) -> None:
        raise SystemExit(1)  # as rich does when a pipe is broken


def test_it_is_told_that_nobody_reads_any_more() -> None:
    told: list[str] = []
    log = Log(Unread(), ["north"], "text")
    log.line("north", "x")
    log.when_unread(lambda: told.append("already"))
    assert told == ["already"]
    log.when_unread(lambda: told.append("again"))
    log.line("north", "more")
    assert told == ["already", "again", "again"]
