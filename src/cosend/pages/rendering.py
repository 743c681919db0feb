"""The parts of the page as HTML, from a snapshot: words and tables by Jinja2, figures by `cosend.charts`.

Jinja2 escapes everything that is put into a template, and a drawing escapes its words.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup, escape

from cosend.charts.figures import (
    Drawing,
    Line,
    Look,
    Patch,
    Scale,
    Span,
    Strip,
    flow_chart,
    line_chart,
    looks_of_arms,
    map_chart,
    strip_chart,
)
from cosend.engine.arm_health import PHASE_NAMES
from cosend.pages.site_view import AxisView, Choice, Flow, Means, SiteView, Snapshot
from cosend.pages.winning_arms import Square, Winner, interval, winner
from cosend.report.verdict import learnt_words
from cosend.runtime.inspection import Facts
from cosend.text import counted, short_number, short_text
from cosend.text import templates as templates_of

MOST_VALUES: Final = 12  # of a category
MOST_SITES: Final = 12  # in the figure of the network
NOTHING: Final = "\N{EN DASH}"
STATES: Final = {"open": ("backing off", "bad"), "half open": ("retrying", "warn"), "closed": ("in use", "good")}
TITLES: Final = {"error": "Error over time, in %", "score": "Mean score over time", "gain": "Mean gain over time"}
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
    if seconds is None:
        return NOTHING
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} \N{MICRO SIGN}s"


def _ago(at: float) -> str:
    age = time.time() - at
    return f"{duration(age)} ago" if age >= 0.05 else "just now"


@cache
def _templates() -> Environment:
    found = templates_of(__package__)
    found.filters |= {
        "ago": _ago,
        "amount": lambda amount, currency: f"{amount:.3g} {currency}".strip(),
        "breakable": lambda name: escape(name).replace("_", Markup("_<wbr>")),
        "counted": counted,
        "duration": duration,
        "few": lambda count: short_number(count) if count else "0",
        "latency": _latency,
        "learnt": learnt_words,
        "percent": percent,
        "phase": PHASE_NAMES.__getitem__,
        "rate": lambda number: short_number(number) if number >= 10 else f"{number:.1f}",
        "reward": _reward,
        "short": short_text,
    }
    return found


def render_part(name: str, **values: Any) -> str:
    return str(getattr(_templates().get_template("parts.html").module, name)(**values))


# The page and its parts


def render_page(site: str, *, needs_token: bool) -> str:
    """Return the page that gets its parts later."""
    return _templates().get_template("dashboard.html").render(site=site, needs_token=needs_token)


def render_parts(snapshot: Snapshot) -> dict[str, str]:
    """Return the parts that are the same on every page."""
    total = sum(sum(arm["decisions"].values()) for arm in snapshot.arms)
    newest = {id for id, _ in snapshot.decisions}
    shares = {each.site: 1 - each.kept / each.items if each.items else None for each in snapshot.flows}
    return {
        "head": render_part("head", facts=snapshot.facts, why_not_ready=snapshot.why_not_ready),
        "tiles": render_part("tiles", snapshot=snapshot, facts=snapshot.facts),
        "arms": render_part(
            "arms",
            rows=[_arm_row(*each, total) for each in zip(snapshot.arms, _looks(snapshot), strict=True)],
            measure=snapshot.measure,
            currency=snapshot.facts["currency"] or "",
        ),
        "decisions": render_part(
            "decisions",
            measure=snapshot.measure,
            newest=snapshot.decisions,
            older=[each for each in snapshot.labelled if each[0] not in newest],
        ),
        "reward": over_time(snapshot.curve, snapshot.facts["up_s"], "reward").inline(),
        "error_title": TITLES[snapshot.measure],
        "error": over_time(snapshot.curve, snapshot.facts["up_s"], snapshot.measure).inline(),
        "network": render_part(
            "network",
            drawn=_network_figure(snapshot),
            rows=[(site, shares.get(site), told) for site, told in sorted(snapshot.traffic.items())],
            window_s=max(1.0, snapshot.window_s),
        ),
    }


def _arm_row(arm: Facts, look: Look, total: int) -> Facts:
    used, mean = sum(arm["decisions"].values()), arm["mean_gain"]
    low, high = (0.0, 0.0) if mean is None else interval(min(1.0, max(0.0, mean)), arm["labels"])
    share = used / total if total else 0.0
    return {**arm, "look": look, "state": state_of(arm), "used": used, "share": share, "low": low, "high": high}


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
    return looks_of_arms(owners, snapshot.sites)


def over_time(curve: Sequence[Means], now_s: float, what: str) -> Drawing:
    """Draw the reward, the error in percent, or the mean score or gain, with always using the best local model."""
    is_error = what == "error"
    if len(curve) < 2:
        drawing = Drawing(168.0, f"{what} over time")
        drawing.text(drawing.width / 2, drawing.height / 2, "waiting for labels", "soft", "middle")
        return drawing
    ours = [(e.at_s, e.reward if what == "reward" else 100 * e.error if is_error else 1.0 - e.error) for e in curve]
    alone = [(e.at_s, 100 * (1.0 - e.local) if is_error else e.local) for e in curve if e.local is not None]
    lines = [Line(what, "var(--text)", 2.4, points=ours), Line("always local", "var(--soft)", 1.5, True, alone)]
    return line_chart(
        f"{what} over time",
        lines if len(alone) > 1 else lines[:1],
        Scale("", [(0.0, f"{duration(max(now_s, 1.0))} ago"), (1.0, "now")]),
        (0.0, max(now_s, ours[-1][0])),
        floor=0.0 if is_error else None,
        least_room=2.0 if is_error else 0.04,
        height=168.0,
    )


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
    """Return an axis of squares, and where their spans lie on it; of a category, only its commonest values."""
    if view.values is None:
        return Scale(view.name, view.ticks), {square.spans[place]: square.spans[place] for square in squares}
    items: Counter[Span] = Counter()
    for square in squares:
        items[square.spans[place]] += square.items
    names = {span: view.values[int(span[0])] for span, count in items.most_common(MOST_VALUES) if count}
    common = sorted(names, key=names.__getitem__)
    places = {span: (n / len(common), (n + 1) / len(common)) for n, span in enumerate(common)}
    return Scale(view.name, [(sum(at) / 2, names[span]) for span, at in places.items()]), places


def where_figure(squares: Sequence[Square], views: Sequence[AxisView], snapshot: Snapshot) -> Drawing:
    """Draw which arm wins where: a strip on one axis, a map on two."""
    axes = [_drawn(view, squares, place) for place, view in enumerate(views)]
    costs, looks = [arm["cost"] for arm in snapshot.arms], _looks(snapshot)
    names = [f"\N{RIGHTWARDS ARROW} {a['name']}" if a["kind"] == "peer" else a["name"] for a in snapshot.arms]
    densest = max((square.items / square.size for square in squares), default=1.0)
    patches, density, shown = list[Patch](), list[Patch](), set[int]()
    for square in squares:
        best = winner(square, costs)
        spans = [places[span] for (_, places), span in zip(axes, square.spans, strict=True) if span in places]
        if best is None or len(spans) < len(axes):
            continue
        place = ", ".join(view.words(*span) for view, span in zip(views, square.spans, strict=True))
        tip = _tip(square, best, place, names, costs)
        x, y = (*spans, (0.0, 1.0))[:2]
        patches.append(Patch(x, y, looks[best.arm], tip, best.is_sure, names[best.arm]))
        density.append(Patch(x, (0.0, square.items / square.size / densest), Look("var(--soft)", 0.45), tip))
        shown.add(best.arm)
    legend = [(names[arm], looks[arm]) for arm in sorted(shown)]
    words = f"Which arm wins at which {' and '.join(view.name for view in views)}"
    if len(views) == 1:
        return strip_chart(words, [Strip("", patches), Strip("items", density, height=30.0)], axes[0][0], legend)
    return map_chart(words, "", patches, (axes[0][0], axes[1][0]), legend)


def _tip(square: Square, best: Winner, place: str, names: Sequence[str], costs: Sequence[float]) -> str:
    rewards = {arm: square.mean(arm) - costs[arm] for arm in range(len(names)) if square.labels[arm]}
    lines = [place, counted(square.items, "item")]
    for arm in sorted(rewards, key=lambda arm: -rewards[arm]):
        more = f" \N{PLUS-MINUS SIGN} {best.half:.2f}" if arm == best.arm else ""
        lines.append(f"{names[arm]}: {rewards[arm]:.2f}{more} ({counted(round(square.labels[arm]), 'label')})")
    return "\n".join([*lines, "sure" if best.is_sure else "not sure yet"])
