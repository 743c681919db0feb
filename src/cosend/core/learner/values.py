"""What goes into a learner and comes out of it: small values that cannot be changed."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from cosend.core.kernel.bookkeeping import EXPLOIT, EXPLORE, TRAIN

ScoreLocal: TypeAlias = Literal["used", "all"]  # which local classifiers a label scores


class Phase(Enum):
    """Why an arm was chosen."""

    TRAIN = TRAIN  # a peer that has too little labelled data around this context
    EXPLORE = EXPLORE  # an arm that this site has too few rewards of
    EXPLOIT = EXPLOIT  # the arm with the best mean reward


class Choice(NamedTuple):
    """An arm for an item. The learner waits for its reward under `id`."""

    id: int
    phase: Phase
    arm: str
    cell: int
    propensity: float  # probability of this arm in the draw that named it


class AskPeer(NamedTuple):
    """The rule needs to know how much labelled data a peer has around a context before it can choose."""

    peer: str
    context: tuple[float, ...]
    cell: int = 0  # in which the context falls, by its key


class LabelledData(NamedTuple):
    """How much labelled data a site has around a context: what it reports when asked."""

    arrivals: int  # its own items
    taught: int  # items of its peers whose label was passed on to it


class Batch(NamedTuple):
    """The choices for the first items of a batch, and what is needed before the next one can be made."""

    choices: list[Choice]
    ask: AskPeer | None


class Answer(NamedTuple):
    """The local function with which a learner answers a peer, and the id under which it waits for the label."""

    function: str
    ticket: int | None  # None: no label will follow


class Estimate(NamedTuple):
    """What a learner knows of one arm in one cell."""

    mean_reward: float  # net of the arm's cost; minus the cost if no reward has come yet
    reward_count: int
    waiting_count: int
    training_count: int  # peers: labelled data it is believed to have here


class View(NamedTuple):
    """A part of the context, and how much a site goes by it."""

    axes: tuple[int, ...]  # the numbers of its axes; one more than those of the context is time
    trusted: bool  # it has the most weight
    share: float  # of the weight
    slices: int = 1  # of views that are mixed: cells per axis
    memory: float = 1.0  # by what its sums are multiplied at every label
    is_pattern: bool = False  # its cells are who was right about the newest labelled item
    is_sum: bool = False  # it adds up what the cells of the others say
    added: float = 0.0  # its part in that sum: how much what its cells add differs, beside the others


class Explanation(NamedTuple):
    """What a view that is mixed has to say of a context."""

    view: View
    forecasts: dict[str, float]  # by arm: what it gains here, before its cost


class Cell(NamedTuple):
    """What a learner knows of one cell."""

    axes: tuple[int, ...]  # index on every axis of its view; the time axis last
    slices: int  # cells of this size that an axis has: the cell reaches from index/slices to (index + 1)/slices
    view: int  # 0 unless views are mixed
    labelled: LabelledData
    estimates: dict[str, Estimate]
