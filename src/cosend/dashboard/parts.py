"""The parts of the page as HTML, each made once for all pages. Whatever comes from outside is escaped here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple, TypeAlias

from cosend.dashboard import figures
from cosend.dashboard.figures import duration, rate
from cosend.dashboard.summary import Local, Summary
from cosend.dashboard.where import interval
from cosend.node.flight import PHASE_NAMES
from cosend.node.recall import Past
from cosend.reports.text import counted, short_number, short_text

Numbered: TypeAlias = Sequence[tuple[int, Past]]
NOTHING: Final = "\N{EN DASH}"
PHASES: Final = {"train": "to train it", "explore": "to try it", "exploit": "as the best known"}
WHAT: Final = {
    "network": "Each site on the left gets items; the bands show who labels them.",
    "where": "The arm with the best mean reward, net of its cost. Hatched: another may still be 0.05 better.",
}


class State(NamedTuple):
    """Whether an arm is used now: a mark, a word, and how that looks."""

    mark: str
    word: str
    look: str  # good, warn, bad or off


def state_of(arm: Mapping[str, Any]) -> State:
    """Return whether an arm is used now, and if not, why."""
    if arm["paused"]:
        return State("\N{DOUBLE VERTICAL BAR}", "paused", "off")
    if arm["refused"]:
        return State("\N{MULTIPLICATION X}", "refused", "bad")
    if not arm["present"]:
        return State("\N{MULTIPLICATION X}", "gone", "bad")
    if arm["breaker"] == "open":
        return State("\N{MULTIPLICATION X}", "left out", "bad")
    if arm["breaker"] == "half open":
        return State("\N{BLACK UP-POINTING TRIANGLE}", "trying again", "warn")
    return State("\N{BLACK CIRCLE}", "in use", "good")


def parts(summary: Summary, per_second: float | None) -> dict[str, str]:
    """Return the parts in words and numbers that are the same on every page."""
    return {
        "head": head(summary),
        "tiles": tiles(summary, per_second),
        "arms": arms_table(summary),
        "decisions": decisions_table(summary.decisions, summary.labelled, time.time()),
    }


def drawn(summary: Summary) -> dict[str, str]:
    """Return the figures that are the same on every page."""
    now_s, flows = summary.facts["up_s"], figures.network(summary)
    return {
        "reward": figures.over_time(summary.curve, now_s, "reward").inline(),
        "error": figures.over_time(summary.curve, now_s, "error").inline(),
        "network": ("" if flows is None else flows.inline()) + _network(summary),
    }


def head(summary: Summary) -> str:
    """Return the line that says which site this is and how it is."""
    facts = summary.facts
    if summary.why_not_ready:
        state = f'<span class="state bad">\N{MULTIPLICATION X} {escape(summary.why_not_ready)}</span>'
    else:
        state = '<span class="state good">\N{BLACK CIRCLE} ready</span>'
    if facts["mode"] == "observe":
        mode = f"only observing: <b>{escape(facts['answered_by'])}</b> answers"
    else:
        mode = "decisions are applied"
    policy = escape(str(facts["policy"]["name"]))
    return (
        f"<h1>{escape(facts['site'])}</h1>{state}"
        f'<span class="facts">{policy} \N{MIDDLE DOT} <span data-value="mode">{mode}</span> \N{MIDDLE DOT} '
        f"up {duration(facts['up_s'])} \N{MIDDLE DOT} cosend {escape(facts['version'])}</span>"
        f'<button type="button" data-do="mode">{"Apply decisions" if facts["mode"] == "observe" else "Only observe"}'
        "\N{HORIZONTAL ELLIPSIS}</button>"
    )


def tiles(summary: Summary, per_second: float | None) -> str:
    """Return the few numbers that say how the site is doing."""
    facts, waiting, local = summary.facts, summary.waiting, summary.local
    error, reward = facts["recent_error"], facts["recent_reward"]
    cost = None if error is None else 1.0 - error - reward
    beside = "labels do not tell what a local model alone would earn"
    if local is not None:
        beside = _beside(local, reward)
    oldest = "no label is missing"
    if waiting["decisions"]:
        oldest = "oldest " + ("just now" if waiting["oldest_s"] is None else _whole(waiting["oldest_s"]))
        middle = waiting["middle_s"]
        oldest += "" if middle is None else f", median {_whole(middle)}"
    labels = facts["labels"]
    late = f"since the start; {short_count(labels['expired'])} too late, {short_count(labels['unknown'])} unknown"
    return "".join(
        [
            _tile("reward", "recent_reward", _share(reward), beside),
            _tile("error", "recent_error", _share(error), "of the last thousand labels or so"),
            _tile("cost per item", "cost", _share(cost), "of the arms used, over the same labels"),
            _tile("items", "items", f"{facts['items']:,}", _speed(per_second, facts)),
            _tile("labels learnt", "learnt", f"{labels['learnt']:,}", late),
            _tile("labels awaited", "waiting", f"{waiting['decisions']:,}", oldest),
        ]
    )


def _beside(local: Local, reward: float | None) -> str:
    """Return how much more or less is earned than by the best local model alone."""
    always = f"always using {breakable(local.name)}"
    earned = f"{'' if local.is_exact else 'about '}{local.reward:.3f}"
    if reward is None:
        return f"{always} earns {earned}"
    more = reward - local.reward
    return f"<b>{abs(more):.3f} {'more' if more >= 0 else 'less'}</b> than {always} ({earned})"


def _whole(seconds: float) -> str:
    """Return a time whose unit stays on the line of its number."""
    return duration(seconds).replace(" ", "\N{NO-BREAK SPACE}")


def _tile(name: str, key: str, value: str, more: str) -> str:
    return f'<div class="tile"><span>{name}</span><b data-value="{key}">{value}</b><small>{more}</small></div>'


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{max(0.0, value) if value > -5e-4 else value:.3f}"


def _speed(per_second: float | None, facts: Mapping[str, Any]) -> str:
    told = "" if per_second is None else f"{rate(per_second)} a second, "
    return f"{told}{facts['in_flight']:,} under way, {facts['unanswered']:,} unanswered"


def short_count(number: int) -> str:
    """Return a count in a few letters."""
    return short_number(number) if number >= 1 else "0"


def _network(summary: Summary) -> str:
    """Return what stands under the figure of the network."""
    if len(summary.sites) < 2:
        return '<p class="soft">This site has no peers.</p>'
    kept = "".join(
        f"<tr><td>{escape(site)}</td><td>{told.kept + sum(told.sent.values()):,}</td>"
        f"<td>{_share(told.error)}</td><td>{_share(told.reward)}</td></tr>"
        for site, told in sorted(summary.told.items())
    )
    heading = "<thead><tr><th>site</th><th>decisions</th><th>error</th><th>reward</th></tr></thead>"
    return (
        f'<p class="soft">{WHAT["network"]} Over the last {duration(max(1.0, summary.window_s))}.</p>'
        f'<table class="small">{heading}<tbody>{kept}</tbody></table>'
    )


# Arms


def arms_table(summary: Summary) -> str:
    """Return every arm: whether it is used, how good it is, what it costs, how fast it is, and what failed."""
    total = sum(sum(arm["decisions"].values()) for arm in summary.arms)
    looks = figures.arms_of(summary)
    rows = "".join(_arm_row(arm, look, total) for arm, look in zip(summary.arms, looks, strict=True))
    names = ("arm", "state", "used", "accuracy", "cost", "per item", "failures", "")
    heading = "".join(f"<th>{name}</th>" for name in names)
    return f'<table class="cards arms"><thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>'


def _arm_row(arm: Mapping[str, Any], look: figures.Arm, total: int) -> str:
    name, state, used = escape(arm["name"], quote=True), state_of(arm), sum(arm["decisions"].values())
    chip = f'<i class="chip" style="background:{look.ink};opacity:{look.opacity}"></i>'
    kind = "peer" if arm["kind"] == "peer" else "local model"
    share = used / total if total else 0.0
    phases = ", ".join(f"{count:,} {PHASES[phase]}" for phase, count in figures.shares(arm).items())
    bar = f'<i class="bar" title="{escape(phases)}"><i style="width:{100 * share:.1f}%;background:{look.ink}"></i></i>'
    why = arm["refused"] or arm["last_failure"] or ""
    failures = f'<span title="{escape(why, quote=True)}">{arm["failures"]:,}</span>'
    cells = {
        "arm": f"{chip}<b>{breakable(arm['name'])}</b> <small>{kind}</small>",
        "state": f'<span class="state {state.look}">{state.mark} {state.word}</span>',
        "used": f"{bar}<span>{used:,} <small>{100 * share:.0f} %</small></span>",
        "accuracy": _accuracy(arm),
        "cost": f"<span>{arm['cost']:.3g}</span>",
        "per item": _latency(arm["seconds_per_item"]),
        "failures": failures,
        "": f'<button type="button" data-do="arm" data-of="{name}">Change\N{HORIZONTAL ELLIPSIS}</button>',
    }
    row = "".join(f'<td data-is="{key}">{html}</td>' for key, html in cells.items())
    return f'<tr data-arm="{name}" data-state="{state.look}">{row}</tr>'


def _accuracy(arm: Mapping[str, Any]) -> str:
    if arm["mean_gain"] is None:
        return f"<span>{NOTHING}</span> <small>no labels</small>"
    mean = min(1.0, max(0.0, arm["mean_gain"]))
    low, high = interval(mean, arm["labels"])
    labels = counted(arm["labels"], "label")
    return (
        f'<span title="{low:.3f} to {high:.3f}, 95 % interval">{arm["mean_gain"]:.3f}</span>'
        f" <small>\N{PLUS-MINUS SIGN}{(high - low) / 2:.3f} <i>of {labels}</i></small>"
    )


def _latency(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} \N{MICRO SIGN}s"


# Decisions


def decisions_table(decisions: Numbered, labelled: Numbered, now: float) -> str:
    """Return the last decisions, and the last whose label has come if these are others."""
    if not decisions:
        return '<p class="soft">No item has come yet.</p>'
    newest = {number for number, _ in decisions}
    older = [(number, past) for number, past in labelled if number not in newest]
    rows = "".join(_decision_row(number, past, now) for number, past in decisions)
    if older:
        rows += '<tr class="group"><th colspan="7">the newest with a label</th></tr>'
        rows += "".join(_decision_row(number, past, now) for number, past in older)
    names = ("decision", "when", "arm", "why", "label", "truth", "")
    heading = "".join(f"<th>{name}</th>" for name in names)
    return f'<table class="cards decisions"><thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>'


def _decision_row(number: int, past: Past, now: float) -> str:
    phase = PHASE_NAMES[past.kind]
    cells = {
        "decision": f"<b>{number:,}</b>",
        "when": f"{duration(now - past.at)} ago" if now - past.at >= 0.05 else "just now",
        "arm": breakable(past.arm),
        "why": f'<span class="phase {phase}">{phase}</span>',
        "label": escape(short_text(past.shown, 24)),
        "truth": truth_of(past),
        "": f'<button type="button" data-do="why" data-of="{number}" aria-label="why decision {number}">Why?</button>',
    }
    return "<tr>" + "".join(f'<td data-is="{key}">{html}</td>' for key, html in cells.items()) + "</tr>"


def breakable(name: str) -> str:
    """Return a name that may be broken behind its underscores."""
    return escape(name).replace("_", "_<wbr>")


def truth_of(past: Past) -> str:
    """Return the true label of a decision, and whether it was right."""
    if not past.labelled:
        return '<span class="soft">awaited</span>'
    look, mark = ("good", "\N{CHECK MARK}") if past.truth == past.shown else ("bad", "\N{MULTIPLICATION X}")
    return f'<span class="state {look}">{mark}</span> {escape(short_text(past.truth, 24))}'
