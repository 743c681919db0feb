"""What a run comes to in a sentence, and its rows in the order in which people read them; for terminal and page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from cosend.text import counted, markdown_table

Result: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Mapping[str, Any]

KNOWS: Final = "knows the future"
DIGITS: Final = 16  # of a hash, as people compare it
MEANINGS: Final = {
    "ZoomingKLUCB": "cells that split where many items arrive, and an index for each arm",
    "MixedViews": "every part of the context forecasts every arm, weighted by how well it has done; the default",
    "nothing learnt": "the same policy without the models that sites learn themselves",
    "CellKLUCB": "equal cells, and an index for each arm",
    "CoS": "the paper's algorithm: equal cells, explores by quota",
    "never send": "the same policy, with what sites learn themselves, at sites without peers",
    "epsilon-greedy": "all models of all sites as flat arms, by cell",
    "LinUCB": "all models of all sites as flat arms, linear in the context",
    "uniform random": "any model of any site",
    "AdaBoost": "asks every model about every item, and pays for each",
    "SWA 100": "AdaBoost, retrained on the last 100 labels; it pays for each too",
    "previous label": "repeats the newest known label, without a model",
    "commonest label": "repeats the commonest label so far, without a model",
    "best local": "the best of a site's own models, known in advance",
    "best fixed": "the best model of all sites, known in advance",
    "oracle per cell": "the best model for every cell of the context, known in advance",
}


LEARNT: Final = {"grown": "trees learnt here", "stack": "all free models combined, learnt here"}
WHEN: Final = "In the second half of the items, when sites have learnt what they can:"
LEAST_ASKED: Final = 2.0  # percent of the items: below, a peer was only tried


def sends(result: Result) -> bool:
    """Tell whether anything was sent to a peer; otherwise no column says so."""
    return any(row["sent"] for row in result["rows"])


def playing(result: Result) -> list[Row]:
    """Return the rows that know nothing in advance, best reward first."""
    return _sorted(row for row in result["overall"] if not row["hindsight"])


def knowing(result: Result) -> list[Row]:
    """Return the rows that know the future, best reward first."""
    return _sorted(row for row in result["overall"] if row["hindsight"])


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-row["mean_reward"], row["policy"]))


def is_best(row: Row, rows: Sequence[Row]) -> bool:
    """Tell whether no row earns more, or only by less than the intervals of both allow to say."""
    if row["hindsight"]:
        return False
    noise = (row["reward_interval"] or 0.0) + (rows[0]["reward_interval"] or 0.0)
    return bool(rows[0]["mean_reward"] - row["mean_reward"] <= noise)


def mark_of_best(rows: Sequence[Row]) -> str:
    return "best reward" if sum(is_best(row, rows) for row in rows) == 1 else "tied for best"


def verdict(result: Result) -> str:
    """Return what the run says about its policy, in a sentence or two; a clearly better one comes first."""
    rows = playing(result)
    own = next((row for row in rows if row["policy"] == result["policy"]), None)
    if own is None:
        return "Nothing has been played yet."
    name = f"{own['policy']}, the default policy," if result.get("is_default") else own["policy"]
    earned = f"{own['mean_reward']:.3f}"
    if len(rows) > 1 and rows[0] is own:
        return f"{name} earns the most: {earned} per item.{_alone(result)}"
    if rows[0] is own or _may_be_chance(result, rows[0]):
        return f"{name} earns {earned} per item.{_alone(result)}"
    best = f"{rows[0]['policy']} earns the most: {rows[0]['mean_reward']:.3f} per item."
    return f"{best} {name} earns {earned}.{_alone(result)}"


def _alone(result: Result) -> str:
    local = next((row for row in result["overall"] if row["policy"] == "best local"), None)
    if local is None or len(result["sites"]) == 1:
        return ""
    return f" With only its own best model, each site would earn {local['mean_reward']:.3f}."


def _may_be_chance(result: Result, rival: Row) -> bool:
    """Tell whether the difference to a rival is within its interval over the streams."""
    return len(result["seeds"]) > 1 and abs(rival["behind"]) <= (rival["behind_interval"] or 0.0)


def more(result: Result) -> str:
    """Return the next sentences: how much is sent, which policy comes next, and what the oracle earns."""
    rows = {row["policy"]: row for row in result["overall"]}
    own = rows.get(result["policy"])
    if own is None:
        return ""
    parts = [f"{own['policy']} sends {own['sent']:.0f}% of the items to peers."]
    if len(result["sites"]) == 1:  # it has no peers
        local = rows.get("best local")
        parts = [f"The site's best model alone would earn {local['mean_reward']:.3f}."] if local else []
    order = playing(result)
    if order[0] is own and len(order) > 1:
        parts.append(_next(result, order[1]))
    elif order[0] is not own and _may_be_chance(result, order[0]):
        parts.append(f"{order[0]['policy']} earns {order[0]['mean_reward']:.3f}, a difference that may be chance.")
    best = rows["oracle per cell"]["mean_reward"] if "oracle per cell" in rows else 0.0
    if best > own["mean_reward"]:  # otherwise the policy sees more than the oracle's cells
        parts.append(f"Knowing the best model for every cell in advance would earn {best:.3f}.")
    return " ".join(parts)


def _next(result: Result, rival: Row) -> str:
    words = f"Next comes {rival['policy']}, {rival['behind']:.3f} behind"
    streams = len(result["seeds"])
    if streams == 1:
        return f"{words}."
    if _may_be_chance(result, rival):
        return f"{words}, which may be chance."
    return f"{words}, and behind in {rival['behind_in']} of {counted(streams, 'stream')}."


def learnt_words(row: Row) -> str:
    """Return what an arm is that a site has learnt itself, and from how much; nothing for any other."""
    learnt = row.get("learnt")
    if not learnt:
        return ""
    what, labels, fitted = LEARNT[learnt["kind"]], round(learnt["labels"]), round(learnt["fitted"])
    if learnt["kind"] == "stack":
        return f"{what}, from {counted(labels, 'label')}"
    return f"{what}, last fitted to {fitted:,} of {counted(labels, 'label')}" if fitted else f"{what}, not yet fitted"


def why(result: Result) -> list[str]:
    """Say for every site why it asks peers, or why not: a sentence for each peer that it asks."""
    found = []
    for site, known in result.get("why", {}).items():
        asked = {peer: part for peer, part in known["peers"].items() if _share(part, known) >= LEAST_ASKED}
        if known["items"] and not asked:
            found.append(_why_kept(site, known))
        order = sorted(asked, key=lambda peer: -float(asked[peer]["items"]))
        found += [_why_asked(site, peer, known) for peer in order]
    return found


def _share(part: Row, known: Row) -> float:
    return 100 * float(part["items"]) / max(1.0, float(known["items"]))


def _why_asked(site: str, peer: str, known: Row) -> str:
    part, costs = known["peers"][peer], known["costs"]
    words, call = f"{site} asks {peer} for {_share(part, known):.0f}% of its items", _number(known, costs[peer])
    if not part["known"]:
        return f"{words}; a call costs {call}."
    gained, best = float(part["gained"]) / part["known"], _best(part, costs)
    words = f"{words}: there {peer} {_verb(known)} {_number(known, gained)}"
    if best is None:
        return f"{words}, and a call costs {call}."
    loses = gained - costs[peer] < best[1] - costs[best[0]]
    words = f"{words}, its own best, {best[0]}, {_number(known, best[1])}"
    words += f" at a cost of {_number(known, costs[best[0]])}" if costs[best[0]] else ""
    return f"{words}, and a call costs {call}{', which is more than it gains' if loses else ''}."


def _why_kept(site: str, known: Row) -> str:
    part, call = known["kept"], min(float(known["costs"][peer]) for peer in known["peers"])
    words, best = f"{site} keeps {_share(part, known):.0f}% of its items", _best(part, known["costs"])
    if best is None:
        return f"{words}; a call costs {_number(known, call)}."
    words = f"{words}: there its own best, {best[0]}, {_verb(known)} {_number(known, best[1])}"
    least = best[1] - known["costs"][best[0]] + call
    if round(least, 2) >= 1:
        return f"{words}, and no peer can be so much better that a call at {_number(known, call)} pays."
    must = f"{'be right' if known['is_accuracy'] else 'gain'} {_number(known, least)}"
    return f"{words}, and a peer would have to {must} to be worth a call at {_number(known, call)}."


def _best(part: Row, costs: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the site's own arm that would have earned most there, and its mean gain."""
    least = max(1.0, part["known"] / 2)  # of the items must have an answer of its
    means = {arm: float(gained) / known for arm, (known, gained) in part["own"].items() if known >= least}
    return max(means.items(), key=lambda each: each[1] - costs[each[0]]) if means else None


def _verb(known: Row) -> str:
    return "is right" if known["is_accuracy"] else "gains"


def _number(known: Row, value: float) -> str:
    """Return an accuracy or a cost in %, or where answers have scores, as it is."""
    if not known["is_accuracy"]:
        return f"{value:.2f}"
    return f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.2g}%" if value else "nothing"


def setting(result: Result) -> str:
    streams = len(result["seeds"])
    seed = f"{counted(streams, 'seed')}: {result['seeds'][0]}" if streams == 1 else counted(streams, "seed")
    items, sites = counted(result["items"], "item"), counted(len(result["sites"]), "site")
    return " \N{MIDDLE DOT} ".join([items, sites, f"context: {', '.join(result['goes_by'])}", seed])


def provenance(result: Result) -> list[tuple[str, str]]:
    """Return version, date, command, seeds and data of a run, as names and values; empty if they were not recorded."""
    known = result.get("made")
    if not known:
        return []
    seeds, data = result["seeds"], dict.fromkeys(each[:DIGITS] for each in result["data"])
    return [
        ("cosend", known["version"]),
        ("made", known["date"]),
        ("command", known["command"]),
        ("seeds" if len(seeds) > 1 else "seed", ", ".join(map(str, seeds))),
        (f"SHA-256 of the rows, its first {DIGITS} digits", ", ".join(data)),
    ]


def is_scored(result: Result) -> bool:
    """Tell whether answers were scored: then there are no labels, and nothing is an error."""
    return bool(result.get("known_by") == "score")


def price(result: Result, cost: float | None) -> str:
    """Return a cost in money; nothing where nobody says what a right label is worth."""
    money = result.get("money")
    return f"{cost * money['unit']:,.4g}" if money and cost is not None else ""


def price_heading(result: Result, word: str) -> str:
    """Return the heading of a column of such costs; nothing where there is none."""
    money = result.get("money")
    return f"{word} {money['currency']}".strip() if money else ""


def quality(row: Row, decimals: int = 1) -> str:
    """Return the mean score of a row, or its error in % where there were labels."""
    return f"{row['error']:.{decimals}f}" if row.get("score") is None else f"{row['score']:.3f}"


def markdown(result: Result) -> str:
    rows, sent = playing(result), sends(result)
    lines = [[_bold(row["policy"], row is rows[0]), *_cells(row, sent, row is rows[0])] for row in rows]
    lines += [[f"*{row['policy']}, {KNOWS}*", *_cells(row, sent, best=False)] for row in knowing(result)]
    known = "mean score" if is_scored(result) else "error in %"
    heading = ["policy", "reward per item", known, *(["sent to peers in %"] if sent else [])]
    words = " ".join(filter(None, [verdict(result), more(result), result.get("others_see")]))
    sentences = words.replace(". ", ".\n")  # one sentence a line, as in all our pages
    reasons = [f"- {each}" for each in why(result)]
    return "\n".join([sentences, "", *markdown_table(heading, lines), *(["", WHEN, "", *reasons] if reasons else [])])


def _cells(row: Row, sent: bool, best: bool) -> list[str]:
    return [_bold(reward_text(row), best), quality(row), *([f"{row['sent']:.0f}"] if sent else [])]


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def reward_text(row: Row) -> str:
    half = row["reward_interval"]
    return f"{row['mean_reward']:.3f}" + ("" if half is None else f" \N{PLUS-MINUS SIGN} {half:.3f}")
