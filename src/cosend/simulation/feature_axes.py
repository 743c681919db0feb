"""A simulation in which sites watch every feature: which features get axes when, and the places of all items on them.

Both follow from the items of a site alone, so they are computed before the simulation starts. It stops where new axes
come, and decisions that are pending there get more views, as they do in a site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosend.algorithm.layout import Floats, Ints, Ledger
from cosend.algorithm.learner import Learner
from cosend.algorithm.mixture import memo_width
from cosend.algorithm.mixture_views import NewAxes, plans_for_features, with_more_views
from cosend.checks import check_kind
from cosend.engine.encoding import FeatureAxes
from cosend.errors import NetworkError, SettingError
from cosend.simulation.loop import ARM, NEVER, Labels

Steps = list[tuple[int, NewAxes]]  # (arrivals before, axes), in order


@dataclass
class AxisSchedule:
    """The axes that a learner gets during the simulation."""

    learner: Learner
    steps: Steps = field(default_factory=list)
    points: Floats | None = None  # [item, axis]: the places of all items on them

    @property
    def next_at(self) -> int:
        """The number of arrivals after which the next axes come."""
        return self.steps[0][0] if self.steps else NEVER

    @property
    def memo_width(self) -> int:
        """How many numbers are kept for a pending item once all axes are there."""
        learner, views = self.learner, len(self.learner.ledger.views)
        if not learner.policy.mixes:
            return 0
        dimensions, same = learner.dimensions, learner.unchanged
        for _, new in self.steps:
            views += len(plans_for_features(dimensions, new, learner.categories, views, same))
            dimensions, same = dimensions + new.axes, same + new.same - len(new.places)
        return memo_width(views, len(learner.arms.own))

    def apply_next(self, ledger: Ledger, labels: Labels, peer_sites: Ints, site: int) -> Ledger:
        """Add the next axes, give pending items the new views, and return the new ledger."""
        learner, before = self.learner, len(ledger.views)
        _, new = self.steps.pop(0)
        learner.memory.use(ledger)
        handed = learner.add_axes(*new)
        views, own = len(learner.ledger.views), len(learner.arms.own)
        width = memo_width(views, own)
        labels.kept[:, site, 0, :width] = with_more_views(labels.kept[:, site, 0], before, views, own, handed)
        arms = labels.pending[:, :, ARM]
        asked = np.take_along_axis(peer_sites[None].repeat(len(arms), axis=0), arms[..., None], axis=2)[..., 0] == site
        kept = labels.kept[:, :, 1]
        kept[asked, :width] = with_more_views(kept[asked], before, views, own, handed)
        return learner.ledger


def check_features(features: object, count: int) -> None:
    """Raise unless these are the features of `count` items."""
    allowed = "a list of mappings from names to values, one for each item"
    if not isinstance(features, Sequence) or isinstance(features, str | bytes):
        raise SettingError("features", features, allowed)
    if len(features) != count:
        raise SettingError("features", f"those of {len(features)} items", f"{allowed} of contexts ({count})")
    for item in features:
        check_kind("the features of an item", item, Mapping, "a mapping from names to values")


def precompute(learners: Sequence[Learner], features: Sequence[Mapping[str, Any]], items: Ints) -> list[AxisSchedule]:
    """Return the axes that learners will get, from the items [slot, site] that arrive at each."""
    if not all(learner.policy.mixes for learner in learners):
        raise NetworkError("only learners that mix views can look at features: give them MixedViews()")
    for learner in learners:
        if learner.arrivals or learner.features:
            raise NetworkError(
                f"site {learner.name!r} has seen {learner.arrivals} items, and a learner does not keep what it saw of "
                f"their features: simulate all items at once with a new one, or use a Site, which can continue"
            )
    if len(items) and (items[0] < 0).any():
        raise NetworkError("every site must get an item in the first slot, to find out which features there are")
    found = dict[bytes, tuple[Steps, Floats]]()  # by stream: all sites often have the same
    schedules = []
    for site, learner in enumerate(learners):
        stream = items[items[:, site] >= 0, site]
        if stream.tobytes() not in found:
            watched, new_axes = _watch([features[item] for item in stream.tolist()])
            found[stream.tobytes()] = new_axes, watched.place(features)
        steps, points = found[stream.tobytes()]
        schedules.append(AxisSchedule(learner, [*steps], points))
    return schedules


def features_with_axes(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return by name the axes that features get when these items arrive, in the order of the axes."""
    return _watch(items)[0].axis_names


def _watch(items: Sequence[Mapping[str, Any]]) -> tuple[FeatureAxes, Steps]:
    watched, done, steps = FeatureAxes(), 0, Steps()
    while done < len(items):
        found = watched.found(items[done])
        if found is not None:
            places = tuple(watched.places_before(found))
            watched.enter(found)
            if found.axes or found.constant:
                steps.append((done, NewAxes(len(found.axes), len(found.constant), places)))
        done += watched.watch(items[done:])[0]
    return watched, steps


def contexts_by_site(contexts: Floats, schedules: Sequence[AxisSchedule]) -> Floats:
    """Return [site, item, axis]: where items lie for every site; one site stands for all if they share it."""
    if all(each.points is None for each in schedules):
        return contexts[None]
    found = [each.points for each in schedules if each.points is not None]
    widest = max(points.shape[1] for points in found)
    blank = [np.full((len(contexts), widest - points.shape[1]), np.nan) for points in found]
    sites = [np.hstack([contexts, points, rest]) for points, rest in zip(found, blank, strict=True)]
    return np.ascontiguousarray(np.stack(sites))
