"""A slow, literal twin of the learner: the rules as plain loops, for tests that demand exact equality."""

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b

Context = tuple[float, ...]
CellKey = tuple[int, ...]
Ask = Callable[[str], tuple[int, int]]
Pick = tuple[str, str, int]  # phase, arm, number of candidates

WORD = 0xFFFFFFFF  # all words are 32 bits (exactness: Draws)

# Purposes of draws (exactness: Draws). Asking again moves the purpose on by 8 per peer asked.
OWN_OWED, PEER_UNTRAINED, PEER_OWED, BEST_TIE, ANSWER_OWED, ANSWER_TIE, ANYTHING_OWED, PER_ASKED = range(1, 9)


@dataclass(frozen=True, kw_only=True)
class TwinSettings:
    """Everything a twin is told before its first item."""

    name: str
    seed: int
    own: dict[str, float]
    peers: dict[str, float]
    dimensions: int
    horizon: int | None = None
    alpha: float = 1.0
    slices: int | None = None
    exploration_exponent: float | None = None
    max_cells: int | None = None
    max_peer_functions: int = 1
    order: str = "pseudocode"
    training_count: str = "reported"
    doubling: str = "reset"
    time_dimension: bool = False
    share_labels: str = "training"
    wait_limit: int | None = None
    max_waiting: int = 1_000_000
    default_reward: float | None = None


@dataclass(frozen=True)
class TwinChoice:
    """What was decided for one own item."""

    id: int
    phase: str
    arm: str
    cell: CellKey
    candidates: int


@dataclass(frozen=True)
class TwinAnswer:
    """Which own function answers a call; the ticket is None when no label will follow."""

    function: str
    ticket: int | None


@dataclass
class TwinArm:
    """The numbers of one arm in one cell."""

    reward_count: int = 0
    reward_sum: float = 0.0
    waiting_count: int = 0
    training_count: int = 0
    my_training_count: int = 0
    training_waiting_count: int = 0


@dataclass
class TwinCell:
    """The numbers of one cell."""

    arrivals: int = 0
    taught: int = 0
    arms: dict[str, TwinArm] = field(default_factory=dict)


@dataclass(frozen=True)
class _Waiting:
    """Something that is owed a label. `kind` is "own" (explore or exploit), "training" or "answer"."""

    kind: str
    arm: str
    context: Context
    cell: CellKey
    arrival: int
    era: int


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


def net_mean(arm: TwinArm, cost: float) -> float:
    """Return the mean reward minus the cost; the mean of nothing is 0 (exactness: Arithmetic)."""
    quotient = arm.reward_sum / arm.reward_count if arm.reward_count > 0 else 0.0
    return quotient - cost


def cell_of(point: Context, slices: int) -> CellKey:
    """Return the index on every axis (exactness: Arithmetic)."""
    return tuple(min(math.floor(slices * x), slices - 1) for x in point)


class Twin:
    """One learner, followed literally."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with no item seen and no cell visited."""
        self._settings = settings
        self._own = dict(settings.own)
        self._peers = dict(settings.peers)
        self._keys = hash_words(f"{settings.seed}/{settings.name}")
        self._axes = settings.dimensions + (1 if settings.time_dimension else 0)
        self._is_doubling = settings.horizon is None and settings.slices is None
        self._cells: dict[CellKey, TwinCell] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._next_id = 1
        self._arrivals = 0  # never reset: waiting is measured in it (exactness: Waiting)
        self._era = 1  # the doubling phase; stays 1 without doubling
        self._era_start = 0  # arrivals before this doubling phase
        self._slices = self._slices_now()

    def choose(self, context: Context, ask: Ask) -> TwinChoice:
        """Decide which arm the next own item goes to."""
        self._begin_arrival()
        key = self._locate(context)
        cell = self._visit(key)
        phase, arm, candidates = self._pick(cell, ask)
        cell.arrivals += 1  # whatever arm is used (SPEC 2)
        if phase == "train":
            cell.arms[arm].training_count += 1
        decision = self._wait_for("training" if phase == "train" else "own", arm, context, key)
        return TwinChoice(decision, phase, arm, key, candidates)

    def answer(self, context: Context, caller: str, request: int, training: bool) -> TwinAnswer:
        """Answer a peer's call from the own functions only."""
        key = self._locate(context)
        cell = self._peek(key)
        owed = self._owed(cell, self._own) if training else []
        candidates, purpose = (owed, ANSWER_OWED) if owed else (self._best(cell, self._own), ANSWER_TIE)
        function = self._one_of(candidates, purpose, request, hash_words(caller)[0])
        if not training and self._settings.share_labels != "always":
            return TwinAnswer(function, None)
        return TwinAnswer(function, self._wait_for("answer", function, context, key))

    def report(self, context: Context) -> tuple[int, int]:
        """Return (arrivals, taught) of the cell that holds the context."""
        cell = self._peek(self._locate(context))
        return cell.arrivals, cell.taught

    def learn(self, id: int, gain: float, cost: float | None = None) -> None:
        """Take the label of an own decision or of an answer; KeyError when the id is not waiting."""
        waited = self._waiting.pop(id)
        if waited.era == self._era:
            cell = self._cells[waited.cell]
            self._count_waiting(cell, waited, -1)
        elif self._settings.doubling == "keep":
            # Nothing was carried over as waiting; the label goes where its context now lies.
            cell = self._visit(self._locate(waited.context))
        else:
            return  # reset: a label of an earlier phase changes no counter
        self._apply_label(cell, waited, gain, cost)

    def set_cost(self, arm: str, cost: float) -> None:
        """Change what an arm costs from now on."""
        self._group_of(arm)[arm] = cost

    def add_own(self, name: str, cost: float) -> None:
        """Let an own function join, after the other own ones."""
        self._join(self._own, name, cost)

    def add_peer(self, name: str, cost: float) -> None:
        """Let a peer join, at the end."""
        self._join(self._peers, name, cost)

    def remove(self, arm: str) -> None:
        """Let an arm leave; what waits on it is forgotten, nothing else is lost."""
        del self._group_of(arm)[arm]
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
        arms = {name: cell.arms[name] for name in group}
        return [name for name, arm in arms.items() if arm.reward_count + arm.waiting_count <= self._quota()]

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
        limit = self._settings.max_peer_functions * self._quota()
        return arm in self._peers and cell.arms[arm].training_count <= limit

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

    def _quota(self) -> float:
        """D1 and D3; D2 is max_peer_functions times this."""
        alpha, exponent = self._settings.alpha, self._settings.exploration_exponent
        if exponent is None:
            exponent = 2 * alpha / (3 * alpha + self._axes)
        log_step = math.log(self._step())
        return math.exp(exponent * log_step) * log_step

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

    def _locate(self, context: Context) -> CellKey:
        time = (min(1.0, self._step() / self._length()),) if self._settings.time_dimension else ()
        return cell_of((*context, *time), self._slices)

    def _peek(self, key: CellKey) -> TwinCell:
        """Return the cell, or a blank one that is not kept: being asked is no visit."""
        blank = TwinCell(arms={name: TwinArm() for name in (*self._own, *self._peers)})
        return self._cells.get(key, blank)

    def _visit(self, key: CellKey) -> TwinCell:
        return self._cells.setdefault(key, self._peek(key))

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

    def _wait_for(self, kind: str, arm: str, context: Context, key: CellKey) -> int:
        id = self._next_id
        self._next_id += 1
        self._waiting[id] = _Waiting(kind, arm, context, key, self._arrivals, self._era)
        self._count_waiting(self._visit(key), self._waiting[id], 1)
        if len(self._waiting) > self._settings.max_waiting:
            self._overdue(min(self._waiting))
        return id

    def _count_waiting(self, cell: TwinCell, waited: _Waiting, change: int) -> None:
        if waited.kind == "training":
            cell.arms[waited.arm].training_waiting_count += change
        else:
            cell.arms[waited.arm].waiting_count += change

    def _apply_label(self, cell: TwinCell, waited: _Waiting, gain: float, cost: float | None) -> None:
        arm = cell.arms[waited.arm]
        if waited.kind == "training":
            arm.my_training_count += 1  # NOT the caller's mean or count of the peer (SPEC 2)
            return
        if cost is not None:
            gain = gain - cost + self._group_of(waited.arm)[waited.arm]
        arm.reward_count += 1
        arm.reward_sum += gain
        if waited.kind == "answer":
            cell.taught += 1

    def _overdue(self, id: int) -> None:
        waited = self._waiting.pop(id)
        if waited.era != self._era:
            return  # an earlier phase left nothing waiting, so nothing changes (exactness: Doubling)
        cell = self._cells[waited.cell]
        self._count_waiting(cell, waited, -1)
        if waited.kind == "training":
            cell.arms[waited.arm].training_count -= 1
        elif waited.kind == "own" and self._settings.default_reward is not None:
            self._apply_label(cell, waited, self._settings.default_reward, None)

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
        for key in itertools.product(range(self._slices), repeat=self._axes):
            centre = tuple((index + 0.5) / self._slices for index in key)
            source = cell_of(centre, old_slices)
            if source in old_cells:
                self._cells[key] = deepcopy(old_cells[source])
                for arm in self._cells[key].arms.values():
                    arm.waiting_count = arm.training_waiting_count = 0
