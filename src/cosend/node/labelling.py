"""How a running site learns: labels come out of order, repeated, days later, and for decisions it never made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from cosend.core.checks import check_unit
from cosend.errors import LabelError, RewardError
from cosend.node.deciding import LABELS, Deciding, is_label
from cosend.site.label_check import all_labels
from cosend.site.site import all_right_or_wrong, right_or_wrong
from cosend.stores.decisions import LABEL, Decisions


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


class Labelling:
    """The labels that come."""

    def __init__(self, deciding: Deciding, decisions: Decisions) -> None:
        self.deciding, self.rules, self.decisions = deciding, deciding.rules, decisions
        self.has_numbers_as_names = decisions.has_numbers_as_names()
        # Decisions before this number may have been forgotten.
        self.oldest = decisions.oldest() or self.rules.learner.last_id + 1
        self._known = all_labels({arm: worker.classifier for arm, worker in deciding.workers.items()})
        self._settling: set[int] = set()  # learnt, and on their way to the disk

    async def take(self, given: Sequence[Given]) -> Heard:
        """Learn labels; a bad one among them raises and changes nothing. Returns when they are on the disk."""
        heard, fresh = self._sorted(given)
        ids = list(fresh)
        truths = [fresh[number].label for number in ids]
        costs = [fresh[number].cost for number in ids]
        if ids:
            self._settle(ids, truths, costs)
        for kind in ("duplicate", "unknown", "expired"):
            self.deciding.counts.labels[kind] += len(getattr(heard, kind))
        try:
            await self.deciding.commits.done()
        finally:
            self._settling.difference_update(ids)
        return heard

    def _sorted(self, given: Sequence[Given]) -> tuple[Heard, dict[int, Given]]:
        """Return what becomes of labels, and by number those that can be learnt."""
        heard, fresh = Heard([], [], [], []), dict[int, Given]()
        found = self.find([each.id for each in given])
        for each in given:
            number, labelled = found.get(each.id, (0, False))
            if labelled or number in fresh or number in self._settling:
                heard.duplicate.append(each.id)
            elif self._waits(number):
                fresh[number] = each
                heard.learnt.append(each.id)
            else:
                (heard.expired if number else heard.unknown).append(each.id)
        return heard, fresh

    def _waits(self, number: int) -> bool:
        """Tell whether a decision of this site has its answer and waits for its label."""
        learner = self.rules.learner
        return number in learner.registry.notes and number in learner.registry and not self.rules.served.asker(number)

    def find(self, names: Sequence[str]) -> dict[str, tuple[int, bool]]:
        """Return by id, as clients know them, the numbers of decisions, and whether their label has come.

        A client's own id comes first; a number is the id of a decision that its client gave none. One that was given
        out so long ago that nothing is kept of it is found too.
        """
        numbers = {name: number for name in names if (number := number_of(name))}
        own = [name for name in names if name not in numbers or self.has_numbers_as_names]
        found = self.decisions.named(own) if own else {}
        left = {name: number for name, number in numbers.items() if name not in found}
        unnamed = self.decisions.unnamed(left.values()) if left else {}
        gone = [number for number in left.values() if number < self.oldest and number not in unnamed]
        named = self.decisions.get(gone) if gone else {}  # their clients know them by another id
        for name, number in left.items():
            if number in unnamed:
                found[name] = number, unnamed[number]
            elif number < self.oldest and number not in named:
                found[name] = number, False
        return found

    def _settle(self, ids: list[int], truths: list[Any], costs: list[float | None]) -> None:
        answers = self.rules.labels_of(ids)
        for truth in truths:
            self._check(truth)
        gains = self._gains(answers, truths)
        if self.deciding.setup.reward is right_or_wrong:
            self.deciding.labels.check(truths, self._known)
        paid = self._paid(ids, costs)
        settled = self.rules.settle(ids, truths, gains, None if costs.count(None) == len(costs) else costs)
        self._settling.update(ids)
        for gain, cost in zip(gains, paid, strict=True):
            self.deciding.counts.learnt(gain, cost)
        for number, truth in zip(ids, truths, strict=True):
            self.deciding.commits.also(LABEL, (msgspec.msgpack.encode(truth), number))
        self.deciding.teach(settled.lessons)

    def _check(self, truth: Any) -> None:
        if not is_label(truth):
            raise LabelError(f"a true label cannot be {truth!r:.200}; {LABELS}")
        for axis in self.deciding.setup.axes:
            axis.check_label(truth)

    def _gains(self, answers: list[Any], truths: list[Any]) -> list[float]:
        reward = self.deciding.setup.reward
        gains = all_right_or_wrong(answers, truths) if reward is right_or_wrong else None
        if gains is not None:
            return gains
        gains = []
        for answer, truth in zip(answers, truths, strict=True):
            try:
                gains.append(reward(answer, truth))
            except (Exception, SystemExit) as error:  # a user's function may raise anything
                raise RewardError("gain", error, "a label") from error
            check_unit("gain", gains[-1], "a label")
        return gains

    def _paid(self, ids: list[int], costs: list[float | None]) -> list[float]:
        """Return what decisions cost: what is known of it now, or else what their arms cost."""
        known, found = self.rules.learner.arms.costs(), self.rules.learner.find(ids)
        return [known[arm] if cost is None else cost for (arm, _, _), cost in zip(found, costs, strict=True)]


def number_of(name: str) -> int:
    """Return the number that an id is, 0 if it is none: #17 is the site's number 17 where a client took 17 itself."""
    digits = name.removeprefix("#")
    is_number = digits.isascii() and digits.isdecimal() and digits[0] != "0" and len(digits) < 19
    return int(digits) if is_number else 0
