"""A slow, literal twin of the learner: the rules as plain loops, for tests that demand exact equality."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import blake2b

Context = tuple[float, ...]
CellKey = tuple[int, tuple[int, ...]]  # slices on every axis, and the index on every axis
Codes = tuple[int, ...]  # of the categories among the axes, in their order
Ask = Callable[[str], tuple[int, int] | None]  # what a peer tells; None: it cannot be asked now
Pick = tuple[str, str, int]  # phase, arm, number of candidates
Scores = Mapping[str, float]  # what own functions would have gained that were not used
NO_SCORES: Scores = {}


@dataclass(frozen=True, kw_only=True)
class TwinSettings:
    """Everything a twin is told before its first item. No policy has all of these options."""

    name: str
    seed: int
    own: dict[str, float]
    peers: dict[str, float]
    dimensions: int
    categories: frozenset[int] = frozenset()  # the axes that have codes
    horizon: int | None = None
    alpha: float = 1.0
    slices: int | None = None
    exploration_exponent: float | None = None
    max_cells: int | None = None
    max_peer_functions: int | None = None
    order: str = "pseudocode"
    training_count: str = "reported"
    share_labels: str = "training"
    split_after: float = 1.0
    inherit: float = 0.0
    lipschitz: float = 1.0
    contexts: str = "uniform"
    wait_limit: int | None = None
    max_pending: int = 1_000_000
    default_reward: float | None = None
    scores: bool = False  # labels say of every own function that costs nothing whether it was right
    share: float = 0.035  # this and the next three: MixedViews
    bonus: float = 0.05
    home_margin: float = 0.02
    adds_up: bool = True
    improving: frozenset[str] = frozenset()  # own functions that learn: only MixedViews looks at it


@dataclass(frozen=True)
class TwinChoice:
    """What was decided for one own item."""

    id: int
    phase: str
    arm: str
    cell: CellKey
    candidates: int
    view: int = 0


@dataclass(frozen=True)
class TwinAnswer:
    """Which own function answers a call; the ticket is None when no label will follow."""

    function: str
    ticket: int | None


@dataclass
class TwinArm:
    """The numbers of one arm in one cell. A child of a split cube may inherit a part of a reward."""

    reward_count: float = 0
    reward_sum: float = 0.0
    pending_count: int = 0
    answering_count: int = 0  # of these, answers to peers
    training_count: int = 0
    my_training_count: int = 0
    training_waiting_count: int = 0
    evidence: float = 0.0  # exactness, Mixed views: what it adds up


@dataclass
class TwinCell:
    """The numbers of one cell. Equal cells have level 0 and never split (exactness: Cubes that split)."""

    arrivals: int = 0
    taught: int = 0
    labels: int = 0  # of own items
    arms: dict[str, TwinArm] = field(default_factory=dict)
    level: int = 0
    is_split: bool = False


@dataclass(frozen=True)
class Waiting:
    """Something that is owed a label. `kind` is "own" (explore or exploit), "training" or "answer"."""

    kind: str
    arm: str
    point: Context
    cell: CellKey
    arrival: int
    era: int


def count_of(arm: TwinArm) -> float:
    return arm.reward_count + arm.pending_count


def mean_of(arm: TwinArm) -> float:
    """Return the mean reward; that of nothing is 0 (exactness: Arithmetic)."""
    return arm.reward_sum / arm.reward_count if arm.reward_count > 0 else 0.0


def net_mean(arm: TwinArm, cost: float) -> float:
    return mean_of(arm) - cost


WORD = 0xFFFFFFFF  # all words are 32 bits (exactness: Draws)

# Purposes of draws (exactness: Draws). Asking again moves the purpose on by 8 per peer asked.
OWN_OWED, PEER_UNTRAINED, PEER_OWED, BEST_TIE, ANSWER_OWED, ANSWER_TIE, ANYTHING_OWED, PER_ASKED = range(1, 9)


def mix(x: int) -> int:
    """Scramble one word (exactness: Draws)."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & WORD
    x = ((x ^ (x >> 15)) * 0x735A2D97) & WORD
    return x ^ (x >> 15)


def hash_words(text: str) -> tuple[int, int]:
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def draw(keys: tuple[int, int], word: int, number: int, purpose: int) -> int:
    """Return the one word that (site, caller, number, purpose) stands for (exactness: Draws)."""
    low, high = number & WORD, (number >> 32) & WORD
    scatter = (purpose * 0x9E3779B1) & WORD
    return mix(mix(mix(low ^ keys[0]) ^ high ^ scatter) ^ keys[1] ^ word)


class Twin:
    """One learner, followed literally (exactness: Ids and steps, Arithmetic, Categories, Doubling, Order `random`)."""

    keeps = False  # whether the counts stay when the guessed horizon doubles

    def __init__(self, settings: TwinSettings) -> None:
        self._settings = settings
        self._own, self._peers = dict(settings.own), dict(settings.peers)
        self._announced = dict.fromkeys(settings.peers, 1)  # how many functions a peer says it has
        self._keys = hash_words(f"{settings.seed}/{settings.name}")
        self._next_id = 1
        self._paused: set[str] = set()
        self.improving = set(settings.improving)
        self.left_out: set[str] = set()  # of the choice or the answer that is being made
        self._axes = settings.dimensions - len(settings.categories)  # that are cut
        self._is_doubling = settings.horizon is None and settings.slices is None
        self.arrivals = 0  # never reset: waiting is measured in it (exactness: Waiting)
        self._again = 0  # the arrival number of an item that is chosen for again; 0 while no such choice is made
        self._era = 1  # the doubling phase; stays 1 without doubling
        self._era_start = 0  # arrivals before this doubling phase
        self._keeps_late_labels = self.keeps  # those whose cell is no longer in use
        self.cells: dict[CellKey, TwinCell] = {}
        self.waiting: dict[int, Waiting] = {}
        self._slices = self._slices_now()

    def choose(self, context: Context, ask: Ask, without: Iterable[str] = (), again: int = 0) -> TwinChoice:
        """Decide which arm the next own item goes to, or one that came before."""
        self._arrive(again, without)
        if not again:
            self._begin_era()
        key = self._enter(context)
        cell = self.cells[key]
        phase, arm, candidates = self._pick(cell, ask)
        cell.arrivals += 0 if again else 1  # whatever arm is used (SPEC 2)
        if phase == "train":
            cell.arms[arm].training_count += 1
        id = self._wait_for("training" if phase == "train" else "own", arm, context, key)
        if not again:
            self._after_choice(cell)
        self._again = 0
        self._limit_waiting()
        return TwinChoice(id, phase, arm, key, candidates)

    def _arrive(self, again: int, without: Iterable[str]) -> None:
        """Begin a choice for a new item, or for one that came before."""
        self._again, self.left_out = again, set(without)
        if not again:
            self.arrivals += 1
            for id in self._overdue_ids():
                self._overdue(id)

    def answer(
        self, context: Context, caller: str, request: int, training: bool, without: Iterable[str] = ()
    ) -> TwinAnswer:
        """Answer a peer's call from the own functions only."""
        self.left_out = set(without)
        is_labelled = training or self.shares_all()
        key = self._enter(context) if is_labelled else self._find(context)
        function = self._pick_answer(self._look(key), caller, request, training)
        ticket = self._wait_for("answer", function, context, key) if is_labelled else None
        self._limit_waiting()
        return TwinAnswer(function, ticket)

    def report(self, context: Context) -> tuple[int, int]:
        cell = self._look(self._find(context))
        return cell.arrivals, cell.taught

    def learn(self, id: int, gain: float, cost: float | None = None, others: Scores = NO_SCORES) -> None:
        """Take the label of an own decision or of an answer; KeyError when the id is not waiting.

        `others` is what it says of own functions that were not used (SPEC 7: scoring local classifiers).
        """
        waited = self.waiting.pop(id)
        if self._is_in_its_cell(waited):
            self._count_waiting(self.cells[waited.cell], waited, -1)
        if self._is_wanted(waited):
            self._apply_label(self.cells.get(self._find(waited.point)), waited, self.reward(waited, gain, cost))
            for name in (name for name in self._own if name in others):
                self._add_reward(
                    self.cells.get(self._find(waited.point)), replace(waited, kind="own", arm=name), others[name]
                )

    def fail(self, id: int) -> int:
        """Take a decision back; return the arrival number of its item."""
        arrival = self.waiting[id].arrival
        self.withdraw(id)
        return arrival

    def withdraw(self, id: int) -> None:
        """Wait no longer: the choice no longer counts, nor does the training in the cached count."""
        waited = self.waiting.pop(id)
        if self._is_in_its_cell(waited):  # other cells know nothing of it as waiting
            cell = self.cells[waited.cell]
            self._count_waiting(cell, waited, -1)
            if waited.kind == "training":
                cell.arms[waited.arm].training_count -= 1

    def add_own(self, name: str, cost: float, *, improves: bool = False) -> None:
        if improves:
            self.improving.add(name)
        self._join(self._own, name, cost)

    def add_peer(self, name: str, cost: float, functions: int = 1) -> None:
        self._announced[name] = functions
        self._join(self._peers, name, cost)

    def remove(self, arm: str) -> None:
        del self._group_of(arm)[arm]
        self._paused.discard(arm)
        self.improving.discard(arm)
        self._announced.pop(arm, None)
        for cell in self.cells.values():
            del cell.arms[arm]
        self.waiting = {id: waited for id, waited in self.waiting.items() if waited.arm != arm}

    def shares_all(self) -> bool:
        return self._settings.share_labels == "always"

    def _pick_answer(self, cell: TwinCell, caller: str, request: int, training: bool) -> str:
        """Choose the own function that answers."""
        owed = self._owed(cell, self._own) if training else []
        candidates, purpose = (owed, ANSWER_OWED) if owed else (self._best(cell, self._in(self._own)), ANSWER_TIE)
        return self._one_of(candidates, purpose, request, hash_words(caller)[0])

    # Cells

    def _find(self, point: Context) -> CellKey:
        return self._cell_of(point, self._slices)

    def _look(self, key: CellKey) -> TwinCell:
        return self.cells.get(key, self._blank())

    def _enter(self, point: Context) -> CellKey:
        key = self._find(point)
        self.cells[key] = self._look(key)
        return key

    def _after_choice(self, cell: TwinCell) -> None:
        """Cubes may split here."""

    def _blank(self) -> TwinCell:
        return TwinCell(arms={name: TwinArm() for name in (*self._own, *self._peers)})

    def _join(self, group: dict[str, float], name: str, cost: float) -> None:
        group[name] = cost
        for cell in self.cells.values():
            cell.arms[name] = TwinArm()

    # Labels and waiting (exactness: Arithmetic, Waiting)

    def _wait_for(self, kind: str, arm: str, point: Context, key: CellKey) -> int:
        id = self._next_id
        self._next_id += 1
        self.waiting[id] = Waiting(kind, arm, point, key, self._number(), self._era)
        self._count_waiting(self.cells[key], self.waiting[id], 1)
        return id

    def _limit_waiting(self) -> None:
        if len(self.waiting) > self._settings.max_pending:
            self._overdue(min(self.waiting))

    def _is_in_its_cell(self, waited: Waiting) -> bool:
        return waited.era == self._era and waited.cell == self._find(waited.point)

    def _count_waiting(self, cell: TwinCell, waited: Waiting, change: int) -> None:
        if waited.kind == "training":
            cell.arms[waited.arm].training_waiting_count += change
        else:
            cell.arms[waited.arm].pending_count += change
            cell.arms[waited.arm].answering_count += change if waited.kind == "answer" else 0

    def _is_wanted(self, waited: Waiting) -> bool:
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

    def _overdue(self, id: int) -> None:
        """Wait no longer (exactness: Waiting)."""
        default = self._settings.default_reward
        if default is not None and self.waiting[id].kind == "own":
            self.learn(id, default)
        else:
            self.withdraw(id)

    # Arrivals and doubling (exactness: Waiting, Doubling)

    def _overdue_ids(self) -> list[int]:
        """Return what has waited for too long by now: in the order of ids, up to the first that has not."""
        limit = math.inf if self._settings.wait_limit is None else self._settings.wait_limit
        return list(
            itertools.takewhile(lambda id: self.arrivals - self.waiting[id].arrival > limit, sorted(self.waiting))
        )

    def _begin_era(self) -> None:
        """Start the next phase if the last one is over."""
        if self._is_doubling and self.arrivals - self._era_start > self._length():
            self._next_era()

    def _next_era(self) -> None:
        self._era += 1
        self._era_start = self.arrivals - 1
        old_cells, old_slices = self.cells, self._slices
        self.cells, self._slices = {}, self._slices_now()
        if not self.keeps:
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
                cell = self.cells[self._cell_of(point, self._slices)] = deepcopy(old_cells[source])
                for arm in cell.arms.values():
                    arm.pending_count = arm.answering_count = arm.training_waiting_count = 0

    # The choice among the arms (SPEC 2; exactness: Arms that are left out)

    def cost(self, arm: str) -> float:
        return self._group_of(arm)[arm]

    def set_cost(self, arm: str, cost: float) -> None:
        self._group_of(arm)[arm] = cost

    def pause(self, arm: str) -> None:
        self._paused.add(arm)

    def resume(self, arm: str) -> None:
        self._paused.discard(arm)

    def _group_of(self, arm: str) -> dict[str, float]:
        for group in (self._own, self._peers):
            if arm in group:
                return group
        raise KeyError(arm)

    def _is_out(self, arm: str) -> bool:
        return arm in self._paused or arm in self.left_out

    def _in(self, *groups: dict[str, float]) -> dict[str, float]:
        return {name: cost for group in groups for name, cost in group.items() if not self._is_out(name)}

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
        return [name for name in group if not self._is_out(name) and count_of(cell.arms[name]) <= self._quota(cell)]

    def _explore(self, cell: TwinCell, group: dict[str, float], purpose: int) -> Pick | None:
        owed = self._owed(cell, group)
        return ("explore", self._one_of(owed, purpose, self._next_id), len(owed)) if owed else None

    def _train(self, cell: TwinCell, ask: Ask) -> Pick | None:
        asked = 0
        # A peer that was asked is either trained at once or no longer in the list: never asked twice.
        while stale := [name for name in self._peers if self._is_untrained(cell, name)]:
            peer = self._one_of(stale, PEER_UNTRAINED + PER_ASKED * asked, self._next_id)
            asked += self._hear(cell, peer, ask)
            if self._is_untrained(cell, peer):
                return "train", peer, len(stale)
        return None

    def _exploit(self, cell: TwinCell) -> Pick:
        best = self._best(cell, self._in(self._own, self._peers))
        return "exploit", self._one_of(best, BEST_TIE, self._next_id), len(best)

    def _pick_random(self, cell: TwinCell, ask: Ask) -> Pick | None:
        asked = 0
        arms = {**self._own, **self._peers}
        while owed := [arm for arm in arms if self._owed(cell, [arm]) or self._is_untrained(cell, arm)]:
            arm = self._one_of(owed, ANYTHING_OWED + PER_ASKED * asked, self._next_id)
            if self._is_untrained(cell, arm):
                asked += self._hear(cell, arm, ask)
                if self._is_untrained(cell, arm):
                    return "train", arm, len(owed)
            if self._owed(cell, [arm]):
                return "explore", arm, len(owed)
        return None

    def _is_untrained(self, cell: TwinCell, arm: str) -> bool:
        is_peer = arm in self._peers and not self._is_out(arm)
        return is_peer and cell.arms[arm].training_count <= self._training_quota(cell)

    def _hear(self, cell: TwinCell, peer: str, ask: Ask) -> bool:
        """Ask a peer; one that does not tell is left out of the rest of the choice."""
        told = ask(peer)
        if told is None:
            self.left_out.add(peer)
            return False
        self._refresh(cell, peer, told)
        return True

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

    def _training_quota(self, cell: TwinCell) -> float:
        """D2."""
        return self._max_peer_functions() * self._quota(cell)

    def _max_peer_functions(self) -> int:
        if self._settings.max_peer_functions is not None:
            return self._settings.max_peer_functions
        return max(self._announced.values(), default=1)

    # Steps, quotas and cells

    def _number(self) -> int:
        """Return the arrival number of the item being decided; for an answer, the arrivals so far."""
        return self._again or self.arrivals

    def _step(self) -> int:
        return max(1, self._number() - (0 if self.keeps else self._era_start))

    def _quota(self, cell: TwinCell) -> float:
        """D1 and D3."""
        alpha, exponent = self._settings.alpha, self._settings.exploration_exponent
        if exponent is None:
            exponent = 2 * alpha / (3 * alpha + self._axes)
        log_step = math.log(self._step())
        return math.exp(exponent * log_step) * log_step

    def _length(self) -> int:
        return 2**self._era if self._settings.horizon is None else self._settings.horizon

    def _slices_now(self, alphas: int = 3) -> int:
        if self._axes == 0:
            return 1
        slices = self._settings.slices
        if slices is None:
            power = 1 / (alphas * self._settings.alpha + self._axes)
            slices = max(1, math.ceil(float(self._length()) ** power - 1e-9))
        limit = self._settings.max_cells
        while limit is not None and slices > 1 and slices**self._axes > limit:
            slices -= 1
        return slices

    def _cell_of(self, point: Context, slices: int) -> CellKey:
        """Return the cell of the partition into so many slices; a category has a cell for each code."""
        indices = (
            int(x) if axis in self._settings.categories else min(math.floor(slices * x), slices - 1)
            for axis, x in enumerate(point)
        )
        return slices, tuple(indices)

    def _codes_of(self, key: CellKey) -> Codes:
        return tuple(index for axis, index in enumerate(key[1]) if axis in self._settings.categories)
