"""What goes into a learner and comes out of it: contexts as they are given, and small values that cannot change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import EXPLOIT, EXPLORE, TRAIN, Floats, first_bad_axis, first_bad_context
from cosend.errors import ContextError, SettingError, shown

PointLike = float | Sequence[float] | Floats
ScoreLocal: TypeAlias = Literal["used", "all"]  # which local models a label scores


class Phase(Enum):
    """Why an arm was chosen."""

    TRAIN = TRAIN  # a peer that has too little labelled data around this context
    EXPLORE = EXPLORE  # an arm that this site has too few rewards of
    EXPLOIT = EXPLOIT  # the arm with the best mean reward

    def __repr__(self) -> str:
        return repr(str(self))

    def __str__(self) -> str:
        return self.name.lower()


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
    """The local model with which a learner answers a peer, and the id under which it waits for the label."""

    function: str
    ticket: int | None  # None: no label will follow


class Estimate(NamedTuple):
    """What a learner knows about one arm in one cell."""

    mean_reward: float  # net of the arm's cost; minus the cost if no reward has come yet
    reward_count: int
    pending_count: int
    training_count: int  # peers: labelled data it is believed to have here


class View(NamedTuple):
    """A part of the context, and how much weight it has at a site."""

    axes: tuple[int, ...]  # the numbers of its axes
    is_heaviest: bool  # it has the most weight
    share: float  # of the weight
    slices: int = 1  # of mixed views: cells per axis
    memory: float = 1.0  # the factor of its sums at every label
    is_pattern: bool = False  # its cells are the patterns of models that were right about the newest labelled item
    is_sum: bool = False  # it adds up what the cells of the others say
    added: float = 0.0  # its part in that sum: how much the numbers that its cells add differ; `weights()` counts it


class ViewForecast(NamedTuple):
    """What a mixed view forecasts for a context."""

    view: View
    forecasts: dict[str, float]  # by arm: what it gains here, before its cost


class Cell(NamedTuple):
    """What a learner knows about one cell."""

    axes: tuple[int, ...]  # index on every axis of its view
    slices: int  # cells of this size that an axis has: the cell reaches from index/slices to (index + 1)/slices
    view: int  # 0 unless views are mixed
    labelled: LabelledData
    estimates: dict[str, Estimate]


# A context as it is given, as a point of [0, 1]^d, or an error that says what is wrong with it


def read_point(site: str, context: PointLike, dimensions: int) -> Floats:
    """Return a context as `dimensions` numbers; whether they are in [0, 1] is checked where they are used."""
    point = np.atleast_1d(_numbers(context))
    if point.dtype.kind not in "biuf":
        raise ContextError(f"a context of site {site!r} must be numbers, got {shown(context)}")
    if point.shape != (dimensions,):
        wanted = "1 number" if dimensions == 1 else f"{dimensions} numbers"
        raise ContextError(f"a context of site {site!r} must be {wanted}, got {shown(context)}")
    return point.astype(np.float64)


def read_points(
    site: str, contexts: Sequence[PointLike] | Floats, dimensions: int, categories: int, may_lack: bool
) -> Floats:
    """Return many contexts as points of [0, 1]^d: [context, axis]."""
    points = _numbers(contexts)
    if points.ndim == 0:  # not a sequence
        raise ContextError(f"contexts of site {site!r} must be a sequence of contexts, got {shown(contexts)}")
    shapes = [(len(contexts), dimensions), *([(len(contexts),)] if dimensions == 1 else [])]
    if points.dtype.kind not in "biuf" or points.shape not in shapes:
        points = np.array([read_point(site, context, dimensions) for context in contexts])  # says which one it is
    points = np.ascontiguousarray(points.astype(np.float64).reshape(len(contexts), dimensions))
    check_points(site, points, categories, may_lack, "context {} of the batch, ")
    return points


def check_points(site: str, points: Floats, categories: int, may_lack: bool, where: str = "") -> None:
    """Raise if one of many points leaves [0, 1]^d; `where` names it by its number."""
    n = first_bad_context(points, categories, may_lack)
    if n >= 0:
        raise bad_context(site, points[n], first_bad_axis(points[n], categories, may_lack), where.format(n))


def bad_context(site: str, point: Floats, axis: int, where: str = "") -> ContextError:
    """Return the error for a point that leaves [0, 1] on an axis."""
    value = float(point[axis])
    return ContextError(f"{where}axis {axis} of a context of site {site!r} must be in [0, 1], got {value}")


def category_bits(categories: Collection[int], dimensions: int) -> int:
    """Return the numbers of axes as bits, or raise."""
    for axis in categories:
        if type(axis) is not int or not 0 <= axis < dimensions:
            raise SettingError("categories", categories, f"numbers of axes, 0 to {dimensions - 1}")
    return sum(1 << axis for axis in set(categories))


def _numbers(given: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:  # rows of different length
        return np.empty(0, object)
