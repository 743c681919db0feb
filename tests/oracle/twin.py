"""A slow, literal twin of the learner: the rules as plain loops, for tests that demand exact equality."""

import itertools
import math
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace

from tests.oracle.twin_draws import ANSWER_OWED, ANSWER_TIE, draw, hash_words
from tests.oracle.twin_rule import TwinRule
from tests.oracle.twin_values import (
    NO_SCORES,
    Ask,
    CellKey,
    Codes,
    Context,
    Pick,
    Place,
    Scores,
    TwinAnswer,
    TwinArm,
    TwinCell,
    TwinChoice,
    TwinSettings,
    Waiting,
)

__all__ = ["Twin", "draw"]


class Twin(TwinRule):
    """One learner, followed literally."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with no item seen and no cell visited."""
        super().__init__(settings)
        self._keeps_late_labels = settings.doubling == "keep"  # those whose cell is no longer in use
        self._cells: dict[CellKey, TwinCell] = {}
        self._waiting: dict[int, Waiting] = {}
        self._slices = self._slices_now()

    def choose(self, context: Context, ask: Ask, without: Iterable[str] = (), again: int = 0) -> TwinChoice:
        """Decide which arm the next own item goes to, or one that came before."""
        self.begin_choice(again)
        self.left_out = set(without)
        if not again:
            for id in self.overdue_ids():
                self.overdue(id)
            self.begin_era()
        place = self.enter(context)
        pick = self.pick(place, ask)
        choice = self.enter_choice(place, pick)
        self.end_choice()
        self._limit_waiting()
        return choice

    def answer(
        self, context: Context, caller: str, request: int, training: bool, without: Iterable[str] = ()
    ) -> TwinAnswer:
        """Answer a peer's call from the own functions only."""
        self.left_out = set(without)
        is_labelled = training or self.shares_all()
        place = self.enter(context) if is_labelled else self.look_up(context)
        function = self.pick_answer(place, caller, request, training)
        ticket = self.wait_for("answer", function, place) if is_labelled else None
        self._limit_waiting()
        return TwinAnswer(function, ticket)

    def report(self, context: Context) -> tuple[int, int]:
        """Return (arrivals, taught) of the cell that holds the context."""
        cell = self._look(self._find(self._point(context)))
        return cell.arrivals, cell.taught

    def learn(self, id: int, gain: float, cost: float | None = None, others: Scores = NO_SCORES) -> None:
        """Take the label of an own decision or of an answer; KeyError when the id is not waiting.

        `others` is what it says of own functions that were not used (SPEC 7: scoring local classifiers).
        """
        waited = self._waiting.pop(id)
        if self._is_in_its_cell(waited):
            self._count_waiting(self._cells[waited.cell], waited, -1)
        if self._is_wanted(waited):
            self._apply_label(self._cells.get(self._find(waited.point)), waited, self.reward(waited, gain, cost))
            for name in (name for name in self._own if name in others):
                self._add_reward(
                    self._cells.get(self._find(waited.point)), replace(waited, kind="own", arm=name), others[name]
                )

    def fail(self, id: int) -> int:
        """Take a decision back; return the arrival number of its item."""
        arrival = self._waiting[id].arrival
        self.withdraw(id)
        return arrival

    def withdraw(self, id: int) -> None:
        """Wait no longer: the choice no longer counts, nor does the training in the cached count."""
        waited = self._waiting.pop(id)
        if self._is_in_its_cell(waited):  # other cells know nothing of it as waiting
            cell = self._cells[waited.cell]
            self._count_waiting(cell, waited, -1)
            if waited.kind == "training":
                cell.arms[waited.arm].training_count -= 1

    def add_own(self, name: str, cost: float) -> None:
        """Let an own function join, after the other own ones."""
        self._join(self._own, name, cost)

    def add_peer(self, name: str, cost: float, functions: int = 1) -> None:
        """Let a peer join, at the end."""
        self._announced[name] = functions
        self._join(self._peers, name, cost)

    def remove(self, arm: str) -> None:
        """Let an arm leave; what waits on it is forgotten, nothing else is lost."""
        del self._group_of(arm)[arm]
        self._paused.discard(arm)
        self._announced.pop(arm, None)
        for cell in self._cells.values():
            del cell.arms[arm]
        self._waiting = {id: waited for id, waited in self._waiting.items() if waited.arm != arm}

    def cells(self) -> dict[CellKey, TwinCell]:
        """Return every visited cell, to look at."""
        return self._cells

    def arrivals(self) -> int:
        """Return how many items have come."""
        return self._arrivals

    def waiting_arrivals(self) -> dict[int, int]:
        """Return the arrival number of all that waits, by id."""
        return {id: waited.arrival for id, waited in self._waiting.items()}

    def shares_all(self) -> bool:
        """Tell whether the label is passed on after every call."""
        return self._settings.share_labels == "always"

    # The steps of a choice and of an answer

    def enter(self, context: Context) -> Place:
        """Return where the context belongs by now: a cell that is visited from now on."""
        point = self._point(context)
        return point, self._enter(point)

    def look_up(self, context: Context) -> Place:
        """Return the cell that holds the context by now, visited or not."""
        point = self._point(context)
        return point, self._find(point)

    def pick(self, place: Place, ask: Ask) -> Pick:
        """Choose an arm for an item that was entered there."""
        return self._pick(self._cells[place[1]], ask)

    def enter_choice(self, place: Place, pick: Pick) -> TwinChoice:
        """Count what was chosen and wait for its label."""
        phase, arm, candidates = pick
        cell = self._cells[place[1]]
        cell.arrivals += 0 if self._again else 1  # whatever arm is used (SPEC 2)
        if phase == "train":
            cell.arms[arm].training_count += 1
        decision = self.wait_for("training" if phase == "train" else "own", arm, place)
        if not self._again:
            self._after_choice(cell)
        return TwinChoice(decision, phase, arm, place[1], candidates)

    def pick_answer(self, place: Place, caller: str, request: int, training: bool) -> str:
        """Choose the own function that answers."""
        cell = self._look(place[1])
        owed = self._owed(cell, self._own) if training else []
        candidates, purpose = (owed, ANSWER_OWED) if owed else (self._best(cell, self._in(self._own)), ANSWER_TIE)
        return self._one_of(candidates, purpose, request, hash_words(caller)[0])

    def _find(self, point: Context) -> CellKey:
        """Return the cell that holds a point, visited or not."""
        return self._cell_of(point, self._slices)

    def _look(self, key: CellKey) -> TwinCell:
        """Return the cell, or a blank one that is not kept: being asked is no visit."""
        return self._cells.get(key, self._blank())

    def _enter(self, point: Context) -> CellKey:
        """Return the cell that holds a point, visited from now on."""
        key = self._find(point)
        self._cells[key] = self._look(key)
        return key

    def _after_choice(self, cell: TwinCell) -> None:
        """Cubes may split here."""

    def _blank(self) -> TwinCell:
        return TwinCell(arms={name: TwinArm() for name in (*self._own, *self._peers)})

    def _join(self, group: dict[str, float], name: str, cost: float) -> None:
        group[name] = cost
        for cell in self._cells.values():
            cell.arms[name] = TwinArm()

    # Labels and waiting (exactness: Arithmetic, Waiting)

    def wait_for(self, kind: str, arm: str, place: Place) -> int:
        """Wait for the label of something that was entered there; return its id."""
        point, key = place
        id = self._next_id
        self._next_id += 1
        self._waiting[id] = Waiting(kind, arm, point, key, self._number(), self._era)
        self._count_waiting(self._cells[key], self._waiting[id], 1)
        return id

    def _limit_waiting(self) -> None:
        for id in self.too_many_ids():
            self.overdue(id)

    def too_many_ids(self) -> list[int]:
        """Return the oldest id if more wait than may."""
        return [min(self._waiting)] if len(self._waiting) > self._settings.max_waiting else []

    def _is_in_its_cell(self, waited: Waiting) -> bool:
        """Tell whether it was entered in the very cell that holds it now."""
        return waited.era == self._era and waited.cell == self._find(waited.point)

    def _count_waiting(self, cell: TwinCell, waited: Waiting, change: int) -> None:
        if waited.kind == "training":
            cell.arms[waited.arm].training_waiting_count += change
        else:
            cell.arms[waited.arm].waiting_count += change
            cell.arms[waited.arm].answering_count += change if waited.kind == "answer" else 0

    def _is_wanted(self, waited: Waiting) -> bool:
        """Tell whether a label still changes something."""
        return self._is_in_its_cell(waited) or self._keeps_late_labels

    def reward(self, waited: Waiting, gain: float, cost: float | None) -> float:
        """Return what a label adds to the estimate (exactness: Arithmetic)."""
        return gain if cost is None else gain - cost + self.cost(waited.arm)

    def _apply_label(self, cell: TwinCell | None, waited: Waiting, reward: float) -> None:
        if cell is not None and waited.kind != "answer":
            cell.labels += 1
        if waited.kind != "training":
            self._add_reward(cell, waited, reward)
        elif cell is not None:
            cell.arms[waited.arm].my_training_count += 1  # NOT the caller's mean or count of the peer (SPEC 2)

    def _add_reward(self, cell: TwinCell | None, waited: Waiting, reward: float) -> None:
        if cell is None:
            return
        cell.arms[waited.arm].reward_count += 1
        cell.arms[waited.arm].reward_sum += reward
        if waited.kind == "answer":
            cell.taught += 1

    def default_reward(self, id: int) -> float | None:
        """Return the reward that an overdue one gets instead of being dropped."""
        return self._settings.default_reward if self._waiting[id].kind == "own" else None

    def overdue(self, id: int) -> None:
        """Wait no longer (exactness: Waiting)."""
        default = self.default_reward(id)
        if default is not None:
            self.learn(id, default)
            return
        self.withdraw(id)

    # Arrivals and doubling (exactness: Waiting, Doubling)

    def overdue_ids(self) -> list[int]:
        """Return what has waited for too long by now: in the order of ids, up to the first that has not."""
        limit = math.inf if self._settings.wait_limit is None else self._settings.wait_limit
        return list(
            itertools.takewhile(lambda id: self._arrivals - self._waiting[id].arrival > limit, sorted(self._waiting))
        )

    def begin_era(self) -> None:
        """Start the next phase if the last one is over."""
        if self._is_doubling and self._arrivals - self._era_start > self._length():
            self._next_era()

    def _next_era(self) -> None:
        self._era += 1
        self._era_start = self._arrivals - 1
        old_cells, old_slices = self._cells, self._slices
        self._cells, self._slices = {}, self._slices_now()
        if self._settings.doubling == "reset":
            return
        for codes in {self._codes_of(key) for key in old_cells}:
            self._keep_cells(codes, old_cells, old_slices)

    def _keep_cells(self, codes: Codes, old_cells: dict[CellKey, TwinCell], old_slices: int) -> None:
        """Begin the cells with these codes whose centres lie in visited cells of the old partition."""
        for centre in itertools.product(
            [(index + 0.5) / self._slices for index in range(self._slices)], repeat=self._axes
        ):
            code, number = iter(codes), iter(centre)
            point = tuple(
                float(next(code)) if axis in self._settings.categories else next(number)
                for axis in range(len(codes) + self._axes)
            )
            source = self._cell_of(point, old_slices)
            if source in old_cells:
                cell = self._cells[self._cell_of(point, self._slices)] = deepcopy(old_cells[source])
                for arm in cell.arms.values():
                    arm.waiting_count = arm.answering_count = arm.training_waiting_count = 0
