"""Which parts of the context a site trusts, by name, and what they say of an item."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from cosend.core.learner.values import Explanation, View
from cosend.site.context import Axis, place_columns, read_columns
from cosend.site.features import features_in
from cosend.site.rules import Rules


class Trusting:
    """The part of a site that tells what it goes by."""

    axes: tuple[Axis, ...]
    rules: Rules
    _candidates: tuple[str, ...]

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes: those of candidates if there are any; features that have got one are behind."""
        return self._candidates or self.rules.axis_names

    def trust(self) -> dict[str, View]:
        """Return by name the parts of the context that may be trusted, and how each of them fares."""
        return trusted_views(self.rules.learner.views(), self.axis_names)

    def explain(self, item: Any) -> list[tuple[str, Explanation]]:
        """Return by name what every view of `MixedViews` forecasts for an item now, the largest weight first."""
        rules, past = self.rules, deepcopy(self.rules.past)
        columns = read_columns(self.axes, [item])
        point = np.zeros(0)
        if rules.given:
            (point,) = place_columns(rules.given, columns[: len(rules.given)], past, rules.learner.arrivals)
        if past.features is not None:
            point = np.hstack([point, *past.features.place(features_in(columns))])
        return [(name_of_view(each.view, self.axis_names), each) for each in self.rules.learner.explain(point)]


def trusted_views(views: Sequence[View], axes: Sequence[str]) -> dict[str, View]:
    """Return views by name; those of the same axes are one."""
    trusted: dict[str, View] = {}
    for view in views:
        name = name_of_view(view, axes)
        trusted[name] = joined(trusted[name], view) if name in trusted else view
    return trusted


def name_of_view(view: View, axes: Sequence[str]) -> str:
    """Return the name of a view: of its axes, "none" without any, or what a pattern is."""
    if view.is_pattern:
        return "who was right last"
    return " + ".join([*axes, "time"][axis] for axis in view.axes) or "none"


def joined(one: View, other: View) -> View:
    """Return two views of the same axes as one, with the fineness of the heavier."""
    heavier = max(one, other, key=lambda view: view.share)
    return heavier._replace(share=one.share + other.share, trusted=one.trusted or other.trusted)
