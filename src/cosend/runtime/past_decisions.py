"""Earlier decisions: the answers that clients got, from the log, and under which id.

The same id gets the same answer again, also after a restart.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from cosend.engine.arm_health import PHASE_NAMES
from cosend.engine.events import Answered, Chosen, Event, Labelled, Shown, decode
from cosend.errors import SettingError
from cosend.runtime.client_requests import Decided, Result, id_number
from cosend.runtime.driver import Driver
from cosend.runtime.label_intake import Labelling
from cosend.runtime.site_setup import Setup
from cosend.runtime.site_store import Store
from cosend.store.log_index import LogIndex, Row

NEAR: Final = 16  # numbers that are no further apart are looked for together


@dataclass
class Past:
    """A decision that someone was told."""

    arm: str
    kind: int
    cell: int
    cost: float  # that was expected
    propensity: float
    context: tuple[Any, ...]
    at: float = 0.0  # when it was answered, in seconds since 1970
    told: bool = False
    label: Any = None  # that the arm gave
    shown: Any = None  # that the client was told
    shown_by: str | None = None
    labelled: bool = False
    truth: Any = None
    score: float | None = None  # instead of a true label
    cost_paid: float | None = None  # what it really cost, as its answer or its label says

    @property
    def is_known(self) -> bool:
        """Whether a label or a score has come."""
        return self.labelled or self.score is not None

    def decided(self, name: str) -> Decided:
        phase = PHASE_NAMES[self.kind]
        return Decided(name, self.shown, self.arm, phase, self.cell, self.cost, self.propensity, self.shown_by)


def recall(index: LogIndex, number: int, widest: int) -> Past | None:
    """Return a decision by its number; None if it was never answered, or its events were removed."""
    return recall_all(index, [number], widest).get(number)


def recall_all(index: LogIndex, numbers: Iterable[int], widest: int) -> dict[int, Past]:
    """Return decisions by their numbers, if they were answered and still have events.

    Every event is read once, in the order of the log: a client that has lost the reply to many items asks for all of
    them again, and the last event has the answer. No event spans more numbers than `widest`.
    """
    wanted = sorted({number for number in numbers if number > 0})
    places = {place for lowest, highest in _runs(wanted) for place in index.events_of(lowest, highest, widest)}
    found: dict[int, Past] = {}
    for row in index.rows(sorted(places)):
        event = decode(row.event)
        if isinstance(event, Chosen):
            last = event.first + len(event.arms) - 1
            for number in wanted[bisect_left(wanted, event.first) : bisect_right(wanted, last)]:
                found.setdefault(number, _chosen(row, event, number - event.first))
        elif isinstance(event, Answered | Shown):
            for place, number in enumerate(event.ids):
                if number in found:
                    _answered(found[number], row, event, place)
    found = {number: past for number, past in found.items() if past.told}
    _note_labels(index, found)
    return found


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the ends of the runs of numbers that are near each other."""
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] - numbers[end - 1] > NEAR:
            yield numbers[start], numbers[end - 1]
            start = end


def _chosen(row: Row, event: Chosen, place: int) -> Past:
    arm = event.arms[place]
    chosen = event.kinds[place], event.cells[place], event.costs.get(arm, 0.0), event.propensities[place]
    past = Past(arm, *chosen, event.contexts[place])
    opinion = event.opinions[arm][place] if arm in event.opinions else None
    if opinion is not None:  # it has answered with it
        past.at, past.told, past.label, past.shown = row.at, True, opinion, opinion
    return past


def _answered(past: Past, row: Row, event: Answered | Shown, place: int) -> None:
    past.at, past.told = row.at, True
    if isinstance(event, Answered) and event.paid and event.paid[place] == event.paid[place]:
        past.cost_paid = event.paid[place]
    if isinstance(event, Shown) and event.model:  # before its arm has answered, or after
        past.shown, past.shown_by = event.labels[place], event.model
    else:
        past.label = event.labels[place]
        if past.shown_by is None:
            past.shown = past.label


def _note_labels(index: LogIndex, found: dict[int, Past]) -> None:
    labelled = index.labelled(found) if found else {}
    for number in labelled:
        found[number].labelled = True
    for row in index.rows(sorted({*labelled.values()})):
        event = decode(row.event)
        for number, truth, gain, cost in _told(event):
            if number not in found:
                continue
            past = found[number]
            past.cost_paid = past.cost_paid if cost is None else cost
            if truth is None:
                past.labelled, past.score = False, gain
            else:
                past.truth = truth


def _told(event: Event) -> Iterable[tuple[int, Any, float, float | None]]:
    if not isinstance(event, Labelled):
        return ()
    return zip(event.ids, event.truths, event.gains, event.costs or (None,) * len(event.ids), strict=True)


SLICE: Final = 1_000  # ids that are looked up before others have their turn
K = TypeVar("K")
V = TypeVar("V")


class Naming:
    """The ids of clients."""

    def __init__(self, setup: Setup, driver: Driver, labelling: Labelling, store: Store) -> None:
        self.setup, self.driver, self.labelling, self.store = setup, driver, labelling, store
        self._looked_up: dict[str, asyncio.Future[None]] = {}  # ids that are being looked up

    async def classify(self, items: Sequence[Any], names: Sequence[str | None]) -> list[Result]:
        """Label items that clients have given ids, None where they gave none."""
        given = list(dict.fromkeys(name for name in names if name is not None))
        for name in given:
            if id_number(name):
                sentence = f"an id must not be 'd-' and a number, because the site gives such ids itself, got {name!r}"
                raise SettingError("an id", name, "another one", sentence=sentence)
        while others := {self._looked_up[name] for name in given if name in self._looked_up}:
            await asyncio.wait(others)
        by_name = self.driver.requests.by_name
        flying = {name: by_name[name] for name in given if name in by_name}
        results: dict[str | int, Result] = {}
        with self._looking_up([name for name in given if name not in flying]) as unknown:
            results.update(await self._told_before(unknown))
            first = {name: place for place, name in reversed([*enumerate(names)])}
            places = [
                place
                for place, name in enumerate(names)
                if name is None or (name not in results and name not in flying and first[name] == place)
            ]
            self.labelling.has_names |= bool(given)
            request = self.driver.take([items[n] for n in places], [names[n] for n in places]) if places else None
        if request is not None:
            answers = await asyncio.shield(request.done)  # others may wait for it too
            for place, result in zip(places, answers, strict=True):
                results[names[place] or place] = result
        for other in {*flying.values()}:
            both = zip(other.names or (), await asyncio.shield(other.done), strict=True)
            results.update((name, answer) for name, answer in both if name is not None and flying.get(name) is other)
        return [results[name or place] for place, name in enumerate(names)]

    @contextmanager
    def _looking_up(self, names: list[str]) -> Iterator[list[str]]:
        """Reserve ids for one request: others with the same ids wait."""
        done = asyncio.get_running_loop().create_future()
        self._looked_up.update(dict.fromkeys(names, done))
        try:
            yield names
        finally:
            for name in names:
                del self._looked_up[name]
            done.set_result(None)

    async def _told_before(self, names: Sequence[str]) -> dict[str, Decided]:
        """Return the earlier answers under these ids, as far as the log still has them."""
        named = await _in_slices(self.store.index.named, names)
        known = await self.store.look(recall_all, [*named.values()], self.setup.most_flights) if named else {}
        return {name: known[id_].decided(name) for name, id_ in named.items() if id_ in known}


async def _in_slices(ask: Callable[[Sequence[K]], dict[K, V]], about: Sequence[K]) -> dict[K, V]:
    """Ask the index about many things, and let others have their turn in between."""
    found = ask(about[:SLICE]) if about else {}
    for start in range(SLICE, len(about), SLICE):
        await asyncio.sleep(0)
        found |= ask(about[start : start + SLICE])
    return found
