"""How a running site learns: labels arrive out of order, repeated, days later, and for decisions it never made.

The same holds for scores, which come where no label is known. Labels and scores of one turn of the loop are learnt
together, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from cosend.algorithm.layout import TAUGHT
from cosend.checks import any_missing, is_missing, no_score
from cosend.engine.money import as_cost
from cosend.engine.scoring import Score
from cosend.errors import LabelError, Unavailable, in_one_line, shown
from cosend.runtime.client_requests import id_number
from cosend.runtime.driver import LABELS, Driver, are_labels, is_label
from cosend.runtime.label_history import RunningCounts
from cosend.store.log_index import LABEL, LogIndex

MOST_IN_A_TURN: Final = 1_000  # labels that are learnt in one turn of the loop
SHOWN_S: Final = 0.005  # between looks whether the arm of a decision that was shown early has answered


class Given(NamedTuple):
    """A true label or a score as it comes: for the id that the client knows, and what the decision cost, if known."""

    id: str
    label: Any = None
    cost: float | None = None
    score: Score | None = None
    price: float | None = None  # the cost in money

    @property
    def is_missing(self) -> bool:
        return is_missing(self.label) and no_score(self.score)


class Heard(msgspec.Struct):
    """The results of labels: the ids as they came."""

    learnt: list[str]
    duplicate: list[str]  # it has a label already
    unknown: list[str]  # no such decision, or it is still being made
    expired: list[str]  # the site no longer waits for it
    missing: list[str] = msgspec.field(default_factory=list)  # the label is null: the decision stays pending


class Request(NamedTuple):
    """Labels that came together, and who waits until they are on the disk."""

    given: Sequence[Given]
    done: asyncio.Future[Heard]


class Labelling:
    """The labels that come."""

    def __init__(self, driver: Driver, index: LogIndex, counts: RunningCounts) -> None:
        self.driver, self.engine, self.state, self.index = driver, driver.engine, driver.engine.state, index
        self.counts = counts
        self._settling: set[int] = set()  # learnt, and on their way to the disk
        self._loop = asyncio.get_running_loop()
        self._new: list[Request] = []
        self.has_names = index.has_names()  # whether a client has ever given a decision an id

    async def take(self, given: Sequence[Given]) -> Heard:
        """Learn labels; a bad one among them raises and changes nothing. Returns when they are on the disk."""
        if self.engine.shown_early:
            await self._answered([each.id for each in given])
        if len(given) <= MOST_IN_A_TURN:
            return await self._put(given)
        parts = [given[start : start + MOST_IN_A_TURN] for start in range(0, len(given), MOST_IN_A_TURN)]
        for part in parts:
            self._check_learnable(part)
            await asyncio.sleep(0)
        heard = await asyncio.gather(*map(self._put, parts))
        told = [[*chain.from_iterable(getattr(each, kind) for each in heard)] for kind in Heard.__struct_fields__]
        return Heard(*told)

    def _put(self, given: Sequence[Given]) -> asyncio.Future[Heard]:
        request = Request(given, self._loop.create_future())
        self._new.append(request)
        if len(self._new) == 1:
            self._loop.call_soon(self._cycle)
        return request.done

    async def _answered(self, names: Sequence[str]) -> None:
        """Wait for the arms of decisions that a shadow model has answered before them; their time is limited."""
        ids = {*self.find(names).values()}
        while ids & self.engine.shown_early:
            await asyncio.sleep(SHOWN_S)

    def _cycle(self) -> None:
        """Learn the labels that have come, also of clients that have left meanwhile; very many in several turns."""
        count = labels = 0
        while count < len(self._new) and labels < MOST_IN_A_TURN:
            labels += len(self._new[count].given)
            count += 1
        new, self._new = self._new[:count], self._new[count:]
        if self._new:
            self._loop.call_soon(self._cycle)
        if self.driver.is_open:
            self._learn_all(new)
            return
        for request in new:
            _fail(request, Unavailable("the site is not learning: it is stopping, or being rebuilt from its log"))

    def _learn_all(self, requests: list[Request]) -> None:
        """Learn labels together, or each request by itself if there is something wrong with any of them."""
        before = self.driver.commits.position
        try:
            self._learn(requests)
        except Exception as error:  # for the client that gave the label, unless something has changed
            if self.state.is_behind or self.driver.commits.position != before:
                self.driver.fail(error)
                for request in requests:
                    _fail(request, Unavailable(f"nothing is promised: an unexpected error ({in_one_line(error)})"))
            elif len(requests) > 1:
                for request in requests:
                    self._learn_all([request])
            else:
                _fail(requests[0], error)

    def _check_learnable(self, given: Sequence[Given]) -> None:
        """Raise if there is something wrong with labels that are learnt in several turns; nothing changes."""
        _, fresh = self._sorted([given])
        labels, _, scores = self._columns([*fresh.values()])
        self._check([*fresh.values()])
        self.engine.check_labels([*fresh], labels, scores, [each.id for each in fresh.values()])

    def _learn(self, requests: list[Request]) -> None:
        heard, fresh = self._sorted([request.given for request in requests])
        if fresh:
            ids, given = [*fresh], [*fresh.values()]
            self._settle(ids, given)
            self._remember_until_written(ids)
        for request, told in zip(requests, heard, strict=True):
            for kind in ("duplicate", "unknown", "expired", "missing"):
                if found := getattr(told, kind):
                    self.counts.labels[kind] += len(found)
            self.driver.commits.when_done(request.done, told)

    def _settle(self, ids: list[int], given: Sequence[Given]) -> None:
        labels, costs, scores = self._columns(given)
        self._check(given)
        engine = self.engine
        engine.now = time.monotonic()
        learnt = engine.learn(ids, labels, costs, scores, names=[each.id for each in given])
        self.counts.keep(learnt, self.state.learner.arms.own)
        self.counts.notable.learnt(ids, learnt.gains)
        event = self.driver.commits.position - 1  # that of `learn`
        self.driver.commits.also(LABEL, [(id_, event) for id_ in ids])
        self.driver.run()

    def _columns(
        self, given: Sequence[Given]
    ) -> tuple[list[Any], list[float | None] | None, list[Score | None] | None]:
        """Return labels, None where there is a score, and costs and scores, if there are any."""
        money = self.driver.setup.money
        costs = [
            each.cost if each.price is None else as_cost(money, each.cost, each.price, f"decision {each.id!r}")
            for each in given
        ]
        scores = [each.score for each in given]
        labels, nothing = [each.label for each in given], len(given)
        return (
            labels,
            None if costs.count(None) == nothing else costs,
            None if scores.count(None) == nothing else scores,
        )

    def _check(self, given: Sequence[Given]) -> None:
        known = [each for each in given if each.label is not None]  # else it is a score
        if not are_labels([each.label for each in known]):
            wrong = next(each for each in known if not is_label(each.label))
            raise LabelError(f"the true label of decision {wrong.id!r} cannot be {shown(wrong.label)}; {LABELS}")

    def _remember_until_written(self, ids: list[int]) -> None:
        """Remember labels until they are on the disk, where they can be looked up."""

        def forget(written: asyncio.Future[None]) -> None:
            written.exception()  # those who gave the labels are told
            self._settling.difference_update(ids)

        self._settling.update(ids)
        written = self._loop.create_future()
        written.add_done_callback(forget)
        self.driver.commits.when_done(written)

    def _sorted(self, requests: list[Sequence[Given]]) -> tuple[list[Heard], dict[int, Given]]:
        """Return what becomes of the labels of each request, and by number those that can be learnt."""
        names = [each.id for given in requests for each in given]
        blank = any_missing([each.label for given in requests for each in given])
        are_known = not blank or not any(each.is_missing for given in requests for each in given)
        numbers = self._all_fresh(names) if are_known else None
        if numbers is not None:  # mostly
            each_heard = [Heard([each.id for each in given], [], [], []) for given in requests]
            return each_heard, dict(zip(numbers, chain.from_iterable(requests), strict=True))
        found = self.find(names)
        waiting, flying = self._waiting({*found.values()})
        others = [number for number in found.values() if number not in waiting]
        labelled = self.index.labelled(others) if others else {}
        heard, fresh = [Heard([], [], [], []) for _ in requests], dict[int, Given]()
        for told, given in zip(heard, requests, strict=True):
            for each in given:
                number = found.get(each.id, 0)
                if number in fresh or number in labelled or number in self._settling:
                    told.duplicate.append(each.id)
                elif number in waiting and each.is_missing:
                    told.missing.append(each.id)
                elif number in waiting:
                    fresh[number] = each
                    told.learnt.append(each.id)
                else:
                    (told.unknown if not number or number in flying else told.expired).append(each.id)
        return heard, fresh

    def _all_fresh(self, names: list[str]) -> list[int] | None:
        """Return the ids of decisions, if all names are the site's own and all decisions are pending; else None."""
        ids = [*map(id_number, names)]
        if self.has_names or not all(ids) or len({*ids}) < len(ids):
            return None
        learner = self.state.learner
        if not all(map(learner.registry.notes.__contains__, ids)):
            return None
        if self.state.answering and any(map(self.state.answering.asker, ids)):
            return None
        return ids if len(learner.still_pending(ids)) == len(ids) else None

    def _waiting(self, ids: Collection[int]) -> tuple[set[int], set[int]]:
        """Return the ids whose decision is made and pending, and the ids that are in flight.

        An answer for a peer is neither: the peer sends its label.
        """
        learner = self.state.learner
        notes, both = learner.registry.notes, zip(ids, learner.find([*ids]), strict=True)
        own = {id_ for id_, (arm, kind, _) in both if arm >= 0 and kind != TAUGHT}
        made = {id_ for id_ in own if id_ in notes}
        return made, own - made

    def find(self, names: Sequence[str]) -> dict[str, int]:
        """Return the ids of decisions by the names that clients know: the client's own, or the site's."""
        last = self.state.learner.last_id
        found = {name: id_ for name in names if 0 < (id_ := id_number(name)) <= last}
        if not self.has_names:
            return found
        named = self.index.names_of({*found.values()}) if found else {}  # their clients know them by another name
        others = [name for name in names if not id_number(name)]
        found = {name: id_ for name, id_ in found.items() if id_ not in named}
        return found | (self.index.named(others) if others else {})


def _fail(request: Request, error: Exception) -> None:
    if not request.done.done():
        request.done.set_exception(error)
