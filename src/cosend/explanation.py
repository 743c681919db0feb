"""Why a site chooses as it does: values to print, to show in a notebook, or to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from cosend.algorithm.values import Phase, View, ViewForecast
from cosend.text import SmallTable, counted, plain_number, short_text

MOST_NAMED: Final = 3  # arms in a sentence, and features of an item
MOST_ARMS: Final = 5  # columns of the table of views
MOST_VIEWS: Final = 5  # rows of it
MOST_WEIGHTS: Final = 10
ENOUGH_WEIGHT: Final = 0.1  # of a feature that is named
REST: Final = "{} more"


class ArmForecast(NamedTuple):
    """The forecast of one arm for an item."""

    name: str
    kind: str  # "local" or "peer"
    gain: float  # what all views together forecast; what answers really cost above the expected cost is taken off
    cost: float  # that is expected, as it counts in this choice: a budget, and the home margin of a peer, add to it
    at_best: float | None  # the largest net gain that is believable, by which arms are compared; None: not possible now
    state: str  # "chosen", "paused", "backing off", "not now", or nothing

    @property
    def net(self) -> float:
        """The gain minus the cost."""
        return self.gain - self.cost


class Explanation(NamedTuple):
    """Why an item gets its arm: print it, show it in a notebook, or read its fields."""

    subject: str  # the item in a few words
    arm: str  # that is chosen, or was
    phase: Phase
    arms: Sequence[ArmForecast]
    views: Mapping[str, ViewForecast]  # by name, the largest weight first
    now: str  # the arm that would be chosen now; another one than `arm` only for a decision
    by_labels: bool = True  # gains are how often an arm is right

    def sentence(self) -> str:
        """Return the explanation in one sentence."""
        named = {each.name for each in [*self._possible()][:MOST_NAMED]} | {self.arm}
        told = [each for each in self.arms if each.name in named]
        parts = [self._told(each, first=n == 0) for n, each in enumerate(told)]
        why = ", to learn about it" if self.phase is Phase.EXPLORE else ""
        later = f"; now it would be {self.now}" if self.now != self.arm else ""
        return f"{self.subject}: {', '.join(parts)}: {self.arm}{why}{later}"

    def _told(self, arm: ArmForecast, *, first: bool) -> str:
        less = f" less {100 * arm.cost:.3g}% cost" if arm.cost else ""
        if not self.by_labels:
            return f"{arm.name} {'gains ' if first else ''}{arm.gain:.3f}{less}"
        return f"{arm.name} {'is right ' if first else ''}{100 * arm.gain:.0f}%{' of the time' if first else ''}{less}"

    def _possible(self) -> Sequence[ArmForecast]:
        """Return the arms that can be chosen, the best first."""
        return sorted((each for each in self.arms if each.at_best is not None), key=lambda each: -(each.at_best or 0))

    def tables(self) -> tuple[SmallTable, SmallTable]:
        """Return a table of the arms, and one of the views that carry the most weight."""
        unsure = any(each.at_best is not None and abs(each.at_best - each.net) > 1e-9 for each in self.arms)
        heading = ["arm", "expected gain", "cost", "net", *(["at best"] if unsure else []), ""]
        rows = []
        for each in self.arms:
            best = [] if not unsure else ["" if each.at_best is None else f"{each.at_best:.3f}"]
            rows.append(
                [each.name, f"{each.gain:.3f}", f"{plain_number(each.cost, 3)}", f"{each.net:.3f}", *best, each.state]
            )
        names = {each.name for each in [*self._possible()][:MOST_ARMS]}
        shown = [each.name for each in self.arms if each.name in names]
        views = [[name, *_view_row(each, shown)] for name, each in [*self.views.items()][:MOST_VIEWS]]
        rest = [*self.views.values()][MOST_VIEWS:]
        if rest:
            views.append([REST.format(len(rest)), *_view_row(joined(rest), shown)])
        return SmallTable("", heading, rows), SmallTable("", ["view", "weight", *shown], views)

    def __str__(self) -> str:
        arms, views = self.tables()
        return f"{self.sentence()}\n{arms.text()}\n{views.text()}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.sentence())}</p>" + "".join(table.html() for table in self.tables())


def _view_row(view: ViewForecast, arms: Sequence[str]) -> list[str]:
    return [f"{100 * view.view.share:.1f}%", *(f"{view.forecasts[arm]:.3f}" for arm in arms)]


class Weights(dict[str, View]):
    """The views of a site by name, and how much weight each has: print it, or show it in a notebook."""

    def table(self) -> SmallTable:
        """Return it as a table, the largest weight first."""
        views = sorted(self.items(), key=lambda each: -each[1].share)
        rows = [[name, f"{100 * view.share:.1f}%"] for name, view in views[:MOST_WEIGHTS]]
        rest = views[MOST_WEIGHTS:]
        if rest:
            rows.append([REST.format(len(rest)), f"{100 * sum(view.share for _, view in rest):.1f}%"])
        return SmallTable(counted(len(self), "view"), ["view", "weight"], rows)

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def named_forecasts(parts: Sequence[ViewForecast], axes: Sequence[str]) -> dict[str, ViewForecast]:
    """Return forecasts by the names of their views, the largest weight first; views of the same axes are one."""
    groups: dict[str, list[ViewForecast]] = {}
    for part in parts:
        groups.setdefault(name_of_view(part.view, axes), []).append(part)
    found = {name: joined(group) for name, group in groups.items()}
    return dict(sorted(found.items(), key=lambda each: -each[1].view.share))


def joined(parts: Sequence[ViewForecast]) -> ViewForecast:
    """Return the forecasts of several views as one, each by its weight."""
    view = parts[0].view
    for part in parts[1:]:
        view = _joined(view, part.view)
    total = view.share or 1.0
    forecasts = {
        arm: sum(each.view.share * each.forecasts[arm] for each in parts) / total for arm in parts[0].forecasts
    }
    return ViewForecast(view, forecasts)


def in_few_words(item: Any, weights: Mapping[str, View], axes: Sequence[str]) -> str:
    """Return the features of an item that carry most weight."""
    by_axis = dict.fromkeys(axes, 0.0)
    for view in weights.values():
        for axis in view.axes:
            by_axis[axes[axis]] += view.share
    named = sorted((name for name in axes if by_axis[name] >= ENOUGH_WEIGHT), key=lambda name: -by_axis[name])
    values = [(name, _value(item, name)) for name in named]
    told = [f"{name} = {short_text(value)}" for name, value in values if isinstance(value, str | int | float)]
    return ", ".join(told[:MOST_NAMED]) or "this item"


def _value(item: Any, name: str) -> Any:
    if isinstance(item, Mapping):
        return item.get(name)
    return getattr(item, name, None) if name.isidentifier() else None


# Names of views


def weighted_views(views: Sequence[View], axes: Sequence[str]) -> Weights:
    """Return views by name; views of the same axes are one, and the view that adds up is part of all that it adds."""
    found = Weights()
    for view in _shared_out(views):
        name = name_of_view(view, axes)
        found[name] = _joined(found[name], view) if name in found else view
    return found


def _shared_out(views: Sequence[View]) -> Sequence[View]:
    """Return views with what the one that adds up has of the weight, each as much as its cells make a difference."""
    summed = sum(view.share for view in views if view.is_sum)
    if not any(view.added for view in views):
        return views
    shared = [view._replace(share=view.share + summed * view.added) for view in views if not view.is_sum]
    heaviest = max(view.share for view in shared)
    return [view._replace(is_heaviest=view.share == heaviest) for view in shared]


def name_of_view(view: View, axes: Sequence[str]) -> str:
    """Return the name of a view: of its axes, "no feature" without any, or what a pattern or a sum is."""
    if view.is_pattern:
        return "who was right last"
    if view.is_sum:
        return "features added up"
    return " + ".join(axes[axis] for axis in view.axes) or "no feature"


def _joined(one: View, other: View) -> View:
    """Return two views of the same axes as one, with the fineness of the heavier."""
    heavier = max(one, other, key=lambda view: view.share)
    share, added = one.share + other.share, one.added + other.added
    return heavier._replace(share=share, added=added, is_heaviest=one.is_heaviest or other.is_heaviest)
