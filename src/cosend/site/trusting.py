"""Which parts of the context a site trusts, by name, and what they say of an item."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from cosend.core.learner.values import Explanation, View
from cosend.site.context import Axis, place_columns, read_columns
from cosend.site.rules import Rules


class Trusting:
    """The part of a site that tells what it goes by."""

    axes: tuple[Axis, ...]
    axis_names: tuple[str, ...]
    rules: Rules

    def trust(self) -> dict[str, View]:
        """Return by name the parts of the context that may be trusted, and how each of them fares."""
        trusted: dict[str, View] = {}
        for view in self.rules.learner.views():
            name = name_of_view(view, self.axis_names)
            trusted[name] = joined(trusted[name], view) if name in trusted else view
        return trusted

    def explain(self, item: Any) -> list[tuple[str, Explanation]]:
        """Return by name what every view of `MixedViews` forecasts for an item now, the largest weight first."""
        past, arrivals = deepcopy(self.rules.past), self.rules.learner.arrivals
        (point,) = place_columns(self.axes, read_columns(self.axes, [item]), past, arrivals)
        return [(name_of_view(each.view, self.axis_names), each) for each in self.rules.learner.explain(point)]


def name_of_view(view: View, axes: Sequence[str]) -> str:
    """Return the name of a view: of its axes, "none" without any, or what a pattern is."""
    if view.is_pattern:
        return "who was right last"
    return " + ".join([*axes, "time"][axis] for axis in view.axes) or "none"


def joined(one: View, other: View) -> View:
    """Return two views of the same axes as one, with the fineness of the heavier."""
    heavier = max(one, other, key=lambda view: view.share)
    return heavier._replace(share=one.share + other.share, trusted=one.trusted or other.trusted)
