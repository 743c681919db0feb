"""Slopes in a log-log plot, and what can be said about them from a few seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.run.result import half_interval


class Slope(NamedTuple):
    """A mean slope over independent seeds with its 95 % interval; `low` and `high` are None for a single seed."""

    mean: float
    low: float | None
    high: float | None


def log_log_slope(x: npt.ArrayLike, y: npt.ArrayLike, log_power: float = 0.0) -> float | None:
    """Return the slope of ln(y / (ln x)^log_power) over ln x by least squares, or None where y is not above 0."""
    values, log_x = np.asarray(y, np.float64), np.log(np.asarray(x, np.float64))
    if not (values > 0).all():
        return None
    return float(np.polyfit(log_x, np.log(values) - log_power * np.log(log_x), 1)[0])


def over_seeds(slopes: Sequence[float | None]) -> Slope | None:
    """Return the mean of the seeds' slopes with Student's interval, or None if a seed has none.

    The seeds are independent, the points of one run are not: only the spread between seeds says how sure a slope is.
    """
    known = [slope for slope in slopes if slope is not None]
    if len(known) < max(1, len(slopes)):
        return None
    mean = float(np.mean(known))
    half = half_interval(known)
    return Slope(mean, None, None) if half is None else Slope(mean, mean - half, mean + half)
