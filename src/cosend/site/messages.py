"""What goes in and out of a site: requests it makes, replies it gets, and what travels between sites.

Small frozen values, nothing else: whoever drives a site decides how they travel.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from cosend.core.learner.values import AskPeer, Phase


class Decision(NamedTuple):
    """The label of an item and how it came about. The site waits for the truth under `id`."""

    id: int
    label: Any
    arm: str
    phase: Phase
    cell: int
    context: tuple[float, ...]
    propensity: float


class Predict(NamedTuple):
    """Request: run an own classifier on items. Reply: a list of labels."""

    classifier: str
    items: list[Any]


class Question(NamedTuple):
    """One item that a peer is asked to label."""

    request: int  # the caller's decision id
    item: Any
    context: tuple[float, ...]
    training: bool
    labelled: bool  # the true label will follow


class Call(NamedTuple):
    """Request: have a peer label items. Reply: an `AnsweredItem` for each."""

    peer: str
    caller: str
    questions: list[Question]


class AnsweredItem(NamedTuple):
    """A peer's label, and the ticket under which it waits for the truth."""

    label: Any
    ticket: int | None


class Forward(NamedTuple):
    """Tell a peer the true label of an item that it answered, or that there will be none."""

    peer: str
    ticket: int
    truth: Any
    withdrawn: bool = False


# What a driver performs for a site. Replies: a list of labels, a LabelledData, a list of AnsweredItem, nothing.
Request: TypeAlias = Predict | AskPeer | Call | Forward
