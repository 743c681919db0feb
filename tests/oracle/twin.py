"""A slow, literal twin of the learner: the rules as plain loops, for tests that demand exact equality."""

import itertools
import math
from collections.abc import Iterable
from copy import deepcopy
from hashlib import blake2b

from tests.oracle.twin_values import (
    Ask,
    CellKey,
    Context,
    Pick,
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

WORD = 0xFFFFFFFF  # all words are 32 bits (exactness: Draws)

# Purposes of draws (exactness: Draws). Asking again moves the purpose on by 8 per peer asked.
OWN_OWED, PEER_UNTRAINED, PEER_OWED, BEST_TIE, ANSWER_OWED, ANSWER_TIE, ANYTHING_OWED, PER_ASKED = range(1, 9)


def mix(x: int) -> int:
    """Scramble one word (exactness: Draws)."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & WORD
    x = ((x ^ (x >> 15)) * 0x735A2D97) & WORD
    return x ^ (x >> 15)


def hash_words(text: str) -> tuple[int, int]:
    """Return the first and the second four bytes of the hash of a text."""
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def draw(keys: tuple[int, int], word: int, number: int, purpose: int) -> int:
    """Return the one word that (site, caller, number, purpose) stands for (exactness: Draws)."""
    low, high = number & WORD, (number >> 32) & WORD
    scatter = (purpose * 0x9E3779B1) & WORD
    return mix(mix(mix(low ^ keys[0]) ^ high ^ scatter) ^ keys[1] ^ word)


class Twin:
    """One learner, followed literally."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with no item seen and no cell visited."""
        self._settings = settings
        self._own = dict(settings.own)
        self._peers = dict(settings.peers)
        self._announced = dict.fromkeys(settings.peers, 1)  # how many functions a peer says it has
        self._keys = hash_words(f"{settings.seed}/{settings.name}")
        self._axes = settings.dimensions + (1 if settings.time_dimension else 0)
        self._is_doubling = settings.horizon is None and settings.slices is None
        self._keeps_late_labels = settings.doubling == "keep"  # those whose cell is no longer in use
        self._cells: dict[CellKey, TwinCell] = {}
        self._waiting: dict[int, Waiting] = {}
        self._next_id = 1
        self._arrivals = 0  # never reset: waiting is measured in it (exactness: Waiting)
        self._era = 1  # the doubling phase; stays 1 without doubling
        self._era_start = 0  # arrivals before this doubling phase
        self._slices = self._slices_now()

    def choose(self, context: Context, ask: Ask) -> TwinChoice:
        """Decide which arm the next own item goes to."""
        self._begin_arrival()
        point = self._point(context)
        key = self._enter(point)
        cell = self._cells[key]
        phase, arm, candidates = self._pick(cell, ask)
        cell.arrivals += 1  # whatever arm is used (SPEC 2)
        if phase == "train":
            cell.arms[arm].training_count += 1
        decision = self._wait_for("training" if phase == "train" else "own", arm, point, key)
        self._after_choice(cell)
        self._limit_waiting()
        return TwinChoice(decision, phase, arm, key, candidates)

    def answer(self, context: Context, caller: str, request: int, training: bool) -> TwinAnswer:
        """Answer a peer's call from the own functions only."""
        point = self._point(context)
        is_labelled = training or self._settings.share_labels == "always"
        key = self._enter(point) if is_labelled else self._find(point)
        cell = self._look(key)
        owed = self._owed(cell, self._own) if training else []
        candidates, purpose = (owed, ANSWER_OWED) if owed else (self._best(cell, self._own), ANSWER_TIE)
        function = self._one_of(candidates, purpose, request, hash_words(caller)[0])
        ticket = self._wait_for("answer", function, point, key) if is_labelled else None
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
        elif not self._keeps_late_labels:
            return
        key = self._find(waited.point)
        if key in self._cells:  # the cell that holds the context by now may be one that nothing was entered in
            self._apply_label(self._cells[key], waited, gain, cost)

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
            self._refresh(cell, peer, ask)
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
                self._refresh(cell, arm, ask)
                asked += 1
                if self._is_untrained(cell, arm):
                    return "train", arm, len(owed)
            if self._owed(cell, [arm]):
                return "explore", arm, len(owed)
        return None

    def _is_untrained(self, cell: TwinCell, arm: str) -> bool:
        return arm in self._peers and cell.arms[arm].training_count <= self._training_quota(cell)

    def _refresh(self, cell: TwinCell, peer: str, ask: Ask) -> None:
        """Replace the cached training count (exactness: Asking and training)."""
        arrivals, taught = ask(peer)
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

    # Steps, quotas and cells (exactness: Ids and steps, Arithmetic)

    def _step(self) -> int:
        """Return the step of the item being decided, or that of an answer: never below 1."""
        start = self._era_start if self._settings.doubling == "reset" else 0
        return max(1, self._arrivals - start)

    def _quota(self, cell: TwinCell) -> float:
        """D1 and D3."""
        alpha, exponent = self._settings.alpha, self._settings.exploration_exponent
        if exponent is None:
            exponent = 2 * alpha / (3 * alpha + self._axes)
        log_step = math.log(self._step())
        return math.exp(exponent * log_step) * log_step

    def _training_quota(self, cell: TwinCell) -> float:
        """D2."""
        return self._max_peer_functions() * self._quota(cell)

    def _max_peer_functions(self) -> int:
        if self._settings.max_peer_functions is not None:
            return self._settings.max_peer_functions
        return max(self._announced.values(), default=1)

    def _length(self) -> int:
        """Return the horizon, or the length of the doubling phase: 2, 4, 8, ..."""
        return 2**self._era if self._settings.horizon is None else self._settings.horizon

    def _slices_now(self, alphas: int = 3) -> int:
        slices = self._settings.slices
        if slices is None:
            power = 1 / (alphas * self._settings.alpha + self._axes)
            slices = max(1, math.ceil(float(self._length()) ** power - 1e-9))
        limit = self._settings.max_cells
        while limit is not None and slices > 1 and slices**self._axes > limit:
            slices -= 1
        return slices

    def _point(self, context: Context) -> Context:
        """Return the context, with the time as the last axis if it is one."""
        time = (min(1.0, self._step() / self._length()),) if self._settings.time_dimension else ()
        return (*context, *time)

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

    def _wait_for(self, kind: str, arm: str, point: Context, key: CellKey) -> int:
        id = self._next_id
        self._next_id += 1
        self._waiting[id] = Waiting(kind, arm, point, key, self._arrivals, self._era)
        self._count_waiting(self._cells[key], self._waiting[id], 1)
        return id

    def _limit_waiting(self) -> None:
        if len(self._waiting) > self._settings.max_waiting:
            self._overdue(min(self._waiting))

    def _is_in_its_cell(self, waited: Waiting) -> bool:
        """Tell whether it was entered in the very cell that holds it now."""
        return waited.era == self._era and waited.cell == self._find(waited.point)

    def _count_waiting(self, cell: TwinCell, waited: Waiting, change: int) -> None:
        if waited.kind == "training":
            cell.arms[waited.arm].training_waiting_count += change
        else:
            cell.arms[waited.arm].waiting_count += change

    def _apply_label(self, cell: TwinCell, waited: Waiting, gain: float, cost: float | None) -> None:
        if waited.kind == "training":
            cell.arms[waited.arm].my_training_count += 1  # NOT the caller's mean or count of the peer (SPEC 2)
            return
        if cost is not None:
            gain = gain - cost + self.cost(waited.arm)
        self._add_reward(cell, waited.arm, gain)
        if waited.kind == "answer":
            cell.taught += 1

    def _add_reward(self, cell: TwinCell, arm: str, gain: float) -> None:
        cell.arms[arm].reward_count += 1
        cell.arms[arm].reward_sum += gain

    def _overdue(self, id: int) -> None:
        waited = self._waiting.pop(id)
        if waited.kind == "own" and self._settings.default_reward is not None:
            self._waiting[id] = waited
            self.learn(id, self._settings.default_reward)
        elif self._is_in_its_cell(waited):  # other cells know nothing of it as waiting
            cell = self._cells[waited.cell]
            self._count_waiting(cell, waited, -1)
            if waited.kind == "training":
                cell.arms[waited.arm].training_count -= 1

    # Arrivals and doubling (exactness: Waiting, Doubling)

    def _begin_arrival(self) -> None:
        self._arrivals += 1
        limit = math.inf if self._settings.wait_limit is None else self._settings.wait_limit
        for id in sorted(self._waiting):
            if self._arrivals - self._waiting[id].arrival > limit:
                self._overdue(id)
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
