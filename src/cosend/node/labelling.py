"""How a running site learns: labels come out of order, repeated, days later, and for decisions it never made.

Those that come in one turn of the loop are learnt together, whoever gave them, in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from operator import eq
from typing import Any, Final, NamedTuple

import msgspec

from cosend.core.kernel.bookkeeping import TAUGHT
from cosend.core.missing import any_missing, is_missing
from cosend.errors import LabelError, Unavailable, in_one_line, shown
from cosend.node.deciding import Deciding
from cosend.node.labels import LABELS, are_labels, is_label
from cosend.site.label_check import all_labels
from cosend.site.rewards import a_label, gains_of, other_gains, right_or_wrong
from cosend.stores.log_index import LABEL, LogIndex

MOST_IN_A_TURN: Final = 1_000  # labels that are learnt in one turn of the loop
LONGEST_NUMBER: Final = 18  # digits that fit into 64 bits whatever they are


class Given(NamedTuple):
    """A true label as it comes: for the id that the client knows, and what the decision really cost, if known."""

    id: str
    label: Any
    cost: float | None = None


class Heard(msgspec.Struct):
    """What became of labels: the ids as they came."""

    learnt: list[str]
    duplicate: list[str]  # it has a label already
    unknown: list[str]  # no such decision, or it is still being made
    expired: list[str]  # the site no longer waits for it
    missing: list[str] = msgspec.field(default_factory=list)  # the label is null: the decision goes on waiting


class Request(NamedTuple):
    """Labels that came together, and who waits until they are on the disk."""

    given: Sequence[Given]
    done: asyncio.Future[Heard]


class Labelling:
    """The labels that come."""

    def __init__(self, deciding: Deciding, index: LogIndex) -> None:
        self.deciding, self.rules, self.index = deciding, deciding.rules, index
        self._known = all_labels({arm: worker.classifier for arm, worker in deciding.workers.items()})
        self._settling: set[int] = set()  # learnt, and on their way to the disk
        self._loop = asyncio.get_running_loop()
        self._new: list[Request] = []

    async def take(self, given: Sequence[Given]) -> Heard:
        """Learn labels; a bad one among them raises and changes nothing. Returns when they are on the disk."""
        if self.deciding.requests.late:
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
        """Wait for the arms of decisions that an observer has answered before them; their time is limited."""
        late = self.deciding.requests.late
        waiting = {late[number] for number in self.find(names).values() if number in late}
        if waiting:
            await asyncio.wait(waiting)

    def _cycle(self) -> None:
        """Learn labels that are there, also of those who have gone away meanwhile; very many in several turns."""
        count = labels = 0
        while count < len(self._new) and labels < MOST_IN_A_TURN:
            labels += len(self._new[count].given)
            count += 1
        new, self._new = self._new[:count], self._new[count:]
        if self._new:
            self._loop.call_soon(self._cycle)
        if self.deciding.is_open:
            self._learn_all(new)
            return
        for request in new:
            _fail(request, Unavailable("it learns nothing now: it stops, or starts again from its log"))

    def _learn_all(self, requests: list[Request]) -> None:
        """Learn labels together, or each request by itself if there is something wrong with any of them."""
        before = self.deciding.commits.position
        try:
            self._learn(requests)
        except Exception as error:  # whatever it is, it is for the one who gave the label, unless something has changed
            if self.rules.is_behind or self.deciding.commits.position != before:
                self.deciding.fail(error)
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
        self._gains([*fresh], [each.label for each in fresh.values()])

    def _learn(self, requests: list[Request]) -> None:
        heard, fresh = self._sorted([request.given for request in requests])
        if fresh:
            ids = list(fresh)
            self._settle(ids, [fresh[number].label for number in ids], [fresh[number].cost for number in ids])
            self._remember_until_written(ids)
        for request, told in zip(requests, heard, strict=True):
            for kind in ("duplicate", "unknown", "expired", "missing"):
                self.deciding.counts.labels[kind] += len(getattr(told, kind))
            self.deciding.commits.when_done(request.done, told)

    def _remember_until_written(self, ids: list[int]) -> None:
        """Know until they are on the disk, where they can be looked up, that labels have come."""

        def forget(written: asyncio.Future[None]) -> None:
            written.exception()  # those who gave the labels are told
            self._settling.difference_update(ids)

        self._settling.update(ids)
        written = self._loop.create_future()
        written.add_done_callback(forget)
        self.deciding.commits.when_done(written)

    def _sorted(self, requests: list[Sequence[Given]]) -> tuple[list[Heard], dict[int, Given]]:
        """Return what becomes of the labels of each request, and by number those that can be learnt."""
        names = [each.id for given in requests for each in given]
        are_known = not any_missing([each.label for given in requests for each in given])
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
                elif number in waiting and is_missing(each.label):
                    told.missing.append(each.id)
                elif number in waiting:
                    fresh[number] = each
                    told.learnt.append(each.id)
                else:
                    (told.unknown if not number or number in flying else told.expired).append(each.id)
        return heard, fresh

    def _all_fresh(self, names: list[str]) -> list[int] | None:
        """Return the numbers of decisions, if these are their ids and all wait for their first label; else None."""
        numbers = numbers_of(names)
        if numbers is None or self.deciding.requests.has_names or len({*numbers}) < len(numbers):
            return None
        learner, served = self.rules.learner, self.rules.served
        if not all(map(learner.registry.notes.__contains__, numbers)) or any(map(served.asker, numbers)):
            return None
        return numbers if len(learner.still_waiting(numbers)) == len(numbers) else None

    def _waiting(self, numbers: Collection[int]) -> tuple[set[int], set[int]]:
        """Return those of the numbers whose decision is made and waits for its label, and those that are in flight.

        An answer for a peer is neither: its label comes from there.
        """
        learner = self.rules.learner
        notes, both = learner.registry.notes, zip(numbers, learner.find([*numbers]), strict=True)
        own = {number for number, (arm, kind, _) in both if arm >= 0 and kind != TAUGHT}
        made = {number for number in own if number in notes}
        return made, own - made

    def find(self, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of decisions by the ids that clients know: a name of their own, or else the number."""
        numbers = {name: number for name in names if (number := number_of(name))}
        own = [name for name in names if name not in numbers or self.deciding.requests.has_numbers_as_names]
        found = self.index.named(own) if own else {}
        last = self.rules.learner.last_id
        named: dict[int, str] = {}
        if numbers and self.deciding.requests.has_names:
            named = self.index.names_of({*numbers.values()})  # their clients know them by another id
        return {name: number for name, number in numbers.items() if number <= last and number not in named} | found

    def _settle(self, ids: list[int], truths: list[Any], costs: list[float | None]) -> None:
        gains, others = self._gains(ids, truths)
        answers = self.rules.labels_of(ids)
        settled = self.rules.settle(ids, truths, gains, None if costs.count(None) == len(costs) else costs, others)
        used = [arm for arm, _, _ in settled.found]
        paid, names = self._paid(used, costs), self.rules.learner.arms.names
        self.deciding.counts.learnt(gains, paid, self._local(used, gains, others))
        self.deciding.counts.scored(map(names.__getitem__, used), map(eq, answers, truths), gains, paid)
        event = self.deciding.commits.position - 1  # that of `settle`
        self.deciding.commits.also(LABEL, [(number, event) for number in ids])
        self.deciding.post(settled.forwards)
        self.deciding.teach(settled.lessons)

    def _gains(self, ids: list[int], truths: list[Any]) -> tuple[list[float], Sequence[Mapping[str, float]]]:
        """Return what decisions gain by their labels, and what others would have; raises if a label is a bad one."""
        answers = self.rules.labels_of(ids)
        self._check(truths)
        reward = self.deciding.setup.reward
        gains = gains_of(reward, answers, truths, a_label)
        others = other_gains(reward, self.rules.others_of(ids), truths, a_label)
        if self.deciding.setup.reward is right_or_wrong:
            local = not self.rules.learner.arms.peers  # else nobody knows what labels there are
            self.deciding.labels.check(truths, self._known if local else None, self.rules.past)
        return gains, others

    def _check(self, truths: list[Any]) -> None:
        if not are_labels(truths):
            wrong = next(truth for truth in truths if not is_label(truth))
            raise LabelError(f"a true label cannot be {shown(wrong)}; {LABELS}")
        for axis in self.deciding.setup.axes:
            axis.check_labels(set(truths))

    def _local(
        self, used: list[int], gains: list[float], others: Sequence[Mapping[str, float]]
    ) -> dict[str, list[float]]:
        """Return what local classifiers gain on items, of those that every label scores, used or not."""
        if self.deciding.rules.learner.score_local != "all":
            return {}
        arms = self.rules.learner.arms
        found: dict[str, list[float]] = {name: [] for name, cost in arms.own.items() if cost == 0.0}
        said = others or [{}] * len(used)  # nobody was run beside the arm that was used
        for arm, gain, beside in zip(used, gains, said, strict=True):
            for name, other in {**beside, arms.names[arm]: gain}.items():
                if name in found and other == other:  # else it had no answer
                    found[name].append(other)
        return found

    def _paid(self, used: list[int], costs: list[float | None]) -> list[float]:
        """Return what decisions cost: what is known of it now, or else what their arms cost."""
        known = self.rules.learner.arms.costs
        return [known[arm] if cost is None else cost for arm, cost in zip(used, costs, strict=True)]


def _fail(request: Request, error: Exception) -> None:
    if not request.done.done():
        request.done.set_exception(error)


def numbers_of(names: Sequence[str]) -> list[int] | None:
    """Return the numbers that ids are, None unless all of them are plain ones of a site."""
    together = "".join(names)
    if not together.isdecimal() or not together.isascii() or max(map(len, names)) > LONGEST_NUMBER:
        return None
    numbers = [int(name or 0) for name in names]
    return numbers if [*map(str, numbers)] == [*names] and min(numbers) else None


def number_of(name: str) -> int:
    """Return the number that an id is, 0 if it is none: #17 is the site's number 17 where a client took 17 itself."""
    digits = name[1:] if name[:1] == "#" else name
    return (
        int(digits)
        if digits.isdecimal() and digits.isascii() and len(digits) <= LONGEST_NUMBER and digits[0] != "0"
        else 0
    )
