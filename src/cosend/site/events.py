"""What happened at a site: the one vocabulary for log, replay and audit.

There is one event for each transition of a batch, not for each item. Events say what was decided, not why, so a log
stays readable when a rule changes: `fold` applies them, `verify` decides again. What follows from them is not logged,
such as which labels are overdue. docs/decisions/0002-events.md has the reasons.

All fields are plain values: numbers, text, tuples and mappings of them, and the user's labels and items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

VERSION: Final = 1  # of the vocabulary; a field that is added later has a default

Told: TypeAlias = Mapping[str, tuple[int, int]]  # by peer: its own arrivals, and the labels it was taught
Spelled: TypeAlias = tuple[tuple[Any, ...], ...]  # contexts: a number in [0, 1] for each axis, or a category's value


@dataclass(frozen=True, slots=True)
class Started:
    """A site has begun, with nothing learnt yet."""

    version: int
    software: str
    site: str
    seed: int
    policy: Mapping[str, Any]
    patience: Mapping[str, Any]
    axes: tuple[str, ...]  # their descriptions
    categories: tuple[int, ...]  # the axes that are categories
    ranked: Mapping[int, int]  # the axes that are ranks, and among how many values
    local: Mapping[str, float]  # classifiers and their costs
    score_local: str = "used"  # all: labels score every local classifier that costs nothing
    features: bool = False  # the last axis stands for every feature of the items


@dataclass(frozen=True, slots=True)
class Placed:
    """Items were given their places on axes that depend on what came before."""

    values: Mapping[int, tuple[float, ...]]  # by axis that is a rank: the raw values
    codes: Mapping[int, tuple[Any, ...]]  # by axis that is a category: values that had not come before


@dataclass(frozen=True, slots=True)
class Watched:
    """Items have come with features that are not known well enough yet."""

    values: Mapping[str, tuple[Any, ...]]  # by feature: its values, None where it is missing
    own: bool = True  # of the site itself; else of a peer


@dataclass(frozen=True, slots=True)
class Laid:
    """Features are known well enough, and have got axes behind the others, in this order."""

    names: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]  # at which each is cut
    repeats: tuple[bool, ...]  # whether its values repeat
    values: tuple[tuple[Any, ...], ...]  # of a text or truth value, whose number is its place here
    out: tuple[str, ...] = ()  # features that get no axis
    same: tuple[str, ...] = ()  # that get none as long as they do not change


@dataclass(frozen=True, slots=True)
class Chosen:
    """Arms were chosen for items; the ids are first, first + 1, ..."""

    first: int
    contexts: Spelled
    arms: tuple[str, ...]
    kinds: tuple[int, ...]  # 1 train, 2 explore, 3 exploit
    propensities: tuple[float, ...]
    told: Told = field(default_factory=dict)  # for the first item
    without: tuple[str, ...] = ()  # arms that were left out of this choice
    again: tuple[int, ...] = ()  # for items whose arm has failed: the numbers of their arrivals; else empty
    cells: tuple[int, ...] = ()  # in which they fell, by their keys
    costs: Mapping[str, float] = field(
        default_factory=dict
    )  # what the chosen arms cost then; those that cost nothing are left out


@dataclass(frozen=True, slots=True)
class Asked:
    """An item could not be chosen for before a peer was asked how much labelled data it has."""

    peer: str
    context: tuple[Any, ...]
    told: Told = field(default_factory=dict)  # by the peers that were asked before
    without: tuple[str, ...] = ()
    again: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """Arms have labelled items: decisions of the site, or answers for a peer."""

    ids: tuple[int, ...]
    labels: tuple[Any, ...]
    items: tuple[Any, ...] = ()  # for classifiers that learn: the item, or None; else empty
    others: tuple[
        Mapping[str, Any], ...
    ] = ()  # what other local classifiers said that were run to be scored; else empty


@dataclass(frozen=True, slots=True)
class Failed:
    """An arm has failed; these choices no longer count. No ids: it failed before anything was chosen."""

    ids: tuple[int, ...]
    arm: str
    reason: str


@dataclass(frozen=True, slots=True)
class Served:
    """Local classifiers were chosen to answer a peer whose labels will follow; the ids are first, first + 1, ..."""

    caller: str
    requests: tuple[int, ...]
    first: int
    contexts: Spelled
    functions: tuple[str, ...]
    training: tuple[bool, ...]
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Labelled:
    """The true labels of own decisions have come."""

    ids: tuple[int, ...]
    truths: tuple[Any, ...]
    gains: tuple[float, ...]
    costs: tuple[float | None, ...] = ()  # what they really cost, where that is known; empty if nowhere
    others: tuple[Mapping[str, float], ...] = ()  # what local classifiers gain that were run to be scored; else empty


@dataclass(frozen=True, slots=True)
class Taught:
    """A peer has passed on the true labels of items that were answered for it."""

    caller: str
    requests: tuple[int, ...]
    truths: tuple[Any, ...]
    gains: tuple[float, ...]
    others: tuple[Mapping[str, float], ...] = ()  # as in Labelled


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """No labels will come for these: decisions that were cancelled, or answers whose caller says so."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ArmAdded:
    """A local classifier, or a peer that announces so many classifiers, has joined."""

    arm: str
    cost: float
    functions: int = 0  # of a peer; 0 for a local classifier


@dataclass(frozen=True, slots=True)
class ArmRemoved:
    """An arm has left; what waits for it no longer does."""

    arm: str


@dataclass(frozen=True, slots=True)
class ArmPaused:
    """An arm may not be chosen for now; what was learnt of it is kept."""

    arm: str


@dataclass(frozen=True, slots=True)
class ArmResumed:
    """An arm may be chosen again."""

    arm: str


@dataclass(frozen=True, slots=True)
class CostChanged:
    """Using an arm costs something else from now on."""

    arm: str
    cost: float


@dataclass(frozen=True, slots=True)
class Named:
    """Clients have given decisions names of their own; the rules do not know them."""

    ids: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """Clients were told labels that are not those that wait: of another classifier, or of what waits no longer."""

    ids: tuple[int, ...]
    labels: tuple[Any, ...]
    classifier: str = ""  # whose labels these are, if not the arms'


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """Decisions are applied from now on, or only observed while a classifier answers; the rules go on as ever."""

    mode: str  # apply or observe
    classifier: str = ""  # that answers while decisions are only observed


Event: TypeAlias = (
    Started
    | Placed
    | Watched
    | Laid
    | Chosen
    | Asked
    | Answered
    | Failed
    | Served
    | Labelled
    | Taught
    | Withdrawn
    | ArmAdded
    | ArmRemoved
    | ArmPaused
    | ArmResumed
    | CostChanged
    | Named
    | Shown
    | ModeChanged
)
Journal: TypeAlias = Callable[[Event], object]  # what events are written to: `list.append`, for example
