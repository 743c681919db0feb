"""What the service of a site says, as values with types. What a newer service says besides is left out."""

from __future__ import annotations

from typing import Any, Final, Literal

from cosend.errors import CosendError, install

try:
    import msgspec
except ImportError as error:
    raise CosendError(f"the client of a service needs msgspec: {install('client')}") from error

Fate = Literal["learnt", "duplicate", "unknown", "expired", "missing"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The label of an item and how it came about. The site waits for the truth under `id`."""

    id: str
    label: Any
    arm: str
    phase: Literal["train", "explore", "exploit"]
    cell: int
    cost: float
    propensity: float | None  # None if it is not known
    answered_by: str | None = None  # the classifier whose label this is, while decisions are only observed


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of an item: a decision, or that no arm could label it."""

    id: str | None
    error: str | None = None
    label: Any = None
    arm: str = ""
    phase: Literal["train", "explore", "exploit"] = "exploit"
    cell: int = 0
    cost: float = 0.0
    propensity: float | None = None
    answered_by: str | None = None


class Decided(msgspec.Struct):
    """The answer to items."""

    decisions: list[Told]


class Heard(msgspec.Struct, kw_only=True):
    """What became of labels, by the ids of their decisions."""

    learnt: list[str] = msgspec.field(default_factory=list)
    duplicate: list[str] = msgspec.field(default_factory=list)  # it has a label already
    unknown: list[str] = msgspec.field(default_factory=list)  # no such decision
    expired: list[str] = msgspec.field(default_factory=list)  # the site no longer waits for it
    missing: list[str] = msgspec.field(default_factory=list)  # the label was None or NaN: the site goes on waiting

    def add(self, other: Heard) -> None:
        """Add what became of more labels."""
        for name in self.__struct_fields__:
            getattr(self, name).extend(getattr(other, name))

    def fate(self) -> Fate:
        """Return what became of the only label."""
        kinds: tuple[Fate, ...] = ("learnt", "duplicate", "unknown", "missing")
        return next((kind for kind in kinds if getattr(self, kind)), "expired")


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an arm in a cell."""

    mean_reward: float
    reward_count: int
    waiting_count: int
    training_count: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of the context: on every axis from index / slices to (index + 1) / slices."""

    key: int
    axes: list[int]
    slices: int
    view: int
    arrivals: int
    taught: int
    arms: dict[str, Estimate]


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, what became of it, and what its cell knows now."""

    id: str
    label: Any  # that was answered
    arm: str
    phase: Literal["train", "explore", "exploit"]
    cell: int
    cost: float
    propensity: float | None
    answered_by: str | None
    number: int  # the site's own
    at: float  # seconds since 1970
    context: list[Any]
    label_of_arm: Any  # that the arm gave; another one if decisions were only observed
    labelled: bool
    truth: Any
    waiting: bool  # for its label
    cell_now: Cell | None


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm of the site."""

    name: str
    kind: Literal["local", "peer"]
    cost: float
    paused: bool
    present: bool = True  # a peer that is not there is left out until it comes back
    refused: str | None = None  # why a peer that is there is not asked
    breaker: Literal["closed", "open", "half open"]
    failures: int
    last_failure: str | None
    decisions: dict[str, int]  # by phase, since the process started
    labels: int
    mean_gain: float | None
    seconds_per_item: float | None


class LabelCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many labels have come since the process started."""

    learnt: int
    duplicate: int
    unknown: int
    expired: int
    missing: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How the site is doing."""

    site: str
    version: str
    ready: bool
    mode: Literal["apply", "observe"]
    answered_by: str | None
    policy: dict[str, Any]
    context: list[str]
    took_over: list[str] = []  # at the start: what is not as it was, or not as the file says
    up_s: float
    items: int
    in_flight: int
    waiting: int
    decisions: int
    labels: LabelCounts
    unanswered: int
    trusted: dict[str, float] = {}  # parts of the context, and their weights
    answered_for_peers: int = 0  # items of peers, since the process started
    outbox: int = 0  # labels for peers that have not been delivered yet
    recent_error: float | None
    recent_reward: float | None
    cells: int
    events: int
    oldest_event: int


class ArmsPage(msgspec.Struct):
    """Some of the arms, and where the next ones start."""

    arms: list[Arm]
    next: int | None


class CellsPage(msgspec.Struct):
    """Some of the cells, and where the next ones start."""

    cells: list[Cell]
    next: int | None


class Problem(msgspec.Struct):
    """What went wrong, as RFC 9457 describes it."""

    type: str = "about:blank"
    title: str = ""
    detail: str = ""


# Made here, once: msgspec crashes where several threads are the first to make a decoder of the same class.
DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (Decided, Heard, Story, Summary, Arm, ArmsPage, CellsPage, Problem, dict[str, Any])
}
