"""A context as it is given, as a point of [0, 1]^d, or an error that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cosend.core.checks import check_whole
from cosend.core.kernel.ledger import Floats
from cosend.core.kernel.partition import MOST_AXES, first_bad_axis, first_bad_context
from cosend.core.policy.parts import Policy
from cosend.errors import ContextError, SettingError, shown

PointLike = float | Sequence[float] | Floats


def read_point(site: str, context: PointLike, dimensions: int) -> Floats:
    """Return a context as so many numbers; whether they are in [0, 1] is seen where they are used."""
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
    if points.ndim == 0:  # one thing, not a sequence of them
        raise ContextError(f"contexts of site {site!r} must be a sequence of contexts, got {shown(contexts)}")
    shapes = [(len(contexts), dimensions), *([(len(contexts),)] if dimensions == 1 else [])]
    if points.dtype.kind not in "biuf" or points.shape not in shapes:
        points = np.array([read_point(site, context, dimensions) for context in contexts])  # says which one it is
    points = np.ascontiguousarray(points.astype(np.float64).reshape(len(contexts), dimensions))
    n = first_bad_context(points, categories, may_lack)
    if n >= 0:
        axis = first_bad_axis(points[n], categories, may_lack)
        raise bad_context(site, points[n], axis, f"context {n} of the batch, ")
    return points


def check_points(site: str, points: Floats, categories: int, may_lack: bool) -> None:
    """Raise if one of many points leaves [0, 1]^d."""
    n = first_bad_context(points, categories, may_lack)
    if n >= 0:
        raise bad_context(site, points[n], first_bad_axis(points[n], categories, may_lack))


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


def check_dimensions(site: str, dimensions: int, policy: Policy) -> None:
    """Raise unless a policy can do with so many axes."""
    check_whole("dimensions", dimensions, least=0)
    if dimensions == 0 and not policy.mixes:
        allowed = f"at least 1 with {type(policy).__name__}: only MixedViews can do without a context"
        raise SettingError(f"the number of axes of site {site!r}", dimensions, allowed)
    if dimensions > MOST_AXES:
        raise SettingError("dimensions", dimensions, f"at most {MOST_AXES}")


def _numbers(given: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:  # rows of different length
        return np.empty(0, object)
