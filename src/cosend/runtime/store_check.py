"""A site's folder, checked: whether its events lead to the states that it kept and to the same decisions.

The folder of a site that has stopped is only read. Its whole log is folded, and the state on the way is compared, byte
for byte, with every snapshot, and at the end with what a site would start from: the newest snapshot and the events
after it. Where the oldest events were removed, it begins with the oldest snapshot instead. Then every decision is
re-evaluated, from the same beginning.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from cosend.algorithm.state import State
from cosend.engine.arm_health import PHASE_NAMES
from cosend.engine.events import Chosen, Event, Labelled
from cosend.engine.fold import Difference, fold, verify
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import state_of
from cosend.errors import StateError, shown
from cosend.runtime.site_store import MODEL
from cosend.store.event_log import EventLog
from cosend.store.recovery import newest, read_events, recover, usable

EVERY: Final = 500  # events after which progress is told
Watch = Callable[[str, int, int], None]  # what is done, how many events of it, and of how many


@dataclass
class Replayed:
    """The findings."""

    site: str
    events: int  # that are there
    first: int = 0  # the number of the first event that was replayed
    replayed: int = 0
    items: int = 0  # decided
    labels: int = 0
    scores: int = 0
    checked: list[str] = field(default_factory=list)  # what was compared and is the same
    remarks: list[str] = field(default_factory=list)  # what could not be compared
    wrong: list[str] = field(default_factory=list)  # states that are not the same
    differences: list[Difference] = field(default_factory=list)  # what would be decided otherwise
    fold_s: float = 0.0
    decide_s: float = 0.0

    @property
    def is_same(self) -> bool:
        return not self.wrong and not self.differences


class Replay:
    """Replays one log; `watch` hears how far it is."""

    def __init__(self, log: EventLog, watch: Watch = lambda what, done, of: None) -> None:
        self.log, self.watch = log, watch
        self.found = Replayed(log.site, log.position - max(0, log.oldest - 1))
        self._states = self._read_snapshots()
        self.found.first = 0 if log.oldest <= 1 else min(self._states, default=0)
        self.found.replayed = log.position - self.found.first

    def run(self, most: int) -> Replayed:
        """Compare the states, re-evaluate, and return what was found, at most `most` differences."""
        found, begun = self.found, time.perf_counter()
        self._compare_states()
        found.fold_s = time.perf_counter() - begun
        begun = time.perf_counter()
        found.differences = verify(self, most=most, begin=self._begin(), first=found.first)
        found.decide_s = time.perf_counter() - begun
        return found

    def _read_snapshots(self) -> dict[int, State]:
        newest(self.log, None)  # raises if there is nothing to begin with
        states, models = {}, list[str]()
        for rules, position, kept in usable(self.log, None, self.found.remarks):
            states[position] = state_of(rules)
            models = [name.removeprefix(MODEL) for name in kept.arrays if name.startswith(MODEL)]
        if models:
            self.found.remarks.append(f"models that learn were not compared: {', '.join(models)}")
        return states

    def _begin(self) -> Callable[[], SiteState] | None:
        return self._oldest_rules if self.found.first else None

    def _oldest_rules(self) -> SiteState:
        return next(rules for rules, position, _ in usable(self.log, None, []) if position == self.found.first)

    def _compare_states(self) -> None:
        found, begin = self.found, self._begin()
        rules = None if begin is None else begin()
        events, at = self._counted(), found.first
        if begin is not None:
            gone = f"the events before number {self.log.oldest:,} were removed"
            found.remarks.append(f"{gone}: begun with the snapshot of position {at:,}")
        for position in sorted(position for position in self._states if position > at):
            rules = fold(islice(events, position - at), onto=rules, first=at)
            at = position
            self._compare(rules, self._states[position], f"the snapshot of position {position:,}")
        rules = fold(events, onto=rules, first=at)
        if (self._states and begin is None) or len(self._states) > 1:
            self._compare_start(rules)
        else:
            found.remarks.append("there is no second state to compare with the events")

    def _compare_start(self, rules: SiteState) -> None:
        try:
            recovered = recover(self.log)[0]
        except StateError as error:  # the events are good: they were folded
            self.found.wrong.append(f"the site cannot start from its newest snapshot: {error}")
        else:
            self._compare(rules, state_of(recovered), "what the site would start from")

    def _compare(self, rules: SiteState, kept: State, what: str) -> None:
        state = state_of(rules)
        parts = differing(state, kept)
        if parts:
            self.found.wrong.append(f"{what} is not what the events lead to: {', '.join(parts)}")
        else:
            self.found.checked.append(f"{what} is what the events lead to, byte for byte")

    def _counted(self) -> Iterator[Event]:
        for event in self.events("folding"):
            if isinstance(event, Chosen):
                self.found.items += sum(1 for again in event.again or (0,) * len(event.arms) if not again)
            elif isinstance(event, Labelled):
                scores = event.truths.count(None)
                self.found.scores += scores
                self.found.labels += len(event.ids) - scores
            yield event

    def __iter__(self) -> Iterator[Event]:
        return self.events("re-evaluating")

    def events(self, what: str) -> Iterator[Event]:
        """Read the events from the first one on, and tell how far that is."""
        first, total = self.found.first, self.found.replayed
        for number, event in read_events(self.log, first):
            if number % EVERY == 0:
                self.watch(what, number - first, total)
            yield event
        self.watch(what, total, total)


def differing(one: State, other: State) -> list[str]:
    """Return the parts of two states that are not the same, byte for byte."""
    names = sorted({*one.facts, *other.facts})
    parts = [name for name in names if _fact(one, name) != _fact(other, name)]
    return parts + [name for name in sorted({*one.arrays, *other.arrays}) if _array(one, name) != _array(other, name)]


def _fact(state: State, name: str) -> str | None:
    return json.dumps(state.facts[name]) if name in state.facts else None


def _array(state: State, name: str) -> tuple[Any, ...] | None:
    array = state.arrays.get(name)
    return None if array is None else (array.dtype, array.shape, array.tobytes())


def told(difference: Difference) -> str:
    """Return a difference in words: of a batch, the first item that is decided otherwise."""
    number, event, recorded, now = difference
    where = f"event {number:,}, {type(event).__name__}"
    if not isinstance(event, Chosen):
        return f"{where}: was {shown(recorded)}, would be {shown(now)}"
    rows = enumerate(zip(zip(*recorded, strict=True), zip(*now, strict=True), strict=False))
    for place, (before, after) in rows:
        if before != after:
            return f"{where}, decision {event.first + place:,}: was {_choice(*before)}, would be {_choice(*after)}"
    return f"{where}: {len(recorded[0])} items were routed, would be {len(now[0])}"


def _choice(arm: str, kind: int, propensity: str) -> str:
    return f"{arm} ({PHASE_NAMES.get(kind, kind)}, propensity {propensity})"
