"""A replay in which every feature is looked at: which features get axes when, and where all items lie then.

Both follow from the items of a site alone, so they are known before the replay begins. It stops where axes come, and
what waits for its label there gets more views, as it does in a site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosend.core.checks import check_kind
from cosend.core.kernel.ledger import Floats, Ints, Ledger
from cosend.core.kernel.mixed_rows import kept_width
from cosend.core.learner.kept_views import with_more_views
from cosend.core.learner.learner import Learner
from cosend.core.policy.mixed import NewAxes, plans_for_features
from cosend.errors import NetworkError, SettingError
from cosend.simulation.kernel.ledgers import NEVER
from cosend.simulation.kernel.loop import ARM, Labels
from cosend.site.features import Watched


@dataclass
class Coming:
    """The axes that a learner gets while it is replayed."""

    learner: Learner
    steps: list[tuple[int, NewAxes]] = field(default_factory=list)  # (arrivals before, axes), in their order
    places: Floats | None = None  # [item, axis]: where all items lie on them

    @property
    def next_at(self) -> int:
        """With how many arrivals before it an item finds new axes."""
        return self.steps[0][0] if self.steps else NEVER

    @property
    def kept_width(self) -> int:
        """How many numbers are kept of an item when all axes are there."""
        learner, views = self.learner, len(self.learner.ledger.views)
        if not learner.policy.mixes:
            return 0
        dimensions, same = learner.dimensions, learner.unchanged
        for _, new in self.steps:
            views += len(plans_for_features(dimensions, new, learner.categories, views, same))
            dimensions, same = dimensions + new.axes, same + new.same - len(new.places)
        return kept_width(views, len(learner.arms.own))

    def come(self, ledger: Ledger, labels: Labels, peer_sites: Ints, site: int) -> Ledger:
        """Add the next axes; returns the ledger with them, and gives what waits as many views."""
        learner, before = self.learner, len(ledger.views)
        _, new = self.steps.pop(0)
        learner.memory.use(ledger)
        handed = learner.add_axes(*new)
        views, own = len(learner.ledger.views), len(learner.arms.own)
        width = kept_width(views, own)
        labels.kept[:, site, 0, :width] = with_more_views(labels.kept[:, site, 0], before, views, own, handed)
        arms = labels.waiting[:, :, ARM]
        asked = np.take_along_axis(peer_sites[None].repeat(len(arms), axis=0), arms[..., None], axis=2)[..., 0] == site
        kept = labels.kept[:, :, 1]
        kept[asked, :width] = with_more_views(kept[asked], before, views, own, handed)
        return learner.ledger


def check_features(features: object, count: int) -> None:
    """Raise unless these are the features of so many items."""
    allowed = "a list of mappings from names to values, one for each item"
    if not isinstance(features, Sequence) or isinstance(features, str | bytes):
        raise SettingError("features", features, allowed)
    if len(features) != count:
        raise SettingError("features", f"those of {len(features)} items", f"{allowed} of contexts ({count})")
    for item in features:
        check_kind("the features of an item", item, Mapping, "a mapping from names to values")


def foresee(learners: Sequence[Learner], features: Sequence[Mapping[str, Any]], items: Ints) -> list[Coming]:
    """Return the axes that learners will get, from the items [slot, site] that come to each."""
    if not all(learner.policy.mixes for learner in learners):
        raise NetworkError("only learners that mix views can look at features: give them MixedViews()")
    for learner in learners:
        if learner.arrivals or learner.features:
            raise NetworkError(
                f"site {learner.name!r} has seen {learner.arrivals} items, and a learner does not keep what it saw of "
                f"their features: replay all items at once with a new one, or use a Site, which goes on"
            )
    if len(items) and (items[0] < 0).any():
        raise NetworkError("every site must get an item in the first slot, to find out which features there are")
    streams = [items[items[:, n] >= 0, n] for n in range(len(learners))]
    found = dict[bytes, tuple[list[tuple[int, NewAxes]], Floats]]()  # by stream: that of all sites is often the same
    for stream in streams:
        if stream.tobytes() not in found:
            found[stream.tobytes()] = _foreseen(features, stream.tolist())
    coming = []
    for learner, stream in zip(learners, streams, strict=True):
        steps, places = found[stream.tobytes()]
        coming.append(Coming(learner, [*steps], places))
    return coming


def _foreseen(features: Sequence[Mapping[str, Any]], items: list[int]) -> tuple[list[tuple[int, NewAxes]], Floats]:
    """Return after how many items of a stream which axes come, and where all items lie on them."""
    watched, steps = _watched([features[item] for item in items])
    return steps, watched.place(features)


def features_with_axes(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the features that get axes when these items come, in the order of the axes."""
    return [feature.name for feature in _watched(items)[0].laid]


def _watched(items: Sequence[Mapping[str, Any]]) -> tuple[Watched, list[tuple[int, NewAxes]]]:
    """Watch all items of a stream."""
    watched, done, steps = Watched(), 0, list[tuple[int, NewAxes]]()
    while done < len(items):
        found = watched.found(items[done])
        if found is not None:
            places = tuple(watched.places_before(found))
            watched.enter(found)
            if found.laid or found.same:
                steps.append((done, NewAxes(len(found.laid), len(found.same), places)))
        done += watched.watch(items[done:])[0]
    return watched, steps


def described(contexts: Floats, coming: Sequence[Coming]) -> Floats:
    """Return [site, item, axis]: where items lie for every site; one for all if it is the same for all."""
    if all(each.places is None for each in coming):
        return contexts[None]
    found = [each.places for each in coming if each.places is not None]
    widest = max(places.shape[1] for places in found)
    blank = [np.full((len(contexts), widest - places.shape[1]), np.nan) for places in found]
    sites = [np.hstack([contexts, places, rest]) for places, rest in zip(found, blank, strict=True)]
    return np.ascontiguousarray(np.stack(sites))
