"""Inputs and outputs of an engine: answers, decisions, messages between sites, and needs.

Small values only. The driver of an engine executes its needs, now or later, in their order for each peer,
and reports back with the need itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, overload

from cosend.algorithm.values import LabelledData, Phase
from cosend.checks import is_missing
from cosend.errors import shown
from cosend.models.adapters import Failure as Failure
from cosend.text import SmallTable

if TYPE_CHECKING:
    from cosend.engine.engine import Batch
    from cosend.engine.learnt_arms import Window

R = TypeVar("R", bound=tuple[Any, ...])


class Rows(Sequence[R]):
    """Many named tuples as columns: each is made when it is read, and most never are."""

    __slots__ = ("_make", "columns")

    def __init__(self, make: Callable[[Iterable[Any]], R], *columns: Sequence[Any]) -> None:
        self._make, self.columns = make, columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[R]:
        return map(self._make, zip(*self.columns, strict=True))

    @overload
    def __getitem__(self, place: int) -> R: ...

    @overload
    def __getitem__(self, place: slice) -> Rows[R]: ...

    def __getitem__(self, place: int | slice) -> R | Rows[R]:
        if isinstance(place, slice):
            return Rows(self._make, *(column[place] for column in self.columns))
        return self._make(column[place] for column in self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    def __repr__(self) -> str:
        return repr([*self])


def columns_of(rows: Sequence[tuple[Any, ...]], width: int) -> Sequence[Sequence[Any]]:
    if isinstance(rows, Rows):
        return rows.columns
    return [*zip(*rows, strict=True)] if rows else [()] * width


# Decisions, and what arms say

LABELS: Final = "a label is anything that can be hashed: text, a number, a tuple, an Enum"
SILENT: Final = "it has no answer"  # why there is no label though nothing failed: models before their first label


def as_answer(arm: str, answer: Any) -> Any:
    """Return what an arm has said: a label, None if it has no answer, or a failure."""
    if isinstance(answer, Failure):
        return answer
    if is_missing(answer):
        return None
    try:
        hash(answer)
    except Exception:  # of a list, or whatever an object of the user's raises
        return Failure(f"{arm!r} returned {shown(answer)}; {LABELS}", "label")
    return answer


class Decision(NamedTuple):
    """The prediction for an item and how it came about. The site waits for the true label under `id`."""

    id: int
    label: Any
    arm: str
    phase: Phase
    cell: int
    context: tuple[Any, ...]  # a number in [0, 1] for each axis, or the value of a category
    propensity: float
    cost: float = 0.0  # that was expected when the arm was chosen

    def _repr_html_(self) -> str:
        fields = {**self._asdict(), "phase": self.phase.name.lower()}
        return SmallTable("decision", ["", ""], [(name, str(value)) for name, value in fields.items()]).html()


class Pending(NamedTuple):
    """A decision, or an answer to a peer, that waits for its true label."""

    arm: str
    label: Any  # None while it is still being decided
    caller: str | None  # the peer whose item it is, None for the site's own
    answered: bool


# Messages between sites


class Question(NamedTuple):
    """One item that a peer is asked to label."""

    request: int  # the caller's decision id
    item: Any
    context: tuple[Any, ...]
    training: bool
    labelled: bool  # the true label will follow


class Call(NamedTuple):
    """Questions for a peer, which returns a `Reply` for each of them, in their order."""

    peer: str
    caller: str
    questions: Sequence[Question]
    axes: tuple[str, ...] | None = None  # of the contexts, by name; None: as the peer has them


class Reply(NamedTuple):
    """A peer's label, or why there is none."""

    label: Any
    failed: str | None = None


class Forward(NamedTuple):
    """The true label of an item that a peer answered, or its score, or that there will be none.

    It is addressed by the caller and its request, so that a caller can withdraw what it never got a reply for.
    """

    peer: str
    caller: str
    request: int
    truth: Any
    withdrawn: bool = False
    score: float | None = None  # what the answer was worth, in [0, 1], where that is known instead of the label


# Twice as fast as calling the class, if all fields are given
QUESTION: Final = partial(tuple.__new__, Question)
REPLY: Final = partial(tuple.__new__, Reply)
FORWARD: Final = partial(tuple.__new__, Forward)


class Peer(Protocol):
    """The methods that a site needs of another one in the same process."""

    def report(self, context: tuple[Any, ...]) -> LabelledData:
        """Return how much labelled data it has around a context."""
        ...

    def serve(self, call: Call) -> list[Reply]:
        """Label items with its local models: a reply for each question."""
        ...

    def teach(self, forward: Forward) -> None:
        """Take the true label of an item that it answered; one that it does not wait for changes nothing."""
        ...


# Needs of an engine


@dataclass(slots=True, eq=False)
class RunModel:
    """Have a local model label items: for its opinion before the choice, or as the chosen arm."""

    model: str
    batch: Batch
    rows: Sequence[int]
    items: Sequence[Any]
    is_opinion: bool


@dataclass(slots=True, eq=False)
class CallPeer:
    """Have a peer label items; if labels were promised, not before the choice is on the disk."""

    peer: str
    batch: Batch
    rows: Sequence[int]
    call: Call
    promised: bool  # that labels will follow


@dataclass(slots=True, eq=False)
class AskPeer:
    """Ask a peer how much labelled data it has around contexts, each of one waiting item."""

    peer: str
    waiting: Sequence[tuple[Batch, int]]  # batch and row of each
    contexts: Sequence[tuple[Any, ...]]
    axes: tuple[str, ...]


@dataclass(slots=True, eq=False)
class TellPeer:
    """Deliver what is queued for a peer: `SiteState.outbox` has it."""

    peer: str


@dataclass(slots=True, eq=False)
class TrainModel:
    """Have a local model learn from items and their true labels, in this order."""

    model: str
    examples: list[tuple[Any, Any]]


@dataclass(slots=True, eq=False)
class FitTrees:
    """Fit trees to labelled items, in parallel with everything else: the old ones answer until then."""

    window: Window


@dataclass(slots=True, eq=False)
class Done:
    """These items of a batch have a decision or an error."""

    batch: Batch
    rows: Sequence[int]


Need: TypeAlias = RunModel | CallPeer | AskPeer | TellPeer | TrainModel | FitTrees | Done


class Scored(NamedTuple):
    """The results of true labels and scores: the arms that were used, what they gained, and what local models gained.

    right  whether each answer was the true label; None for a score
    """

    arms: list[str]
    right: list[bool | None]
    gains: list[float]
    costs: list[float]
    scores: Mapping[str, Sequence[float]]

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        """Return all of them as one."""
        models = dict.fromkeys(model for part in parts for model in part.scores)
        scores = {
            model: [*chain.from_iterable(part.scores.get(model, [math.nan] * len(part.arms)) for part in parts)]
            for model in models
        }
        arms, right, gains, costs = ([*chain.from_iterable(column)] for column in list(zip(*parts, strict=True))[:4])
        return cls(arms, right, gains, costs, scores)
