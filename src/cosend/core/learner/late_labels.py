"""Labels that come late: rewards for what waits, what is taken back, and what waited too long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final, TypeAlias

import numpy as np

from cosend.alone import Alone, one_at_a_time
from cosend.core.checks import LARGEST, as_list, check_unit
from cosend.core.kernel import columns as col
from cosend.core.kernel import entry_points
from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.learner.arms import Arms
from cosend.core.learner.memory import Memory
from cosend.core.learner.registry import Registry
from cosend.errors import ArmError, DecisionError, SettingError, SettledDecision, UnknownDecision

WAITING_ENTRIES: Final = 8  # among the arrays that the compiled rules take
Waited: TypeAlias = tuple[int, int, int]  # arm, kind and arrival
NOTHING_WAITS: Final = -1  # in the place of the arm
ARM: Final = itemgetter(0)


class LateLabels:
    """The half of a learner that waits for labels."""

    alone: Alone
    name: str
    arms: Arms
    memory: Memory
    registry: Registry  # what waits for its label

    @property
    def last_id(self) -> int:
        """The newest id that was given out."""
        return self.memory.ledger.site.item(col.TICKETS)

    @property
    def waiting_count(self) -> int:
        """How many decisions and answers wait for their label."""
        return len(self.registry)

    def learn(
        self, decision: int, gain: float, cost: float | None = None, others: Mapping[str, float] | None = None
    ) -> None:
        """Learn what a decision gained: 1 for a right label, 0 for a wrong one, or anything between.

        `cost` is what it really cost, if that differs from the arm's known cost or was not known before. `others` is
        what local classifiers would have gained that were run only to be scored.
        """
        if others:
            self.learn_many([decision], [gain], [cost], [others])
        elif cost is not None or type(gain) is not float or type(decision) is not int or not 0.0 <= gain <= 1.0:
            self.learn_many([decision], [gain], [cost])
        else:
            lock = self.alone.lock
            lock.acquire()  # quicker than a with statement, and much quicker than the decorator
            try:
                if abs(decision) > LARGEST or not entry_points.learn_one(self.memory.arrays, decision, gain):
                    raise self.no_label_wanted(decision)
                if self.registry.notes:
                    self.registry.notes.pop(decision, None)
            finally:
                lock.release()

    @one_at_a_time
    def learn_many(
        self,
        decisions: Iterable[int],
        gains: Iterable[float],
        costs: Iterable[float | None] | None = None,
        others: Sequence[Mapping[str, float] | None] = (),
    ) -> None:
        """Learn from many labels at once, with the same result as one by one; a bad one among them changes nothing."""
        decisions = as_list("decisions", decisions, "a list of ids")
        gains = as_list("gains", gains, "a list of numbers in [0, 1]")
        costs = None if costs is None else as_list("costs", costs, "a list of costs, or None")
        self.settle(*self.look_up(decisions), gains, costs, others)

    def settle(
        self,
        tickets: Sequence[int],
        found: Sequence[Waited],
        gains: Sequence[float],
        costs: Sequence[float | None] | None = None,
        others: Sequence[Mapping[str, float] | None] = (),
    ) -> None:
        """Learn from labels for ids that were looked up just now; a bad one among them changes nothing."""
        if not len(tickets) == len(gains) == len(gains if costs is None else costs) == len(others or gains):
            given = f"{len(gains)}, {len(others or gains)} and {len(gains if costs is None else costs)}"
            raise SettingError("gains, others and costs", given, f"as many as decisions ({len(tickets)})")
        rewards = self._rewards(tickets, found, gains, costs)
        if any(others):
            scores = self._scores(tickets, found, others)
            self.check_different(tickets)
            numbers = np.array(tickets, np.int64), np.array(rewards, np.float64)
            entry_points.learn_scored(self.memory.arrays, *numbers, scores)
        elif len(tickets) == 1:
            entry_points.learn_one(self.memory.arrays, tickets[0], rewards[0])
        else:
            self.check_different(tickets)
            entry_points.learn_many(self.memory.arrays, np.array(tickets, np.int64), np.array(rewards, np.float64))
        self.forget_notes(tickets)

    def look_up(self, decisions: Sequence[int]) -> tuple[list[int], list[Waited]]:
        """Return ids, and (arm, kind, arrival) of what waits under each, or raise if one does not wait."""
        tickets = [*decisions]
        if {*map(type, tickets)} != {int}:
            tickets = [int(each) if isinstance(each, np.integer) else each for each in tickets]
        if len(tickets) == 1:
            waited = self._look_at(tickets[0])
            if waited[0] != NOTHING_WAITS:
                return tickets, [waited]
        found = self.find(tickets)
        if NOTHING_WAITS in map(ARM, found):
            raise self.no_label_wanted(next(each for each, (arm, *_) in zip(tickets, found, strict=True) if arm < 0))
        return tickets, found

    def still_waiting(self, tickets: Sequence[int]) -> Sequence[int]:
        """Return those of the ids that still wait: some may have become overdue, or their arm may have left."""
        if len(tickets) == 1:
            return tickets if self._look_at(tickets[0])[0] >= 0 else []
        if not len(tickets):
            return tickets
        found, missing = self._looked_up(tickets)
        if missing < 0:
            return tickets
        return [ticket for ticket, arm in zip(tickets, found[:, 0].tolist(), strict=True) if arm >= 0]

    def find(self, tickets: Sequence[int]) -> list[Waited]:
        """Return (arm, kind, arrival) of what waits under each id; the arm is -1 where nothing does."""
        if len(tickets) == 1:
            return [self._look_at(tickets[0])]
        return list(map(tuple, self._looked_up(tickets)[0].tolist()))

    def _look_at(self, ticket: int) -> Waited:
        if type(ticket) is not int or not 0 < ticket <= LARGEST:  # 1.0 and True equal 1, but are no ids
            raise self.no_label_wanted(ticket)
        return entry_points.look_one(self.memory.arrays[WAITING_ENTRIES], ticket)

    def _looked_up(self, tickets: Sequence[int]) -> tuple[Ints, int]:
        """Return [id, (arm, kind, arrival)], and the place of the first id that does not wait, -1 if all do."""
        self._check_ids(tickets)
        found = np.empty((len(tickets), 3), np.int64)
        missing = entry_points.look_up(self.memory.arrays[WAITING_ENTRIES], _as_array(tickets), found)
        return found, missing

    def _check_ids(self, tickets: Sequence[int]) -> None:
        """Raise unless these can be ids."""
        tickets = [*tickets[:1], *tickets[-1:]] if isinstance(tickets, range) else tickets
        if tickets and (set(map(type, tickets)) != {int} or not 0 < min(tickets) <= max(tickets) <= LARGEST):
            wrong = (ticket for ticket in tickets if type(ticket) is not int or not 0 < ticket <= LARGEST)
            raise self.no_label_wanted(next(wrong))

    def no_label_wanted(self, decision: object) -> DecisionError:
        """Return the error for a label that no decision waits for."""
        if type(decision) is int and 1 <= decision <= self.last_id:
            return SettledDecision(self.name, decision)
        return UnknownDecision(self.name, decision, self.last_id)

    def check_different(self, tickets: Sequence[int]) -> None:
        """Raise if an id stands among others twice."""
        if len(set(tickets)) < len(tickets):
            raise SettledDecision(self.name, next(each for n, each in enumerate(tickets) if each in tickets[:n]))

    def _rewards(
        self,
        tickets: Sequence[int],
        found: Sequence[Waited],
        gains: Sequence[float],
        costs: Sequence[float | None] | None,
    ) -> list[float]:
        rewards = [
            gain if type(gain) is float and 0.0 <= gain <= 1.0 else self._checked(gain, ticket)
            for gain, ticket in zip(gains, tickets, strict=True)
        ]
        if costs is not None:
            known = self.arms.costs
            for n, cost in enumerate(costs):
                if cost is not None:
                    check_unit("cost", cost, f"decision {tickets[n]} of site {self.name!r}")
                    # The known cost is taken off where means are compared: only the difference belongs in here.
                    rewards[n] = gains[n] - cost + known[found[n][0]]
        return rewards

    def _checked(self, gain: float, ticket: int) -> float:
        check_unit("gain", gain, f"decision {ticket} of site {self.name!r}")
        return float(gain)

    def _scores(
        self, tickets: Sequence[int], found: Sequence[Waited], others: Sequence[Mapping[str, float] | None]
    ) -> Floats:
        """Return the gains of local classifiers that were run only to be scored: [id, function]."""
        number_of = {name: number for number, name in enumerate(self.arms.own)}
        nothing, rows = [np.nan] * len(number_of), []
        for ticket, (used, _, _), gains in zip(tickets, found, others, strict=True):
            row = nothing.copy()
            for name, gain in (gains or {}).items():
                arm = number_of.get(name, used)
                if arm == used:
                    self.arms.number(name)  # raises if there is none
                    raise ArmError(f"decision {ticket} of site {self.name!r} cannot score {name!r} beside its arm")
                if type(gain) is not float or not 0.0 <= gain <= 1.0:
                    check_unit("gain", gain, f"{name!r} for decision {ticket} of site {self.name!r}")
                row[arm] = gain
            rows.append(row)
        return np.array(rows, np.float64)

    @one_at_a_time
    def withdraw(self, decision: int) -> None:
        """Take a decision back: it no longer counts, and no label is expected."""
        self.withdraw_many([decision])

    @one_at_a_time
    def withdraw_many(self, decisions: Iterable[int]) -> list[Waited]:
        """Take decisions and answers back; returns (arm, kind, arrival) of each."""
        tickets, found = self.look_up(as_list("decisions", decisions, "a list of ids"))
        self.check_different(tickets)
        entry_points.strike_many(self.memory.arrays, np.array(tickets, np.int64))
        self.forget_notes(tickets)
        return found

    @one_at_a_time
    def fail(self, decision: int) -> int:
        """Take a decision back because its arm has failed: never a reward. Returns what `choose` takes as `again`."""
        ((_, _, arrival),) = self.withdraw_many([decision])
        return arrival

    def forget_notes(self, tickets: Sequence[int]) -> None:
        """Forget the notes of ids that wait no longer."""
        notes = self.registry.notes
        if notes and len(tickets) == 1:
            notes.pop(tickets[0], None)
        elif notes:
            deque(map(notes.pop, tickets, repeat(None)), 0)  # a loop without a line of Python for each

    @one_at_a_time
    def take_overdue(self) -> list[int]:
        """Return the ids that have become overdue since the last call."""
        overdue = [ticket for ticket, _, _ in self.registry.take_overdue()]
        self.forget_notes(overdue)
        return overdue


def _as_array(tickets: Sequence[int]) -> Ints:
    """Return ids as an array; those of a batch follow each other."""
    if isinstance(tickets, range):
        return np.arange(tickets.start, tickets.stop, tickets.step, dtype=np.int64)
    return np.array(tickets, np.int64)
