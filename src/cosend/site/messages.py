"""What goes in and out of a site: what a step needs, what comes back, and what travels between sites.

Small frozen values, nothing else: whoever drives a site decides how they travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from cosend.core.learner.values import AskPeer, LabelledData, Phase
from cosend.core.missing import is_missing
from cosend.reports.small_tables import SmallTable


class Decision(NamedTuple):
    """The label of an item and how it came about. The site waits for the truth under `id`."""

    id: int
    label: Any
    arm: str
    phase: Phase
    cell: int
    context: tuple[Any, ...]  # a number in [0, 1] for each axis, or the value of a category
    propensity: float

    def _repr_html_(self) -> str:
        fields = {**self._asdict(), "phase": self.phase.name.lower()}
        return SmallTable("decision", ["", ""], [(name, str(value)) for name, value in fields.items()]).html()


class Step(NamedTuple):
    """What was chosen for the first items of a batch: the choices have the ids first, first + 1, ...

    The arms, local classifiers and peers alike, may be run together. The next item, if there is one, cannot be chosen
    for before the peer of `ask` has told how much labelled data it has.
    """

    first: int
    arms: list[str]
    kinds: list[int]  # TRAIN, EXPLORE or EXPLOIT
    cells: list[int]
    propensities: list[float]
    arrivals: list[int]  # the numbers of the items: what `choose` takes as `again` if an arm fails
    ask: AskPeer | None
    forwards: list[Forward]  # what became overdue: peers that wait for a label are told that none will come
    contexts: tuple[tuple[Any, ...], ...] = ()  # as they were written, if there is a journal

    def uses(self) -> dict[str, list[int]]:
        """Return the places of the items that each arm is to label."""
        places: dict[str, list[int]] = {}
        if len({*self.arms}) == 1:
            return {self.arms[0]: [*range(len(self.arms))]}
        for place, arm in enumerate(self.arms):
            places.setdefault(arm, []).append(place)
        return places


class Question(NamedTuple):
    """One item that a peer is asked to label."""

    request: int  # the caller's decision id
    item: Any
    context: tuple[Any, ...]
    training: bool
    labelled: bool  # the true label will follow


QUESTION: Final = partial(tuple.__new__, Question)  # as FORWARD is


class Call(NamedTuple):
    """Have a peer label items. What comes back: a `Reply` for each question, in their order."""

    peer: str
    caller: str
    questions: Sequence[Question]
    axes: tuple[str, ...] | None = None  # of the contexts, by name; None: those of the peer itself


class Reply(NamedTuple):
    """A peer's label, or why there is none."""

    label: Any
    failed: str | None = None


REPLY: Final = partial(tuple.__new__, Reply)  # as FORWARD is
SILENT: Final = "it has no answer"  # why a reply has no label, where nothing went wrong: as of models before a label


def heard(reply: Reply) -> Reply:
    """Return a reply; one whose label is missing says nothing."""
    return Reply(None, SILENT) if reply.failed is None and is_missing(reply.label) else reply


def main_reason(reasons: Iterable[str]) -> str:
    """Return why an arm has no label for some items: the first thing that went wrong, or else that it is silent."""
    return next((reason for reason in reasons if reason != SILENT), SILENT)


class Serving(NamedTuple):
    """The local classifiers with which to answer a call, and the ids under which the site waits for the labels."""

    functions: list[str]
    tickets: list[int]  # 0: no label will follow
    forwards: list[Forward]


class Forward(NamedTuple):
    """Tell a peer the true label of an item that it answered, or that there will be none.

    It is addressed by the caller and its request, so that a caller can withdraw what it never got a reply for.
    """

    peer: str
    caller: str
    request: int
    truth: Any
    withdrawn: bool = False


FORWARD: Final = partial(tuple.__new__, Forward)  # twice as fast as by calling the class, if all fields are given


class Lesson(NamedTuple):
    """An item for local classifiers that learn, and its true label."""

    classifier: str  # that was used, or the peer
    item: Any  # None if no model learns from it
    truth: Any
    said: Mapping[str, Any] | None = None  # by local classifiers, for those that combine it; None if there are none


class Settled(NamedTuple):
    """What is left to do after labels were learnt."""

    forwards: list[Forward]
    lessons: list[Lesson]
    found: Sequence[Sequence[int]]  # (number of its arm, kind, arrival) of what each label is for


class Open(NamedTuple):
    """What waits for its label."""

    arm: str
    label: Any  # None while it is still being decided
    caller: str | None  # the peer whose item it is, None for a local one
    answered: bool


class Peer(Protocol):
    """What a site needs of another one."""

    def report(self, context: tuple[Any, ...]) -> LabelledData:
        """Return how much labelled data it has around a context."""
        ...

    def serve(self, call: Call) -> list[Reply]:
        """Label items with its local classifiers: a reply for each question."""
        ...

    def teach(self, forward: Forward) -> None:
        """Take the true label of an item that it answered; one that it does not wait for changes nothing."""
        ...
