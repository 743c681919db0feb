"""What a site goes by: which parts of the context it trusts, what they say of an item, which classifier is best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from cosend.alone import Alone, one_at_a_time
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.values import Explanation, View
from cosend.site.context import Axis, Column, read_columns
from cosend.site.features import features_in
from cosend.site.past import Codes, Past, RecentValues
from cosend.site.rules import Rules

NOBODY: Final = "best local"  # the caller whose questions no label follows; it only breaks ties


class Trusting:
    """The part of a site that tells what it goes by."""

    alone: Alone
    axes: tuple[Axis, ...]
    rules: Rules

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes; features that have got one are behind those that were given."""
        return self.rules.axis_names

    @one_at_a_time
    def trust(self) -> dict[str, View]:
        """Return by name the parts of the context, and how much weight each has."""
        return trusted_views(self.rules.learner.views(), self.axis_names)

    @one_at_a_time
    def explain(self, item: Any) -> list[tuple[str, Explanation]]:
        """Return by name what every view of `MixedViews` forecasts for an item now, the largest weight first."""
        (point,) = self._looked_up([item])
        return [(name_of_view(each.view, self.axis_names), each) for each in self.rules.learner.explain(point)]

    def _looked_up(self, items: Sequence[Any]) -> Floats:
        """Return [item, axis]: where each item would lie if it came next; nothing changes."""
        rules, past = self.rules, self.rules.past
        points = looked_up(rules.given, items, past, rules.learner.arrivals)
        if past.features is None:
            return points
        return np.hstack([points, past.features.place(features_in(read_columns(self.axes[-1:], items)))])

    @one_at_a_time
    def best_local(self, items: Sequence[Any]) -> list[str]:
        """Return for every item the local classifier that has done best so far around its context.

        Nothing is decided, explored or remembered: the same items get the same answer in any order.

        >>> from cosend import Context, Site
        >>> models = {"zero": lambda item: 0, "one": lambda item: 1}
        >>> site = Site("here", classifiers=models, context=Context("x", range=(0, 1)))
        >>> for _ in range(10):
        ...     site.learn(site.classify({"x": 0.5}), 1)
        >>> site.best_local([{"x": 0.5}])
        ['one']
        """
        learner, points = self.rules.learner, self._looked_up(items)
        flags = [(False, False)] * len(points)  # neither training nor a label to come: nothing is entered
        answers = learner.answer_many(points, caller=NOBODY, requests=[0] * len(points), flags=flags)
        return [answer.function for answer in answers]


def looked_up(axes: Sequence[Axis], items: Sequence[Any], past: Past, arrivals: int) -> Floats:
    """Return [item, axis]: where each item would lie if it came next, whatever the others are; nothing changes."""
    points = np.empty((len(items), len(axes)))
    for number, column in enumerate(read_columns(axes, items)):
        points[:, number] = _places(axes[number], number, column, past, arrivals)
    return points


def _places(axis: Axis, number: int, column: Column, past: Past, arrivals: int) -> list[float]:
    if axis.ranked:
        recent = past.recent.get(number, RecentValues(axis.ranked))
        return [recent.look(float(value)) for value in column]
    if axis.is_category:
        codes = past.codes.get(number, Codes())
        return [codes.find(value) for value in column]
    return [float(axis.place(column[n : n + 1], past, arrivals)[0]) for n in range(len(column))]


def trusted_views(views: Sequence[View], axes: Sequence[str]) -> dict[str, View]:
    """Return views by name; those of the same axes are one, and the view that adds up is part of all that it adds."""
    trusted: dict[str, View] = {}
    for view in shared_out(views):
        name = name_of_view(view, axes)
        trusted[name] = joined(trusted[name], view) if name in trusted else view
    return trusted


def shared_out(views: Sequence[View]) -> Sequence[View]:
    """Return views with what the one that adds up has of the weight, each as much as its cells make a difference."""
    summed = sum(view.share for view in views if view.is_sum)
    if not any(view.added for view in views):
        return views
    shared = [view._replace(share=view.share + summed * view.added) for view in views if not view.is_sum]
    heaviest = max(view.share for view in shared)
    return [view._replace(trusted=view.share == heaviest) for view in shared]


def name_of_view(view: View, axes: Sequence[str]) -> str:
    """Return the name of a view: of its axes, "none" without any, or what a pattern or a sum is."""
    if view.is_pattern:
        return "who was right last"
    if view.is_sum:
        return "all added up"
    return " + ".join([*axes, "time"][axis] for axis in view.axes) or "none"


def joined(one: View, other: View) -> View:
    """Return two views of the same axes as one, with the fineness of the heavier."""
    heavier = max(one, other, key=lambda view: view.share)
    share, added = one.share + other.share, one.added + other.added
    return heavier._replace(share=share, added=added, trusted=one.trusted or other.trusted)
