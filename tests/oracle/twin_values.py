"""What the slow twins are told, what they keep and what they say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Context = tuple[float, ...]
CellKey = tuple[int, tuple[int, ...]]  # slices on every axis, and the index on every axis
Place = tuple[Context, CellKey]  # a context, with the time if that is an axis, and the cell it is entered in
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
    doubling: str = "reset"
    time_dimension: bool = False
    share_labels: str = "training"
    split_after: float = 1.0
    inherit: float = 0.0
    lipschitz: float = 1.0
    contexts: str = "uniform"
    wait_limit: int | None = None
    max_waiting: int = 1_000_000
    default_reward: float | None = None
    scores: bool = False  # labels say of every own function that costs nothing whether it was right
    share: float = 0.035  # this and the next three: MixedViews
    bonus: float = 0.2
    home_margin: float = 0.02
    adds_up: bool = True


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
    waiting_count: int = 0
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
    point: Context  # the context, and the time at that moment if it is an axis
    cell: CellKey
    arrival: int
    era: int


def count_of(arm: TwinArm) -> float:
    """Return the rewards received plus the choices that still wait for theirs."""
    return arm.reward_count + arm.waiting_count


def mean_of(arm: TwinArm) -> float:
    """Return the mean reward; that of nothing is 0 (exactness: Arithmetic)."""
    return arm.reward_sum / arm.reward_count if arm.reward_count > 0 else 0.0


def net_mean(arm: TwinArm, cost: float) -> float:
    """Return the mean reward minus the cost."""
    return mean_of(arm) - cost
