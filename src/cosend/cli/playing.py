"""A scenario played over several streams under one progress bar, until the end or until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from cosend.cli.extras import check_installed
from cosend.cli.show import saying_when_compiling
from cosend.config.scenario import Scenario
from cosend.experiments.scenario import run as player
from cosend.experiments.scenario.live import Elsewhere
from cosend.experiments.scenario.report import one_stream
from cosend.experiments.scenario.streams import together
from cosend.experiments.scenario.world import World, build
from cosend.reports.text import counted

Live = Callable[[World], AbstractContextManager[Elsewhere]]
SO_FAR = "these are the results so far."
SILENCE_S = 2.0  # after which a line says how far it is, where no bar is seen


class Bar:
    """A progress bar over the items of all streams; where no bar is seen, in a file or a pipe, a line now and then."""

    def __init__(self, progress: Progress, task: TaskID, streams: int) -> None:
        self._progress, self._task, self._streams = progress, task, streams
        self._done, self._items, self._start, self._words = 0, 0, time.perf_counter(), ""
        self._what, self._said_at = "", time.monotonic()

    def begin(self, number: int, what: str) -> None:
        """Say what is done for which stream."""
        self._what = f"stream {number + 1} of {self._streams}: {what}" if self._streams > 1 else what
        self._progress.update(self._task, description=self._what)

    def asking(self, model: str, done: int, rows: int) -> None:
        """Show how far it is with asking a model, or several, about every row."""
        self._progress.update(self._task, description=self._what, words=f"{model}: {done:,} of {rows:,} rows")
        self._say(f"{self._what}: {model}, {done:,} of {rows:,} rows")

    def total(self, items: int) -> None:
        """Take how many items a stream has, as soon as that is known."""
        self._items = items
        self._progress.update(self._task, total=items * self._streams)

    def reached(self, items: int, errors: float) -> None:
        """Show how far the stream has come."""
        speed = items / max(1e-9, time.perf_counter() - self._start)
        self._words = f"{100 * errors:.1f} % wrong, {speed:,.0f} items/s"
        self._progress.update(self._task, completed=self._done + items, words=self._words)
        self._say(f"{self._what}: {items:,} of {self._items:,} items, {self._words}")

    def playing(self) -> None:
        """Take the time from here."""
        self._start = time.perf_counter()

    def end(self, number: int) -> None:
        """Count a stream as done."""
        self._done += self._items
        if self._progress.disable:
            self._progress.console.print(f"stream {number + 1} of {self._streams}: {self._words}", soft_wrap=True)

    def _say(self, line: str) -> None:
        """Print a line if no bar is seen and nothing was said for a while."""
        if self._progress.disable and time.monotonic() - self._said_at >= SILENCE_S:
            self._said_at = time.monotonic()
            self._progress.console.print(line, soft_wrap=True)


@contextmanager
def shown(console: Console, streams: int) -> Iterator[Bar]:
    """Show a progress bar, if anybody sees it."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[words]}"))
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    with bar as progress, saying_when_compiling(console):
        yield Bar(progress, progress.add_task("", total=None, words=""), streams)


def play_all(scenarios: Sequence[Scenario], folder: Path, console: Console, live: Live | None = None) -> dict[str, Any]:
    """Play every stream and return one result; on Ctrl-C, what there is by then, and why it is not all.

    live  runs the sites of a world elsewhere, for as long as a block takes
    """
    if len(scenarios) > 1:
        check_installed("scipy")  # for the intervals
    done: list[dict[str, Any]] = []
    why = ""
    try:
        with shown(console, len(scenarios)) as bar:
            for number, scenario in enumerate(scenarios):
                bar.begin(number, "reading the stream, training and asking the models")
                world = build(scenario, folder, bar.asking)
                bar.begin(number, "classify or send")
                played, result = play(world, bar, live, whole=number > 0)
                done.append(result)
                if played is not world:
                    why = _stopped_in_the_first(result["items"], world, played, len(scenarios))
                    break
                bar.end(number)
    except KeyboardInterrupt:
        if not done:
            raise
        why = why or _stopped_after(len(done), len(scenarios))
    return together(done) | ({"stopped": why} if why else {})


def _stopped_after(done: int, streams: int) -> str:
    return f"Stopped after {done} of {counted(streams, 'stream')}: {SO_FAR}"


def _stopped_in_the_first(items: int, world: World, played: World, streams: int) -> str:
    if streams == 1:
        return f"Stopped after {items:,} of {len(world.items):,} items: {SO_FAR}"
    if len(played.arrivals) == len(world.arrivals):
        return _stopped_after(1, streams)
    return f"Stopped after {items:,} of {len(world.items):,} items in the first of {streams} streams: {SO_FAR}"


def play(world: World, bar: Bar, live: Live | None = None, *, whole: bool) -> tuple[World, dict[str, Any]]:
    """Play one stream and return what it gives; on Ctrl-C, that of the part reached, unless the whole is wanted."""
    reached = 0
    bar.total(int((world.places >= 0).sum()))
    bar.playing()

    def watch(slots: int, errors: float) -> None:
        nonlocal reached
        reached = slots
        bar.reached(int((world.places[:slots] >= 0).sum()), errors)

    try:
        with nullcontext() if live is None else live(world) as elsewhere:
            return world, one_stream(world, player.run(world, watch, elsewhere=elsewhere))
    except KeyboardInterrupt:
        if whole:
            raise
    part = first_slots(world, max(1, reached))  # played again: who has stopped it does not want to wait for the others
    return part, one_stream(part, player.run(part, others=not part.one_by_one))


def first_slots(world: World, slots: int) -> World:
    """Return the world as it was after so many slots."""
    return world._replace(arrivals=world.arrivals[:slots], places=world.places[:slots])
