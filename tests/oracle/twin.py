"""A slow, literal twin of the learner: the rules as plain loops, for tests that demand exact equality."""

import itertools
import math
from collections.abc import Iterable
from copy import deepcopy

from tests.oracle.twin_clock import TwinClock
from tests.oracle.twin_draws import (
    ANSWER_OWED,
    ANSWER_TIE,
    ANYTHING_OWED,
    BEST_TIE,
    OWN_OWED,
    PEER_OWED,
    PEER_UNTRAINED,
    PER_ASKED,
    draw,
    hash_words,
)
from tests.oracle.twin_values import (
    Ask,
    CellKey,
    Context,
    Pick,
    Place,
    TwinAnswer,
    TwinArm,
    TwinCell,
    TwinChoice,
    TwinSettings,
    Waiting,
    cell_of,
    count_of,
    net_mean,
)

__all__ = ["Twin", "draw"]


class Twin(TwinClock):
    """One learner, followed literally."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with no item seen and no cell visited."""
        super().__init__(settings)
        self.siblings: list[Twin] = [self]  # the twins of all views, this one among them
        self._own = dict(settings.own)
        self._peers = dict(settings.peers)
        self._announced = dict.fromkeys(settings.peers, 1)  # how many functions a peer says it has
        self._keys = hash_words(f"{settings.seed}/{settings.name}")
        self._keeps_late_labels = settings.doubling == "keep"  # those whose cell is no longer in use
        self._cells: dict[CellKey, TwinCell] = {}
        self._waiting: dict[int, Waiting] = {}
        self._next_id = 1
        self._slices = self._slices_now()

    def choose(self, context: Context, ask: Ask) -> TwinChoice:
        """Decide which arm the next own item goes to."""
        self.begin_arrival()
        for id in self.overdue_ids():
            self.overdue(id)
        self.begin_era()
        place = self.enter(context)
        pick = self.pick(place, ask)
        choice = self.enter_choice(place, pick)
        self._limit_waiting()
        return choice

    def answer(self, context: Context, caller: str, request: int, training: bool) -> TwinAnswer:
        """Answer a peer's call from the own functions only."""
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

    def learn(self, id: int, gain: float, cost: float | None = None) -> None:
        """Take the label of an own decision or of an answer; KeyError when the id is not waiting."""
        waited = self._waiting.pop(id)
        if self._is_in_its_cell(waited):
            self._count_waiting(self._cells[waited.cell], waited, -1)
        if self._is_wanted(waited):
            self._apply_label(self._cells.get(self._find(waited.point)), waited, self.reward(waited, gain, cost))

    def cost(self, arm: str) -> float:
        """Return what an arm costs now."""
        return self._group_of(arm)[arm]

    def set_cost(self, arm: str, cost: float) -> None:
        """Change what an arm costs from now on."""
        self._group_of(arm)[arm] = cost

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
        self._announced.pop(arm, None)
        for cell in self._cells.values():
            del cell.arms[arm]
        self._waiting = {id: waited for id, waited in self._waiting.items() if waited.arm != arm}

    def cells(self) -> dict[CellKey, TwinCell]:
        """Return a copy of every visited cell."""
        return deepcopy(self._cells)

    def cell_count(self) -> int:
        """Return how many cells were visited."""
        return len(self._cells)

    def views(self) -> "list[Twin]":
        """Return the twins that look at some of the axes each: this one looks at all of them."""
        return [self]

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
        cell.arrivals += 1  # whatever arm is used (SPEC 2)
        if phase == "train":
            cell.arms[arm].training_count += 1
        decision = self.wait_for({"train": "training", "look": "look"}.get(phase, "own"), arm, place)
        self._after_choice(cell)
        return TwinChoice(decision, "explore" if phase == "look" else phase, arm, place[1], candidates)

    def pick_answer(self, place: Place, caller: str, request: int, training: bool) -> str:
        """Choose the own function that answers."""
        cell = self._look(place[1])
        owed = self._owed(cell, self._own) if training else []
        candidates, purpose = (owed, ANSWER_OWED) if owed else (self._best(cell, self._own), ANSWER_TIE)
        return self._one_of(candidates, purpose, request, hash_words(caller)[0])

    def enter_report(self, place: Place, peer: str, told: tuple[int, int]) -> None:
        """Take what a peer told about the item that was entered there."""
        self._refresh(self._cells[place[1]], peer, told)

    # The choice (SPEC 2; exactness: Order `random`)

    def _pick(self, cell: TwinCell, ask: Ask) -> Pick:
        if self._settings.order == "random":
            pick = self._pick_random(cell, ask)
        elif self._settings.order == "train_first":
            pick = self._train(cell, ask) or self._explore(cell, self._own, OWN_OWED)
        else:
            pick = self._explore(cell, self._own, OWN_OWED) or self._train(cell, ask)
        # In order `random` an empty draw leaves no peer owed either, so the next line only exploits.
        return pick or self._explore(cell, self._peers, PEER_OWED) or self._exploit(cell)

    def _owed(self, cell: TwinCell, group: Iterable[str]) -> list[str]:
        """Rewards received plus choices that still wait count against D1 or D3 (exactness: Arithmetic)."""
        return [name for name in group if count_of(cell.arms[name]) <= self._quota(cell)]

    def _explore(self, cell: TwinCell, group: dict[str, float], purpose: int) -> Pick | None:
        owed = self._owed(cell, group)
        return ("explore", self._one_of(owed, purpose, self._next_id), len(owed)) if owed else None

    def _train(self, cell: TwinCell, ask: Ask) -> Pick | None:
        asked = 0
        # A peer that was asked is either trained at once or no longer in the list: never asked twice.
        while stale := [name for name in self._peers if self._is_untrained(cell, name)]:
            peer = self._one_of(stale, PEER_UNTRAINED + PER_ASKED * asked, self._next_id)
            self._refresh(cell, peer, ask(peer))
            asked += 1
            if self._is_untrained(cell, peer):
                return "train", peer, len(stale)
        return None

    def _exploit(self, cell: TwinCell) -> Pick:
        best = self._best(cell, {**self._own, **self._peers})
        return "exploit", self._one_of(best, BEST_TIE, self._next_id), len(best)

    def _pick_random(self, cell: TwinCell, ask: Ask) -> Pick | None:
        asked = 0
        arms = {**self._own, **self._peers}
        while owed := [arm for arm in arms if self._owed(cell, [arm]) or self._is_untrained(cell, arm)]:
            arm = self._one_of(owed, ANYTHING_OWED + PER_ASKED * asked, self._next_id)
            if self._is_untrained(cell, arm):
                self._refresh(cell, arm, ask(arm))
                asked += 1
                if self._is_untrained(cell, arm):
                    return "train", arm, len(owed)
            if self._owed(cell, [arm]):
                return "explore", arm, len(owed)
        return None

    def _is_untrained(self, cell: TwinCell, arm: str) -> bool:
        return arm in self._peers and cell.arms[arm].training_count <= self._training_quota(cell)

    def _refresh(self, cell: TwinCell, peer: str, told: tuple[int, int]) -> None:
        """Replace the cached training count (exactness: Asking and training)."""
        arrivals, taught = told
        arm = cell.arms[peer]
        mine = taught if self._settings.training_count == "reported" else arm.my_training_count
        arm.training_count = arrivals + mine + arm.training_waiting_count

    def _best(self, cell: TwinCell, costs: dict[str, float]) -> list[str]:
        means = {name: net_mean(cell.arms[name], cost) for name, cost in costs.items()}
        largest = max(means.values())
        return [name for name, mean in means.items() if mean == largest]

    def _one_of(self, candidates: list[str], purpose: int, number: int, word: int = 0) -> str:
        if len(candidates) == 1:
            return candidates[0]
        return candidates[(draw(self._keys, word, number, purpose) * len(candidates)) >> 32]

    # Quotas and cells (exactness: Arithmetic)

    def _training_quota(self, cell: TwinCell) -> float:
        """D2."""
        return self._max_peer_functions() * self._quota(cell)

    def _max_peer_functions(self) -> int:
        if self._settings.max_peer_functions is not None:
            return self._settings.max_peer_functions
        return max(self._announced.values(), default=1)

    def _find(self, point: Context) -> CellKey:
        """Return the cell that holds a point, visited or not."""
        return cell_of(point, self._slices)

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

    def _group_of(self, arm: str) -> dict[str, float]:
        for group in (self._own, self._peers):
            if arm in group:
                return group
        raise KeyError(arm)

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
        self._waiting[id] = Waiting(kind, arm, point, key, self._arrivals, self._era)
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

    def _is_wanted(self, waited: Waiting) -> bool:
        """Tell whether a label still changes something."""
        return self._is_in_its_cell(waited) or self._keeps_late_labels

    def waiting(self, id: int) -> Waiting:
        """Return what is owed a label; KeyError when the id is not waiting."""
        return self._waiting[id]

    def judged_by(self, waited: Waiting) -> TwinCell | None:
        """Return the visited cell that holds a context by now, wanted or not (exactness: Views)."""
        point = waited.point
        if waited.era != self._era:  # its time was that of an earlier phase
            point = (*point[: self._settings.dimensions], *self._time(1))
        return self._cells.get(self._find(point))

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
        if waited.kind != "look":
            cell.arms[waited.arm].reward_count += 1
            cell.arms[waited.arm].reward_sum += reward
        if waited.kind == "answer":
            cell.taught += 1

    def default_reward(self, id: int) -> float | None:
        """Return the reward that an overdue one gets instead of being dropped."""
        return self._settings.default_reward if self._waiting[id].kind in ("own", "look") else None

    def overdue(self, id: int) -> None:
        """Wait no longer (exactness: Waiting)."""
        default = self.default_reward(id)
        if default is not None:
            self.learn(id, default)
            return
        waited = self._waiting.pop(id)
        if self._is_in_its_cell(waited):  # other cells know nothing of it as waiting
            cell = self._cells[waited.cell]
            self._count_waiting(cell, waited, -1)
            if waited.kind == "training":
                cell.arms[waited.arm].training_count -= 1

    # Arrivals and doubling (exactness: Waiting, Doubling)

    def overdue_ids(self) -> list[int]:
        """Return what has waited for too long by now."""
        limit = math.inf if self._settings.wait_limit is None else self._settings.wait_limit
        return [id for id in sorted(self._waiting) if self._arrivals - self._waiting[id].arrival > limit]

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
        for axes in itertools.product(range(self._slices), repeat=self._axes):
            source = cell_of(tuple((index + 0.5) / self._slices for index in axes), old_slices)
            if source in old_cells:
                cell = self._cells[self._slices, axes] = deepcopy(old_cells[source])
                for arm in cell.arms.values():
                    arm.waiting_count = arm.training_waiting_count = 0
