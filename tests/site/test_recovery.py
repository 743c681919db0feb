"""Snapshot and tail: from whatever is left of a folder comes the state of the whole log, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosend import CoS, Patience, fold
from cosend.algorithm.state import State
from cosend.axes import Axis
from cosend.engine import events
from cosend.engine.events import encode
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import state_of
from cosend.errors import StateError
from cosend.store.event_log import FILE, EventLog
from cosend.store.recovery import read_events, recover, write_snapshot
from cosend.store.state_file import read_state, write_state
from tests.engine.world import whole
from tests.policies import POLICIES, mostly_claims
from tests.site.test_fold import AXES, RANKED, played

PATIENCE = Patience(wait_limit=40, max_pending=9, overdue=0.5)


def log_of(folder: Path, happened: list[events.Event], site: str = "lab") -> EventLog:
    log = EventLog(folder, site=site)
    log.append([encode(event) for event in happened])
    return log


def snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("state-*.npz"))


@pytest.fixture(scope="module")
def happened() -> list[events.Event]:
    return played(CoS(slices=2, exploration_exponent=0.1), RANKED, patience=PATIENCE)[1][0]


def snapshot(log: EventLog, state: SiteState, position: int) -> None:
    write_snapshot(log, state_of(state), position)


def with_snapshots(folder: Path, happened: list[events.Event], *positions: int) -> EventLog:
    log = log_of(folder, happened)
    for position in positions:
        snapshot(log, fold(happened[:position]), position)
    return log


@pytest.mark.compiled
@pytest.mark.parametrize("axes", [AXES, RANKED], ids=["category", "rank"])
@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_a_snapshot_and_its_tail_are_the_state_of_the_whole_log(policy: str, axes: list[Axis], tmp_path: Path) -> None:
    sites, logs = played(POLICIES[policy], axes, items=40, patience=PATIENCE)
    live, log = sites[0].engine.state, logs[0]
    with log_of(tmp_path, log) as kept:
        for position in (1, len(log) // 3, len(log) - 5, len(log)):
            snapshot(kept, fold(log[:position]), position)
            for given in (None, axes):
                state, at = recover(kept, given)
                assert at == len(log)
                assert whole(state) == whole(live)
            kept.remove(position)
        assert kept.oldest == len(log)
        assert [event for _, event in read_events(kept, len(log))] == []


def test_without_a_snapshot_the_whole_log_is_folded(tmp_path: Path, happened: list[events.Event]) -> None:
    with log_of(tmp_path, happened) as log:
        assert whole(recover(log)[0]) == whole(fold(happened))
    with EventLog(tmp_path / "new", site="lab") as log, pytest.raises(StateError, match="the log is empty"):
        recover(log)


def damaged(path: Path, how: str) -> None:
    """Damage a snapshot."""
    data = path.read_bytes()
    state = read_state(path)
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "bits":
        path.write_bytes(data[:900] + bytes(50) + data[950:])
    elif how == "another log":
        write_state(State({**state.facts, "log": ["another", state.facts["log"][1]]}, state.arrays), path)
    elif how == "no log":
        write_state(State({key: fact for key, fact in state.facts.items() if key != "log"}, state.arrays), path)
    else:
        write_state(State({**state.facts, "own": {"a": "b"}}, state.arrays), path)


HOW = ["missing", "cut", "bits", "another log", "no log", "other arms"]


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_snapshot_is_replaced_by_an_older_one_or_by_the_log(
    how: str, tmp_path: Path, happened: list[events.Event]
) -> None:
    with with_snapshots(tmp_path, happened, 40, 80) as log:
        log.remove(40)
        damaged(snapshots(tmp_path)[1], how)
        assert whole(recover(log)[0]) == whole(fold(happened))
        damaged(snapshots(tmp_path)[0], how)
        with pytest.raises(StateError, match="before number 40 were removed, and it has no good snapshot: "):
            recover(log)
    with with_snapshots(tmp_path / "whole", happened, 40, 80) as log:
        for path in snapshots(tmp_path / "whole"):
            damaged(path, how)
        assert whole(recover(log)[0]) == whole(fold(happened))


def test_a_snapshot_older_than_the_events_that_are_left_is_of_no_use(
    tmp_path: Path, happened: list[events.Event]
) -> None:
    with with_snapshots(tmp_path, happened, 40, 80) as log:
        log.remove(80)
        damaged(snapshots(tmp_path)[1], "cut")
        with pytest.raises(StateError, match="position 40 is older than the events that are left"):
            recover(log)


def test_two_snapshots_are_kept(tmp_path: Path, happened: list[events.Event]) -> None:
    with log_of(tmp_path, happened) as log:
        (tmp_path / "state-of-the-art.npz").write_text("not ours")
        for position in (10, 9, 30, 20):
            snapshot(log, fold(happened[:position]), position)
        names = [path.name for path in snapshots(tmp_path)]
        assert names == ["state-000000000020.npz", "state-000000000030.npz", "state-of-the-art.npz"]


def test_a_snapshot_ahead_of_the_log_is_refused_on_both_sides(tmp_path: Path, happened: list[events.Event]) -> None:
    state = fold(happened)
    with with_snapshots(tmp_path, happened, len(happened)) as log:
        for position in (0, -1, len(happened) + 1):
            with pytest.raises(StateError, match=f"no snapshot of position {position} of a log that is at"):
                snapshot(log, state, position)
        log._connection.execute(f"DELETE FROM events WHERE number >= {len(happened) - 3}")  # noqa: S608 - our own
    with EventLog(tmp_path, site="lab") as log, pytest.raises(StateError, match="has lost its end: it is at"):
        recover(log)


def test_other_axes_and_broken_events_are_refused_by_name_and_not_taken_for_a_damaged_snapshot(
    tmp_path: Path, happened: list[events.Event]
) -> None:
    with with_snapshots(tmp_path, happened, 40) as log:
        log.remove(40)
        with pytest.raises(StateError, match=r"^event 0 of the log, Started, cannot be applied: the log has"):
            recover(log, AXES)
        log.append([encode(events.ArmPaused("nobody"))])
        with pytest.raises(StateError, match=f"event {len(happened)} of the log, ArmPaused, cannot be applied"):
            recover(log)
        log.append([b"nonsense"])
        with pytest.raises(StateError, match=f"{FILE}: event {len(happened) + 1}: the bytes of an event have version"):
            list(read_events(log, len(happened) + 1))
    with log_of(tmp_path / "b", happened[1:]) as log:
        snapshot(log, fold(happened), 40)
        with pytest.raises(StateError, match="its first event must be Started"):
            recover(log)


def test_fold_continues_from_a_state_and_writes_nothing_twice(happened: list[events.Event]) -> None:
    written: list[events.Event] = []
    before = fold(happened[:50], journal=written.append)
    state = fold(happened[50:], onto=before, journal=written.append, first=50)
    assert state is before
    assert written == []
    assert whole(state) == whole(fold(happened))
    assert state.journal is not None
    with pytest.raises(StateError, match="event 50 of the log, Started, cannot be applied: a log has one start"):
        fold(happened[:1], onto=before, first=50)
    assert whole(fold([], onto=fold(happened))) == whole(fold(happened))
