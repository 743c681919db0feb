"""Snapshots of a site's state beside its log, each with the position of the log that it belongs to.

    folder/state-000000001200.npz    the state after the first 1200 events

A snapshot also carries the identity of its log, so that a state is never continued with the events of another log. The
newest two are kept: if one is damaged, the other is there.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from cosend.algorithm.state import State
from cosend.errors import StateError
from cosend.store.event_log import EventLog
from cosend.store.state_file import read_state, write_state

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
    """Raise unless the snapshot of a position is there as it was written; whoever asks has written or read it."""
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
    raise StateError(f"{path}: not a snapshot of the log beside it")


def _path(log: EventLog, position: int) -> Path:
    return log.folder / f"state-{position:012}.npz"


def _files(folder: Path) -> list[Path]:
    """Return the files of snapshots, newest first."""
    found = [path for path in folder.glob("state-*.npz") if path.stem.removeprefix("state-").isdecimal()]
    return sorted(found, key=lambda path: int(path.stem.removeprefix("state-")), reverse=True)
