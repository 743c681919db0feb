"""The parts of the page as HTML, from a snapshot: words and tables by Jinja2, figures by `cosend.charts`.

Jinja2 escapes everything that is put into a template, and a drawing escapes its words.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from cosend.charts.drawing import Drawing, Look, looks_of_arms
from cosend.charts.figures import Line, Patch, Scale, Strip, flow_chart, line_chart, map_chart, strip_chart
from cosend.pages.site_view import AxisView, Choice, Flow, Means, SiteView, Snapshot
from cosend.pages.winning_arms import Square, Winner, interval, winner
from cosend.runtime.inspection import Facts
from cosend.text import counted, short_number, short_text

MOST_POINTS: Final = 48  # of a curve
MOST_VALUES: Final = 12  # of a category
MOST_SITES: Final = 12  # in the figure of the network
NOTHING: Final = "\N{EN DASH}"
ITEMS: Final = Look("var(--soft)", 0.45)
SENTENCES: Final = {
    "train": "The arm had too little labelled data around this context, so this item was sent to teach it.",
    "explore": "Too little was known here about what this arm earns, and it could have been the best, so it was tried.",
    "exploit": "By what was known here, this arm earns the most after its cost.",
}


class State(NamedTuple):
    """Whether an arm is used now: a mark, a word, and how that looks."""

    mark: str
    word: str
    look: str  # good, warn, bad or off


def state_of(arm: Facts) -> State:
    """Return whether an arm is used now, and if not, why."""
    if arm["paused"]:
        return State("\N{DOUBLE VERTICAL LINE}", "paused", "off")
    if arm["refused"]:
        return State("\N{MULTIPLICATION X}", "refused", "bad")
    if not arm["present"]:
        return State("\N{MULTIPLICATION X}", "offline", "bad")
    if arm["breaker"] == "open":
        return State("\N{MULTIPLICATION X}", "backing off", "bad")
    if arm["breaker"] == "half open":
        return State("\N{BLACK UP-POINTING TRIANGLE}", "retrying", "warn")
    return State("\N{BLACK CIRCLE}", "in use", "good")


# Numbers in words


def duration(seconds: float) -> str:
    """Return a time as people say it: 0.4 s, 12 s, 3 min, 2.5 h, 3 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 1.95 * size:
            number = f"{seconds / size:.1f}".removesuffix(".0") if seconds < 10 * size else f"{seconds / size:.0f}"
            return f"{number}\N{NO-BREAK SPACE}{unit}"
    return f"{seconds:.{0 if seconds >= 10 else 1}f}\N{NO-BREAK SPACE}s"


def percent(share: float | None, decimals: int = 1) -> str:
    """Return a share in percent; a share that would be rounded to nothing is said to be less than the smallest."""
    if share is None:
        return NOTHING
    smallest = 10.0**-decimals
    if 0 < 100 * share < smallest / 2:
        return f"<{smallest:.{decimals}f}%"
    return f"{100 * share:.{decimals}f}%"


def _reward(value: float | None) -> str:
    return NOTHING if value is None else f"{max(0.0, value) if value > -5e-4 else value:.3f}"


def _latency(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} \N{MICRO SIGN}s"


def _rate(number: float) -> str:
    return short_number(number) if number >= 10 else f"{number:.1f}"


def _ago(at: float) -> str:
    age = time.time() - at
    return f"{duration(age)} ago" if age >= 0.05 else "just now"


def _breakable(name: str) -> Markup:
    return escape(name).replace("_", Markup("_<wbr>"))


@cache
def templates() -> Environment:
    """Return the templates of the pages."""
    found = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters |= {
        "ago": _ago,
        "breakable": _breakable,
        "counted": counted,
        "duration": duration,
        "few": lambda count: short_number(count) if count else "0",
        "latency": _latency,
        "percent": percent,
        "rate": _rate,
        "reward": _reward,
        "short": short_text,
    }
    return found


def _part(name: str, **values: Any) -> str:
    return str(getattr(templates().get_template("parts.html").module, name)(**values))


# The parts


def render_parts(snapshot: Snapshot, per_second: float | None) -> dict[str, str]:
    """Return the parts in words and numbers that are the same on every page."""
    total = sum(sum(arm["decisions"].values()) for arm in snapshot.arms)
    newest = {each.id for each in snapshot.decisions}
    older = [each for each in snapshot.labelled if each.id not in newest]
    return {
        "head": _part("head", facts=snapshot.facts, why_not_ready=snapshot.why_not_ready),
        "tiles": _part("tiles", snapshot=snapshot, facts=snapshot.facts, per_second=per_second),
        "arms": _part(
            "arms", rows=[_arm_row(*each, total) for each in zip(snapshot.arms, _looks(snapshot), strict=True)]
        ),
        "decisions": _part("decisions", newest=snapshot.decisions, older=older),
    }


def _arm_row(arm: Facts, look: Look, total: int) -> Facts:
    used, mean = sum(arm["decisions"].values()), arm["mean_gain"]
    low, high = (0.0, 0.0) if mean is None else interval(min(1.0, max(0.0, mean)), arm["labels"])
    share = used / total if total else 0.0
    return {**arm, "look": look, "state": state_of(arm), "used": used, "share": share, "low": low, "high": high}


def render_problem(site: str, why: str) -> dict[str, str]:
    """Return the part that is shown while a site starts, or cannot be read."""
    return {"head": _part("problem", site=site, why=why)}


def render_figures(snapshot: Snapshot) -> dict[str, str]:
    """Return the figures that are the same on every page."""
    flows = network_figure(snapshot)
    shares = {each.site: 1 - each.kept / each.items if each.items else None for each in snapshot.flows}
    network = _part(
        "network",
        drawn="" if flows is None else Markup(flows.inline()),  # noqa: S704 - a drawing escapes its words
        rows=[(site, shares.get(site), told) for site, told in sorted(snapshot.traffic.items())],
        window_s=max(1.0, snapshot.window_s),
    )
    return {
        "reward": over_time(snapshot.curve, snapshot.facts["up_s"], "reward").inline(),
        "error": over_time(snapshot.curve, snapshot.facts["up_s"], "error").inline(),
        "network": network,
    }


def render_where(view: SiteView, snapshot: Snapshot, choice: Choice) -> dict[str, str]:
    """Return which arm wins along the chosen axes, and the menu of the axes; nothing if the arms have just changed."""
    found = view.squares(choice, snapshot.arms) if choice else []
    if found is None:
        return {}
    names = [view.axis(number).name for number in range(len(view.axes()))]
    menu = [(",".join(map(str, each)), " and ".join(names[axis] for axis in each)) for each in view.choices()]
    chosen = ",".join(map(str, choice))
    where = _part("note", words="No feature of the items is an axis yet.")
    if choice and not any(map(sum, (square.labels for square in found))):
        where = _part("note", words="No label has arrived yet.")
    elif choice:
        where = where_figure(found, [view.axis(axis) for axis in choice], snapshot).inline()
    return {"where": where, "axes": _part("axes", menu=menu if len(names) > 1 else [], chosen=chosen)}


async def render_why(view: SiteView, id: str) -> str:
    """Return why a decision was made, and what is known now about every arm where its item lies."""
    facts, arms, context, forecasts = await view.decision(id)
    return why(facts, arms, context, forecasts)


def why(
    facts: Facts, arms: Sequence[Facts], context: Sequence[tuple[str, str]], forecasts: Mapping[str, float] | None
) -> str:
    """Return the reasons of a decision as HTML.

    facts      the reply of `GET /v1/decisions/{id}`
    forecasts  what all views together forecast now, if the policy mixes views
    """
    cell = facts["cell_now"]
    known = {} if cell is None else cell["arms"]
    worth = {arm["name"]: _worth(arm, known.get(arm["name"]), forecasts) for arm in arms}
    order = sorted(worth, key=lambda name: -(-9.0 if worth[name] is None else worth[name] or 0.0))
    propensity = facts["propensity"]
    return _part(
        "why",
        facts=facts,
        sentence=SENTENCES[facts["phase"]],
        propensity=None if propensity is None or propensity != propensity else f"{propensity:.3g}",
        context=context,
        cell=cell,
        rows=[(name, worth[name], known.get(name)) for name in order],
        column="mean reward" if forecasts is None else "forecast minus cost",
    )


def _worth(arm: Facts, known: Facts | None, forecasts: Mapping[str, float] | None) -> float | None:
    if forecasts is not None:
        return forecasts[arm["name"]] - float(arm["cost"]) if arm["name"] in forecasts else None
    return float(known["mean_reward"]) if known is not None and known["reward_count"] else None


# Figures


def _looks(snapshot: Snapshot) -> list[Look]:
    owners = [arm["name"] if arm["kind"] == "peer" else snapshot.site for arm in snapshot.arms]
    return looks_of_arms(owners, snapshot.sites)


def thinned(curve: Sequence[Means], most: int = MOST_POINTS) -> list[Means]:
    """Return at most `most` means: neighbours become one, three at least."""
    step = max(3, -(-len(curve) // most))
    return [_mean(curve[start : start + step]) for start in range(0, len(curve), step)]


def _mean(some: Sequence[Means]) -> Means:
    local = [each.local for each in some if each.local is not None]
    middle = [sum(values) / len(some) for values in zip(*(each[1:4] for each in some), strict=True)]
    return Means(some[-1].at_s, middle[0], middle[1], middle[2], sum(local) / len(local) if local else None)


def over_time(curve: Sequence[Means], now_s: float, what: str) -> Drawing:
    """Draw the reward, or the error in percent, since the start, together with always using the best local model."""
    points, is_reward = thinned(curve), what == "reward"
    if len(points) < 2:
        drawing = Drawing(168.0, f"{what} over time")
        drawing.text(drawing.width / 2, drawing.height / 2, "waiting for labels", "soft", "middle")
        return drawing
    ours = [(each.at_s, each.reward if is_reward else 100 * each.error) for each in points]
    alone = [(e.at_s, e.local if is_reward else 100 * (1.0 - e.local)) for e in points if e.local is not None]
    lines = [Line(what, "var(--text)", 2.4, points=ours), Line("always local", "var(--soft)", 1.5, True, alone)]
    return line_chart(
        f"{what} over time",
        lines if len(alone) > 1 else lines[:1],
        Scale("", [(0.0, f"{duration(max(now_s, 1.0))} ago"), (1.0, "now")]),
        (0.0, max(now_s, ours[-1][0])),
        floor=None if is_reward else 0.0,
        least_room=0.04 if is_reward else 2.0,
        height=168.0,
    )


def network_figure(snapshot: Snapshot) -> Drawing | None:
    """Draw the traffic between sites within the window; None for a site without peers."""
    sites = snapshot.sites[:MOST_SITES]
    if len(sites) < 2:
        return None
    offline = {arm["name"] for arm in snapshot.arms if arm["kind"] == "peer" and not arm["present"]}
    idle = set(sites) - {flow.site for flow in snapshot.flows if flow.items}
    notes = dict.fromkeys(idle, "nothing arrives") | dict.fromkeys(offline, "offline")
    return flow_chart(sites, shares_of(snapshot.flows, sites), notes)


def shares_of(flows: Sequence[Flow], sites: Sequence[str]) -> list[list[float]]:
    """Return for every site the percentage of its items that each of these sites answers."""
    found = {flow.site: flow for flow in flows}
    shares = []
    for site in sites:
        flow = found.get(site, Flow(site, 0, {}))
        counts = [flow.kept if other == site else flow.sent.get(other, 0) for other in sites]
        shares.append([100.0 * count / (sum(counts) or 1) for count in counts])
    return shares


class _DrawnAxis(NamedTuple):
    """An axis as it is drawn; of a category, only its commonest values."""

    view: AxisView
    codes: dict[float, int] | None  # of the values of a category: their places
    ticks: Sequence[tuple[float, str]]

    def span(self, low: float, high: float) -> tuple[float, float] | None:
        """Return where a span of values lies, None if it is not drawn."""
        if self.codes is None:
            return low, high
        place = self.codes.get(low)
        return None if place is None else (place / len(self.codes), (place + 1) / len(self.codes))

    def words(self, low: float, high: float) -> str:
        """Return a span of values in words."""
        if self.view.values is not None:
            return f"{self.view.name} {self.view.values[int(low)]}"
        return f"{self.view.name} from {self.view.value_at(low)} to {self.view.value_at(high)}"


def _as_drawn(view: AxisView, squares: Sequence[Square], place: int) -> _DrawnAxis:
    values = view.values
    if values is None:
        return _DrawnAxis(view, None, view.ticks)
    items: dict[float, int] = {}
    for square in squares:
        code = square.spans[place][0]
        if code < len(values):
            items[code] = items.get(code, 0) + square.items
    common = sorted(sorted(items, key=lambda code: -items[code])[:MOST_VALUES], key=lambda c: values[int(c)])
    ticks = [((n + 0.5) / len(common), values[int(code)]) for n, code in enumerate(common)]
    return _DrawnAxis(view, {code: n for n, code in enumerate(common)}, ticks)


def where_figure(squares: Sequence[Square], views: Sequence[AxisView], snapshot: Snapshot) -> Drawing:
    """Draw which arm wins where: a strip on one axis, a map on two."""
    axes = [_as_drawn(view, squares, place) for place, view in enumerate(views)]
    costs, looks = [arm["cost"] for arm in snapshot.arms], _looks(snapshot)
    names = [f"\N{RIGHTWARDS ARROW} {a['name']}" if a["kind"] == "peer" else a["name"] for a in snapshot.arms]
    densest = max((square.items / square.size for square in squares), default=1.0)
    patches, density, shown = list[Patch](), list[Patch](), set[int]()
    for square in squares:
        best = winner(square, costs)
        spans = [axis.span(*span) for axis, span in zip(axes, square.spans, strict=True)]
        places = [span for span in spans if span is not None]
        if best is None or len(places) < len(axes):
            continue
        tip = _tip(
            square, best, [axis.words(*span) for axis, span in zip(axes, square.spans, strict=True)], names, costs
        )
        y = places[1] if len(places) > 1 else (0.0, 1.0)
        patches.append(Patch(places[0], y, looks[best.arm], tip, best.is_sure, names[best.arm]))
        density.append(Patch(places[0], (0.0, square.items / square.size / densest), ITEMS, tip))
        shown.add(best.arm)
    legend = [(names[arm], looks[arm]) for arm in sorted(shown)]
    words = f"Which arm wins at which {' and '.join(axis.view.name for axis in axes)}"
    scales = [Scale(axis.view.name, axis.ticks) for axis in axes]
    if len(scales) == 1:
        return strip_chart(words, [Strip("", patches), Strip("items", density, height=30.0)], scales[0], legend)
    return map_chart(words, "", patches, (scales[0], scales[1]), legend)


def _tip(square: Square, best: Winner, places: Sequence[str], names: Sequence[str], costs: Sequence[float]) -> str:
    rewards = {arm: square.mean(arm) - costs[arm] for arm in range(len(names)) if square.labels[arm]}
    lines = [", ".join(places), counted(square.items, "item")]
    for arm in sorted(rewards, key=lambda arm: -rewards[arm]):
        more = f" \N{PLUS-MINUS SIGN} {best.half:.2f}" if arm == best.arm else ""
        lines.append(f"{names[arm]}: {rewards[arm]:.2f}{more} ({counted(round(square.labels[arm]), 'label')})")
    return "\n".join([*lines, "sure" if best.is_sure else "not sure yet"])
