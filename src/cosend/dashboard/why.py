"""Why a decision was made, in words and in what is known of every arm where its item lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from cosend.dashboard.parts import NOTHING
from cosend.reports.text import short_text
from cosend.site.scales import AnyAxis, name_of, value_at

Facts = Mapping[str, Any]
SENTENCES: Final = {
    "train": "{arm} had too little labelled data around this context, so this item was sent to teach it.",
    "explore": "Too little was known here of what {arm} earns, and it could have been the best, so it was tried.",
    "exploit": "By what was known here, {arm} earns the most after its cost.",
}


def why(facts: Facts, arms: Sequence[Facts], axes: Sequence[AnyAxis], forecasts: Mapping[str, float] | None) -> str:
    """Return why a decision was made.

    facts      what `GET /v1/decisions/{id}` tells
    forecasts  what all views together forecast now, if the policy mixes views
    """
    sentence = SENTENCES[facts["phase"]].format(arm=f"<b>{escape(facts['arm'])}</b>")
    return f"<p>{sentence}</p>{_facts_table(facts, axes)}{_arms_table(facts, arms, forecasts)}"


def _facts_table(facts: Facts, axes: Sequence[AnyAxis]) -> str:
    told = [
        ("id", short_text(facts["id"], 60)),
        ("answered", short_text(facts["label"], 60)),
        ("cost", f"{facts['cost']:.3g}"),
    ]
    if facts["answered_by"]:
        told += [("by", facts["answered_by"]), ("the arm would have said", short_text(facts["label_of_arm"], 60))]
    if facts["propensity"] is not None and facts["propensity"] == facts["propensity"]:
        told.append(("probability of this arm in its draw", f"{facts['propensity']:.3g}"))
    truth = "not known yet" if facts["waiting"] else NOTHING
    told.append(("true label", short_text(facts["truth"], 60) if facts["labelled"] else truth))
    told += [(name_of(axis), value_at(axis, place)) for axis, place in zip(axes, facts["context"], strict=False)]
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in told)
    return f'<table class="pairs"><tbody>{rows}</tbody></table>'


def _arms_table(facts: Facts, arms: Sequence[Facts], forecasts: Mapping[str, float] | None) -> str:
    cell = facts["cell_now"]
    if cell is None:
        return '<p class="soft">Its cell has been split or replaced since.</p>'
    worth = {arm["name"]: _worth(arm, cell["arms"].get(arm["name"]), forecasts) for arm in arms}
    order = sorted(arms, key=lambda arm: -(-9.0 if worth[arm["name"]] is None else worth[arm["name"]] or 0.0))
    rows = "".join(_arm_row(arm, cell["arms"].get(arm["name"]), worth[arm["name"]], facts["arm"]) for arm in order)
    what = "forecast net of cost" if forecasts is not None else "mean reward"
    heading = f"<thead><tr><th>arm</th><th>{what}</th><th>labels</th><th>waiting</th></tr></thead>"
    where = f"{cell['arrivals']:,} items have come there"
    caption = f'<p class="soft">What is known in its cell now: {where}; rewards are net of costs.</p>'
    return f"{caption}<table>{heading}<tbody>{rows}</tbody></table>"


def _worth(arm: Facts, known: Facts | None, forecasts: Mapping[str, float] | None) -> float | None:
    if forecasts is not None:
        return forecasts[arm["name"]] - float(arm["cost"]) if arm["name"] in forecasts else None
    return float(known["mean_reward"]) if known is not None and known["reward_count"] else None


def _arm_row(arm: Facts, known: Facts | None, worth: float | None, chosen: str) -> str:
    name = escape(arm["name"])
    shown = NOTHING if worth is None else f"{worth:.3f}"
    bar = 0.0 if worth is None else max(0.0, min(1.0, worth))
    counts = ("0", "0") if known is None else (f"{known['reward_count']:,}", f"{known['waiting_count']:,}")
    mark = ' class="chosen"' if arm["name"] == chosen else ""
    cells = f'<td>{shown}<i class="bar"><i style="width:{100 * bar:.0f}%"></i></i></td>'
    return f"<tr{mark}><td>{name}</td>{cells}<td>{counts[0]}</td><td>{counts[1]}</td></tr>"
