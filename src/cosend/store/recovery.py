"""The state of a site from its folder: the newest good snapshot, and the events that came after it.

The log stays open and locked from `recover` on: no other process can append in between.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from cosend.algorithm.state import State
from cosend.axes import Axis
from cosend.engine import events
from cosend.engine.events import decode
from cosend.engine.fold import fold
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import restore
from cosend.errors import CosendError, StateError
from cosend.store.event_log import EventLog
from cosend.store.state_file import read_state, write_state


def recover(log: EventLog, axes: Sequence[Axis] | None = None) -> tuple[SiteState, int]:
    """Return the rules of a site as its log has them, without a journal, and the position of the log.

    axes  to continue with; without them, no new item can be read
    """
    rules, covered, _ = newest(log, axes)
    tail = (event for _, event in read_events(log, covered))
    return fold(tail, axes=axes, onto=rules, first=covered), log.position


def read_events(log: EventLog, start: int = 0) -> Iterator[tuple[int, events.Event]]:
    for number, data in log.read(start):
        yield number, _decoded(log, number, data)


def newest(log: EventLog, axes: Sequence[Axis] | None) -> tuple[SiteState | None, int, State | None]:
    """Return the rules of the newest good snapshot, its position and all that is in it.

    Without one, the whole log must be folded: None, 0 and None.
    """
    problems: list[str] = []
    found = next(usable(log, axes, problems), None)
    if found is not None:
        return found
    if log.oldest > 1:
        why = "; ".join(problems) or "there is none"
        raise StateError(
            f"{log.folder}: its events before number {log.oldest} were removed, and it has no good snapshot: {why}"
        )
    return None, 0, None


def usable(log: EventLog, axes: Sequence[Axis] | None, problems: list[str]) -> Iterator[tuple[SiteState, int, State]]:
    """Read the snapshots that the events of the log can be added to, newest first: rules, position, and all in it."""
    for position, state in read_snapshots(log, problems):
        if position > log.position:
            raise StateError(
                f"{log.file}: has lost its end: it is at {log.position}, and a snapshot was taken at {position}"
            )
        if position < log.oldest:
            problems.append(f"the snapshot of position {position} is older than the events that are left")
            continue
        start = _decoded(log, 0, log.first())
        if not isinstance(start, events.Started):
            raise StateError(f"{log.file}: its first event must be Started, it is {type(start).__name__}")
        try:
            rules = _rules(start, state, axes)
        except _Damaged as error:
            problems.append(f"the snapshot of position {position}: {error}")
            continue
        yield rules, position, state


class _Damaged(Exception):
    """A state that is not that of rules."""


def _rules(start: events.Started, state: State, axes: Sequence[Axis] | None) -> SiteState:
    """Return rules with a state; their settings come from the start, their arms from the state."""
    fold([start], axes=axes)  # what is wrong with the start or the axes is not the state's fault
    facts = state.facts
    try:
        rules = fold([replace(start, local=facts["own"], learnt=facts["site"]["learnt"]["kinds"])], axes=axes)
        for peer, cost in facts["peers"].items():
            rules.add_peer(peer, cost, facts["functions"][peer])
        restore(rules, state)()
    except (CosendError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _Damaged(str(error)) from error
    return rules


def _decoded(log: EventLog, number: int, data: bytes) -> events.Event:
    try:
        return decode(data)
    except StateError as error:
        raise StateError(f"{log.file}: event {number}: {error}") from error


KEPT: Final = 2
LOG: Final = "log"  # the fact of a state that says which log it belongs to, and where


def write_snapshot(log: EventLog, state: State, position: int) -> Path:
    """Write the state that the events before a position lead to; older ones than the last before it are removed."""
    if not 0 < position <= log.position:
        raise StateError(f"{log.folder}: no snapshot of position {position} of a log that is at {log.position}")
    path = _path(log, position)
    write_state(State({**state.facts, LOG: [log.identity, position]}, state.arrays), path)
    for old in _files(log.folder)[KEPT:]:
        with suppress(OSError):  # it is only in the way
            old.unlink()
    return path


def check_snapshot(log: EventLog, position: int) -> None:
    """Raise unless the snapshot of a position is still as it was written."""
    path = _path(log, position)
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        raise StateError(f"{path}: cannot be read ({error})") from error
    if damaged is not None:
        raise StateError(f"{path}: damaged, {damaged} is not what was written")


def read_snapshots(log: EventLog, problems: list[str]) -> Iterator[tuple[int, State]]:
    """Read the snapshots of a log, newest first, each with its position; what is wrong with others is a problem."""
    for path in _files(log.folder):
        try:
            yield _snapshot(log, path)
        except StateError as error:
            problems.append(str(error))


def _snapshot(log: EventLog, path: Path) -> tuple[int, State]:
    state = read_state(path)
    match state.facts.pop(LOG, None):
        case [log.identity, int(position)]:
            return position, state
    raise StateError(f"{path}: not a snapshot of the log in its folder")


def _path(log: EventLog, position: int) -> Path:
    return log.folder / f"state-{position:012}.npz"


def _files(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("state-*.npz") if path.stem.removeprefix("state-").isdecimal()]
    return sorted(found, key=lambda path: int(path.stem.removeprefix("state-")), reverse=True)
