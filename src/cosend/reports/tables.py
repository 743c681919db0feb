"""The tables of the page: one row per policy, and the sites below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from cosend.reports.lines import Result, range_of
from cosend.reports.verdict import MEANINGS, Row, is_best, knowing, playing, sends

NOTHING: Final = "\N{EN DASH}"  # in a cell without a number
COLUMNS: Final[Sequence[tuple[str, str, int, bool]]] = (  # key, title, decimals, whether a phone has room for it
    ("mean_reward", "Reward", 3, True),
    ("error", "Error %", 2, True),
    ("sent", "Sent %", 1, True),
    ("cost", "Cost", 1, False),
    ("training", "Training %", 2, False),
    ("exploration", "Exploration %", 2, False),
    ("regret", "Regret", 1, False),
)
MEANINGS_OF_COLUMNS: Final = {
    "Reward": "per item: 1 for a right label, less what the chosen arm costs",
    "Error %": "items that got a wrong label",
    "Sent %": "items that were sent to a peer",
    "Cost": "what was paid for all chosen arms together",
    "Training %": "items used to train a peer",
    "Exploration %": "items on which an arm was tried to learn its accuracy",
    "Regret": "reward lost, in total, against always using the best arm of each cell",
    NOTHING: "does not apply, or is not known",
}


def columns_of(result: Result) -> list[tuple[str, str, int, bool]]:
    """Return the columns of the sites that have something to say."""
    return [column for column in COLUMNS if column[0] != "sent" or sends(result)]


def overall_table(result: Result) -> str:
    """Return one row per policy: those that know nothing in advance, and below them those that know the future."""
    rows, apart, sent = playing(result), knowing(result), sends(result)
    if not rows:
        return '<p class="soft">Nothing was played.</p>'
    head = (
        '<thead><tr><th scope="col">Policy</th><th scope="col">Reward</th><th scope="col" class="range"></th>'
        f'<th scope="col">Error %</th>{_SENT if sent else ""}</tr></thead>'
    )
    everyone = [*rows, *apart]
    lines = [_overall_row(row, everyone, _kind(row, rows, result), sent, best=is_best(row, rows)) for row in rows]
    if apart:
        span = 5 if sent else 4
        lines.append(f'<tr><th scope="rowgroup" colspan="{span}">For comparison: these know the future</th></tr>')
        lines += [_overall_row(row, everyone, "apart", sent, best=False) for row in apart]
    return f'<table class="overall">{head}<tbody>\n' + "\n".join(lines) + "\n</tbody></table>"


_SENT: Final = '<th scope="col">Sent %</th>'


def _kind(row: Row, rows: Sequence[Row], result: Result) -> str:
    ours = ["ours"] if row["policy"] == result["policy"] else []
    return " ".join([*ours, *(["best"] if is_best(row, rows) else [])])


def _overall_row(row: Row, everyone: Sequence[Row], kind: str, sent: bool, *, best: bool) -> str:
    meaning = MEANINGS.get(row["policy"], "")
    small = f"<small>{escape(meaning)}</small>" if meaning else ""
    mark = ' <span class="tag">best reward</span>' if best else ""
    half = row["reward_interval"]
    sure = "" if half is None else f' <span class="pm">\N{PLUS-MINUS SIGN} {half:.3f}</span>'
    opening = f'<tr class="{kind}">' if kind else "<tr>"
    return (
        f"{opening}<td>{escape(row['policy'])}{mark}{small}</td><td>{_number(row['mean_reward'], 3)}{sure}</td>"
        f'<td class="range">{range_of(row, everyone)}</td>'
        f"<td>{_number(row['error'], 1)}</td>" + (f"<td>{_number(row['sent'], 0)}</td>" if sent else "") + "</tr>"
    )


def sites_table(result: Result) -> str:
    """Return one row per site and policy."""
    columns = columns_of(result)
    head = "".join(f'<th scope="col"{"" if phone else _WIDE}>{title}</th>' for _, title, _, phone in columns)
    sites = [site for site in result["sites"] if any(row["site"] == site for row in result["rows"])]
    body = "\n".join(_group(site, [row for row in result["rows"] if row["site"] == site], columns) for site in sites)
    return f'<table class="sites"><thead><tr><th scope="col">Policy</th>{head}</tr></thead>\n{body}\n</table>'


_WIDE: Final = ' class="wide-only"'


def models_table(result: Result) -> str:
    """Return one row per arm of every site: how often the policy of the run used it, and what was paid."""
    head = "".join(f'<th scope="col">{title}</th>' for title in ("Items %", "Paid", "Error %", "Alone"))
    groups = []
    for site, rows in result["models"].items():
        named = f'<tr><th scope="rowgroup" colspan="5">{escape(site)}</th></tr>\n' if len(result["models"]) > 1 else ""
        lines = [
            f"<tr><td>{escape(row['model'])}</td><td>{_number(row['share'], 1)}</td><td>{_number(row['cost'], 1)}</td>"
            f"<td>{_number(row['error'], 1)}</td><td>{_number(row['alone'], 3)}</td></tr>"
            for row in rows
        ]
        groups.append(f"<tbody>\n{named}" + "\n".join(lines) + "\n</tbody>")
    body = "\n".join(groups)
    return f'<table class="models"><thead><tr><th scope="col">Model</th>{head}</tr></thead>\n{body}\n</table>'


def _group(site: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str, int, bool]]) -> str:
    """Return the rows of a site under its name, best reward first; what knows the future comes last."""
    order = sorted(rows, key=lambda row: (bool(row["hindsight"]), -_or_lowest(row["mean_reward"])))
    best = max((_or_lowest(row["mean_reward"]) for row in rows if not row["hindsight"]), default=-math.inf)
    lines = [f'<tr><th scope="rowgroup" colspan="{len(columns) + 1}">{escape(site)}</th></tr>']
    for row in order:
        kind = "apart" if row["hindsight"] else "best" if row["mean_reward"] == best else ""
        mark = ' <span class="tag">best reward</span>' if kind == "best" else ""
        cells = "".join(
            f"<td{'' if phone else _WIDE}>{_number(row[key], decimals)}</td>" for key, _, decimals, phone in columns
        )
        opening = f'<tr class="{kind}">' if kind else "<tr>"
        lines.append(f"{opening}<td>{escape(row['policy'])}{mark}</td>{cells}</tr>")
    return "<tbody>\n" + "\n".join(lines) + "\n</tbody>"


def _or_lowest(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else -math.inf


def _number(value: float | None, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if value is not None and math.isfinite(value) else NOTHING
