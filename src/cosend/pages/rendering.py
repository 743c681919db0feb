"""The parts of the page as HTML, from a snapshot: words and tables by Jinja2, figures by `cosend.charts`.

Jinja2 escapes everything that is put into a template, and a drawing escapes its words.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from jinja2 import Environment
from markupsafe import Markup, escape

from cosend.charts.figures import (
    Drawing,
    Look,
    Patch,
    Scale,
    Span,
    Strip,
    flow_chart,
    looks_apart,
    map_chart,
    strip_chart,
)
from cosend.charts.time_chart import Curve, Readings, time_chart
from cosend.engine.arm_health import PHASE_NAMES
from cosend.engine.scoring import UNITS
from cosend.pages.over_time import DEFAULT, NAMES, Point, Series
from cosend.pages.over_time import ticks_of as time_ticks
from cosend.pages.site_view import AxisView, Choice, Flow, Row, SiteView, Snapshot
from cosend.pages.winning_arms import SURE, Square, Winner, interval, winner
from cosend.report.verdict import learnt_words
from cosend.runtime.inspection import Facts
from cosend.text import counted, plain_number, short_number, short_text
from cosend.text import templates as templates_of

MOST_VALUES: Final = 12  # of a category
MOST_SITES: Final = 12  # in the figure of the network
NOTHING: Final = "\N{EN DASH}"
STATES: Final = {"open": ("backing off", "bad"), "half open": ("retrying", "warn"), "closed": ("in use", "good")}
DECADES_S: Final = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
MOST_EVENTS: Final = 4  # that are listed
TOO_LITTLE: Final = {
    "main": "Not enough data in this range.",
    "error": "Not enough data in this range.",
    "rate": "No items in this range.",
    "latency": "No requests in this range.",
}
KINDS_IN_WORDS: Final = {"labelled": "newest", "wrong": "incorrect", "explored": "explored", "sent": "sent"}
FEWEST_LABELS: Final = 10  # of the best arm, for a cell to be drawn
CLEAR: Final = 0.8  # certainty of a cell that is drawn over a larger one
PALEST: Final = 0.12
SENTENCES: Final = {
    "train": "The arm had too little labelled data around this context, so this item was sent to teach it.",
    "explore": "Too little was known here about what this arm earns, and it could have been the best, so it was tried.",
    "exploit": "By what was known here, this arm earns the most after its cost.",
}


def state_of(arm: Facts) -> tuple[str, str]:
    """Return whether an arm is used now, as a word, and how that looks: good, warn, bad or off."""
    if arm["paused"]:
        return "paused", "off"
    if arm["refused"]:
        return "refused", "bad"
    if not arm["present"]:
        return "offline", "bad"
    return STATES[arm["breaker"]]


# Numbers in words


def duration(seconds: float) -> str:
    """Return a time as people say it: 0.4 s, 12 s, 3 min, 2.5 h, 3 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 1.95 * size:
            number = f"{seconds / size:.1f}".removesuffix(".0") if seconds < 10 * size else f"{seconds / size:.0f}"
            return f"{number}\N{NO-BREAK SPACE}{unit}"
    return f"{seconds:.{0 if seconds >= 10 else 1}f}\N{NO-BREAK SPACE}s"


def percent(share: float | None, decimals: int = 1) -> str:
    """Return a share in percent; one that would be rounded to nothing is said to be less than the smallest."""
    if share is None:
        return NOTHING
    smallest = 10.0**-decimals
    if 0 < 100 * share < smallest / 2:
        return f"<{smallest:.{decimals}f}%"
    return f"{100 * share:.{decimals}f}%"


def _reward(value: float | None) -> str:
    return NOTHING if value is None else f"{max(0.0, value) if value > -5e-4 else value:.3f}"


def _latency(seconds: float | None) -> str:
    if not seconds:  # it was never used
        return NOTHING
    if seconds >= 0.9995:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} \N{MICRO SIGN}s"


def _rate(number: float) -> str:
    return short_number(number) if number >= 10 else f"{number:.1f}"


def _ago(at: float) -> str:
    age = time.time() - at
    return f"{duration(age)} ago" if age >= 0.05 else "just now"


@cache
def _templates() -> Environment:
    found = templates_of(__package__)
    found.filters |= {
        "ago": _ago,
        "amount": lambda amount, currency: f"{plain_number(amount, 3)} {currency}".strip(),
        "breakable": lambda name: escape(name).replace("_", Markup("_<wbr>")),
        "counted": counted,
        "duration": duration,
        "exact": lambda number: plain_number(number, 15),
        "few": lambda count: short_number(count) if count else "0",
        "latency": _latency,
        "lead": lambda margin: "0" if abs(margin) < 5e-4 else _signed(round(margin, 3)),
        "learnt": learnt_words,
        "percent": percent,
        "plain": lambda number: plain_number(number, 3),
        "phase": PHASE_NAMES.__getitem__,
        "rate": _rate,
        "reward": _reward,
        "signed": lambda value: f"{value:+.3f}".replace("-", "\N{MINUS SIGN}"),
        "signless": lambda value: plain_number(max(0.0, value), 3) if value < 100 else short_number(value),
        "short": short_text,
    }
    return found


def render_part(name: str, **values: Any) -> str:
    return str(getattr(_templates().get_template("parts.html").module, name)(**values))


# The page and its parts


def render_page(site: str, *, needs_token: bool) -> str:
    """Return the page that gets its parts later."""
    given = {"ranges": NAMES, "range": DEFAULT, "kinds": KINDS_IN_WORDS}
    return _templates().get_template("dashboard.html").render(site=site, needs_token=needs_token, **given)


def render_parts(snapshot: Snapshot) -> dict[str, str]:
    """Return the parts that are the same on every page."""
    total = sum(sum(arm["decisions"].values()) for arm in snapshot.arms)
    shares = {each.site: 1 - each.kept / each.items if each.items else None for each in snapshot.flows}
    return {
        "head": render_part(
            "head",
            facts=snapshot.facts,
            why_not_ready=snapshot.why_not_ready,
            sites=snapshot.sites,
            addresses=snapshot.addresses,
        ),
        "tiles": render_part("tiles", snapshot=snapshot, facts=snapshot.facts),
        "arms": render_part(
            "arms",
            rows=[_arm_row(*each, total) for each in zip(snapshot.arms, _looks(snapshot), strict=True)],
            measure=snapshot.measure,
            currency=snapshot.facts["currency"] or "",
            addresses=snapshot.addresses,
        ),
        "network": render_part(
            "network",
            drawn=_network_figure(snapshot),
            rows=[(site, shares.get(site), told) for site, told in sorted(snapshot.traffic.items())],
            addresses=snapshot.addresses,
            here=snapshot.site,
            window_s=snapshot.window_s,
        ),
    }


def _arm_row(arm: Facts, look: Look, total: int) -> Facts:
    used, mean = sum(arm["decisions"].values()), arm["mean_gain"]
    low, high = (0.0, 0.0) if mean is None else interval(min(1.0, max(0.0, mean)), arm["mean_over"])
    share = used / total if total else 0.0
    return {**arm, "look": look, "state": state_of(arm), "used": used, "share": share, "low": low, "high": high}


def render_decisions(rows: Sequence[Row], kind: str, snapshot: Snapshot) -> dict[str, str]:
    """Return the newest decisions of a kind."""
    looks = dict(zip((arm["name"] for arm in snapshot.arms), _looks(snapshot), strict=True))
    return {"decisions": render_part("decisions", rows=rows, kind=kind, measure=snapshot.measure, looks=looks)}


def as_value(choice: Choice) -> str:
    """Return chosen axes as the value of an option in the menu, and of the query of a page."""
    return ",".join(map(str, choice))


def render_where(view: SiteView, snapshot: Snapshot, choice: Choice) -> dict[str, str]:
    """Return which arm wins along the chosen axes, and the menu of the axes; nothing if the arms have just changed."""
    found = view.squares(choice, snapshot.arms) if choice else []
    if found is None:
        return {}
    where = render_part("note", words="No feature of the items is an axis yet.")
    if choice and not any(map(sum, (square.labels for square in found))):
        where = render_part("note", words="No label has arrived yet.")
    elif choice:
        where = where_figure(found, [view.axis(axis) for axis in choice], snapshot).inline()
    menu = [(as_value(each), words) for each, words in view.choices().items()]
    return {"where": where, "axes": render_part("axes", menu=menu if len(menu) > 1 else [], chosen=as_value(choice))}


def render_why(
    facts: Facts,
    arms: Sequence[Facts],
    context: Sequence[tuple[str, str]],
    forecasts: Mapping[str, float] | None,
    currency: str = "",
) -> str:
    """Return why a decision was made, and what is known now about every arm where its item lies.

    facts      the reply of `GET /v1/decisions/{id}`
    forecasts  what all views together forecast now, if the policy mixes views
    """
    cell = facts["cell_now"]
    known = {} if cell is None else cell["arms"]
    worth = {arm["name"]: _worth(arm, known.get(arm["name"]), forecasts) for arm in arms}
    order = sorted(worth, key=lambda name: -(-9.0 if worth[name] is None else worth[name] or 0.0))
    propensity = facts["propensity"]
    return render_part(
        "why",
        facts=facts,
        sentence=SENTENCES[facts["phase"]],
        propensity=None if propensity is None or propensity != propensity else f"{propensity:.3g}",
        context=context,
        cell=cell,
        rows=[(name, worth[name], known.get(name)) for name in order],
        column="mean reward" if forecasts is None else "forecast minus cost",
        currency=currency,
    )


def _worth(arm: Facts, known: Facts | None, forecasts: Mapping[str, float] | None) -> float | None:
    if forecasts is not None:
        return forecasts[arm["name"]] - float(arm["cost"]) if arm["name"] in forecasts else None
    return float(known["mean_reward"]) if known is not None and known["reward_count"] else None


# Figures


def _looks(snapshot: Snapshot) -> list[Look]:
    owners = [arm["name"] if arm["kind"] == "peer" else snapshot.site for arm in snapshot.arms]
    return looks_apart(owners, snapshot.sites, snapshot.site)


Moment: TypeAlias = Callable[[float], float]  # from seconds since the process started to seconds since 1970


def render_charts(series: Series, snapshot: Snapshot, moment: Moment) -> dict[str, str]:
    """Return the charts of a time range."""
    best = snapshot.local
    has_best = best is not None and series.total is not None
    charts = {
        "main": _main_chart(series, has_best),
        "error": _error_chart(series, snapshot, "" if best is None else best.name),
        "rate": _rate_chart(series),
        "latency": _latency_chart(series),
    }
    words = {
        "main": f"Advantage over {best.name}" if has_best and best is not None else "Reward",
        "error": {"error": "Error", "score": "Mean score", "gain": "Mean gain"}[snapshot.measure],
        "rate": "Items per second",
        "latency": "Time to answer a request",
    }
    total = f"{series.total or 0.0:+,.0f}".replace("-", "\N{MINUS SIGN}")
    made = {
        key: _with_readings(moment, chart, words[key])
        if chart is not None
        else render_part("note", words=TOO_LITTLE[key])
        for key, chart in charts.items()
    }
    titles = {
        "main_title": render_part("chart_title", words="Advantage over", model=best.name, total=total)
        if has_best and best is not None
        else render_part("chart_title", words=words["main"], model="", total=""),
        "error_title": words["error"],
    }
    return {**made, **titles}


def render_events(series: Series, moment: Moment) -> dict[str, str]:
    """Return the newest of what has happened in a time range."""
    marks = [each for each in reversed(series.events) if each.look != "minor"][:MOST_EVENTS]
    return {"events": render_part("events", events=[(moment(each.at_s), each) for each in marks])}


def _with_readings(moment: Moment, chart: tuple[Drawing, Readings], words: str) -> str:
    drawing, readings = chart
    return render_part(
        "chart",
        drawn=Markup(drawing.inline()),  # noqa: S704 - a drawing escapes its words
        readings=json.dumps(readings.plain(lambda at_s: round(moment(at_s), 1)), separators=(",", ":")),
        words=words,
    )


def _signed(value: float) -> str:
    shown = f"{value:+.3g}".replace("-", "\N{MINUS SIGN}")
    return "0" if shown in ("+0", "\N{MINUS SIGN}0") else shown


def _curve(
    series: Series, what: Callable[[Point], float | None], say: Callable[[float], str], name: str, **look: Any
) -> Curve:
    found = [(point.at_s, value) for point in series.points if (value := what(point)) is not None]
    return Curve(name, found, [say(value) for _, value in found], **look)


def _chart(
    series: Series, words: str, curves: Sequence[Curve], in_words: Callable[[float], str], **options: Any
) -> tuple[Drawing, Readings] | None:
    """Draw curves; None if none of them has two points."""
    curves = [curve for curve in curves if len(curve.points) > 1]
    if not curves:
        return None
    events = [each for each in series.events if each.look != "minor" or "is_labelled" in options]
    return time_chart(words, curves, series.span, time_ticks(series.span), in_words, events=events, **options)


def _main_chart(series: Series, has_best: bool) -> tuple[Drawing, Readings] | None:
    if has_best:
        curve = _curve(series, lambda p: _times(p.advantage, 100), _signed, "advantage", width=2.2)
        return _chart(
            series, "Advantage over time", [curve], _signed, fill="var(--mark)", least_room=2.0, is_labelled=True
        )
    curve = _curve(series, lambda p: _times(p.reward, 100), "{:.3g}".format, "reward", width=2.2)
    return _chart(series, "Reward over time", [curve], "{:g}".format, zero=False, least_room=2.0, is_labelled=True)


def _error_chart(series: Series, snapshot: Snapshot, best: str) -> tuple[Drawing, Readings] | None:
    measure = snapshot.measure
    if measure != "error":
        low, high = snapshot.facts["score_range"] if measure == "score" else UNITS
        curve = _curve(series, lambda p: _times(p.error, low - high, high), "{:.3f}".format, "mean " + measure)
        room = 0.02 * (high - low)
        return _chart(series, f"Mean {measure} over time", [curve], "{:g}".format, zero=False, least_room=room)
    ours = _curve(series, lambda p: p.error, percent, "this site", width=2.2)
    alone = _curve(
        series,
        lambda p: p.local_error,
        percent,
        f"{short_text(best, 16)} alone",
        ink="var(--soft)",
        width=1.5,
        dashed=True,
    )
    return _chart(series, "Error over time", [ours, alone], lambda v: f"{100 * v:g}%", least_room=0.02)


def _rate_chart(series: Series) -> tuple[Drawing, Readings] | None:
    items = _curve(series, lambda p: p.items, _rate, "all", width=2.0)
    sent = _curve(series, lambda p: p.sent, _rate, "sent to peers", ink="var(--soft)", width=1.5, dashed=True)
    options: Any = {"fill": "var(--soft)", "least_room": 1.0}
    return _chart(series, "Items per second over time", [items, sent], "{:g}".format, **options)


def _latency_chart(series: Series) -> tuple[Drawing, Readings] | None:
    """Draw times on a logarithmic axis."""
    slow = _curve(series, lambda p: p.slow_s, _latency, "p99", ink="var(--soft)", width=1.5, dashed=True)
    median = _curve(series, lambda p: p.median_s, _latency, "p50", width=2.0)
    curves = [each._replace(points=[(at, math.log10(value)) for at, value in each.points]) for each in (median, slow)]
    values = [math.log10(value) for value in DECADES_S]
    options: Any = {"zero": False, "least_room": 1.0, "values": values}
    return _chart(series, "Time to answer a request over time", curves, lambda v: _latency(10.0**v), **options)


def _times(value: float | None, factor: float, more: float = 0.0) -> float | None:
    return None if value is None else more + factor * value


def _network_figure(snapshot: Snapshot) -> Markup:
    """Draw the traffic between sites within the window; nothing for a site without peers."""
    sites = snapshot.sites[:MOST_SITES]
    if len(sites) < 2:
        return Markup()
    offline = {arm["name"] for arm in snapshot.arms if arm["kind"] == "peer" and not arm["present"]}
    idle = set(sites) - {flow.site for flow in snapshot.flows if flow.items}
    notes = dict.fromkeys(idle, "nothing arrives") | dict.fromkeys(offline, "offline")
    drawing = flow_chart(sites, shares_of(snapshot.flows, sites), notes)
    return Markup(drawing.inline())  # noqa: S704 - a drawing escapes its words


def shares_of(flows: Sequence[Flow], sites: Sequence[str]) -> list[list[float]]:
    """Return for every site the percentage of its items that each of these sites answers."""
    found = {flow.site: flow for flow in flows}
    shares = []
    for site in sites:
        flow = found.get(site, Flow(site, 0, {}))
        counts = [flow.kept if other == site else flow.sent.get(other, 0) for other in sites]
        shares.append([100.0 * count / (sum(counts) or 1) for count in counts])
    return shares


def _drawn(view: AxisView, squares: Sequence[Square], place: int) -> tuple[Scale, dict[Span, Span]]:
    """Return an axis of squares, and the places of their spans on it; of a category, only its commonest values."""
    if view.values is None:
        return Scale(view.name + view.scale, view.ticks), {
            square.spans[place]: square.spans[place] for square in squares
        }
    items: Counter[Span] = Counter()
    for square in squares:
        items[square.spans[place]] += square.items
    names = {span: view.values[int(span[0])] for span, count in items.most_common(MOST_VALUES) if count}
    common = sorted(names, key=names.__getitem__)
    places = {span: (n / len(common), (n + 1) / len(common)) for n, span in enumerate(common)}
    return Scale(view.name, [(sum(at) / 2, names[span]) for span, at in places.items()]), places


def where_figure(squares: Sequence[Square], views: Sequence[AxisView], snapshot: Snapshot) -> Drawing:
    """Draw which arm wins where: a strip on one axis, a map on two; the less certain, the paler.

    A cell whose best arm has few labels is not drawn, and one that is not clear does not cover a larger one.
    """
    axes = [_drawn(view, squares, place) for place, view in enumerate(views)]
    costs, looks = [arm["cost"] for arm in snapshot.arms], _looks(snapshot)
    names = [f"\N{RIGHTWARDS ARROW} {a['name']}" if a["kind"] == "peer" else a["name"] for a in snapshot.arms]
    densest = max((square.items / square.size for square in squares), default=1.0)
    largest = max((square.size for square in squares), default=1.0)
    patches, density, shown = list[Patch](), list[Patch](), set[int]()
    for square in squares:
        best = winner(square, costs)
        spans = [places[span] for (_, places), span in zip(axes, square.spans, strict=True) if span in places]
        if best is None or len(spans) < len(axes) or square.labels[best.arm] < FEWEST_LABELS:
            continue
        place = ", ".join(view.words(*span) for view, span in zip(views, square.spans, strict=True))
        tip = _tip(square, best, place, names, costs)
        x, y = (*spans, (0.0, 1.0))[:2]
        density.append(Patch(x, (0.0, square.items / square.size / densest), Look("var(--soft)", 0.45), tip))
        if best.certainty >= CLEAR or square.size == largest:
            patches.append(Patch(x, y, looks[best.arm], tip, words=names[best.arm], strength=strength(best.certainty)))
            shown.add(best.arm)
    legend = [(names[arm], looks[arm]) for arm in sorted(shown)]
    words = f"Which arm wins at which {' and '.join(view.name for view in views)}"
    if len(views) == 1:
        return strip_chart(words, [Strip("", patches), Strip("items", density, height=30.0)], axes[0][0], legend)
    return map_chart(words, "", patches, (axes[0][0], axes[1][0]), legend)


def strength(certainty: float) -> float:
    """Return how strong the colour of an arm is that wins with some certainty: between pale at even odds, and full."""
    share = min(1.0, max(0.0, (certainty - 0.5) / (SURE - 0.5)))
    return float(round(PALEST + (1.0 - PALEST) * share**1.5, 2))


def _tip(square: Square, best: Winner, place: str, names: Sequence[str], costs: Sequence[float]) -> str:
    rewards = {arm: square.mean(arm) - costs[arm] for arm in range(len(names)) if square.labels[arm]}
    lines = [place, counted(square.items, "item")]
    for arm in sorted(rewards, key=lambda arm: -rewards[arm]):
        more = f" \N{PLUS-MINUS SIGN} {best.half:.2f}" if arm == best.arm else ""
        lines.append(f"{names[arm]}: {rewards[arm]:.2f}{more} ({counted(round(square.labels[arm]), 'label')})")
    return "\n".join([*lines, f"{percent(best.certainty, 0)} certain" if not best.is_sure else "certain"])
