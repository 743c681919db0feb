"""The verdict on a run in a sentence, and its rows in the order in which people read them; for terminal and page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from cosend.text import counted, markdown_table

Result: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Mapping[str, Any]

HINDSIGHT: Final = "hindsight"  # after the name of what knows all true labels in advance
SAME: Final = 1e-9  # rewards that differ by less are equal
DIGITS: Final = 16  # of a hash, as people compare it
MEANINGS: Final = {
    "MixedViews": "the default: weighs many views of the features",
    "no learnt arms": "the same policy, where sites learn no models themselves",
    "local only": "the same policy at sites without peers",
    "ZoomingKLUCB": "adaptive cells, KL-UCB",
    "CellKLUCB": "fixed cells, KL-UCB",
    "CoS": "the paper's algorithm: fixed cells, explores by quota",
    "epsilon-greedy": "fixed cells, sometimes a random model of any site",
    "LinUCB": "a linear model of the context for each model of any site",
    "uniform random": "a random model of any site",
    "AdaBoost": "a vote of all models; it pays for each of them",
    "SWA 100": "AdaBoost, refitted to the last 100 labels",
    "previous label": "repeats the newest true label, without a model",
    "commonest label": "repeats the most frequent true label, without a model",
    "best local model": "the best of a site's own models",
    "best single model": "the best model of any site, used for all items of a site",
    "oracle": "the best model of any site for each cell of the context",
}


LEARNT: Final = {"grown": "trees learnt here", "stack": "all free models combined, learnt here"}
WHEN: Final = "In the second half of the items, after the sites have learnt:"
WITHOUT: Final = {"local only": "without peers", "no learnt arms": "without learnt arms"}
LEAST_ASKED: Final = 2.0  # percent of the items: below, a peer was only tried


def sends(result: Result) -> bool:
    """Tell whether anything was sent to a peer; otherwise there is no column for it."""
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


def has_intervals(result: Result) -> bool:
    """Tell whether rewards have intervals: not those of one stream, nor those of one recording, however often."""
    return len(result["seeds"]) > 1 and not result.get("is_recorded")


def mark_of_best(rows: Sequence[Row]) -> str:
    return "best reward" if sum(is_best(row, rows) for row in rows) == 1 else "tied for best"


def shown(row: Row) -> str:
    """Return the name of a policy as people read it."""
    return f"{row['policy']} ({HINDSIGHT})" if row["hindsight"] else str(row["policy"])


def verdict(result: Result) -> str:
    """Return the claim of a run in a sentence: what routing earns, next to one model for all items and the oracle."""
    rows = _by_policy(result)
    own = rows.get(result["policy"])
    if own is None:
        return "Nothing has been played yet."
    routing = "Routing" if result.get("is_default") else f"Routing with {own['policy']}"
    claims = [f"{_compared(own, rows[name])} {text}" for name, text in _baselines(result, rows)][:1]
    oracle = rows.get("oracle")
    if oracle is not None and 0 < own["mean_reward"] <= oracle["mean_reward"]:
        share = 100 * own["mean_reward"] / oracle["mean_reward"]
        claims.append(f"{share:.{0 if share < 99.5 else 1}f}% of the oracle")
    worth = f" ({price_heading(result, price(result, own['mean_reward']))})" if result.get("money") else ""
    earns = f"{routing} earns {own['mean_reward']:.3f} per item{worth}"
    return ", ".join(filter(None, [earns, " and ".join(claims)])) + "."


def _by_policy(result: Result) -> dict[str, Row]:
    return {row["policy"]: row for row in result["overall"]}


def _baselines(result: Result, rows: Mapping[str, Row]) -> list[tuple[str, str]]:
    """Return what routing may be compared with, and how a sentence names it."""
    each, model = ("each site's", "") if len(result["sites"]) > 1 else ("the", _best_model(result, rows))
    names = {"best single model": f"{each} best single model{model}", "local only": WITHOUT["local only"]}
    return [(name, f"{text} ({_earned(result, rows[name])})") for name, text in names.items() if name in rows]


def _best_model(result: Result, rows: Mapping[str, Row]) -> str:
    """Return the name of the best single model of the only site, after a comma, if it is the same in all streams."""
    if "best single model" not in rows:
        return ""
    best, (models,) = rows["best single model"]["mean_reward"], result["models"].values()
    given = [row for row in models if row["alone"] is not None and not row.get("learnt")]
    return next((f", {row['model']}" for row in given if abs(row["alone"] - best) < SAME), "")


def _earned(result: Result, row: Row) -> str:
    chance = ", perhaps by chance" if _may_be_chance(result, row) and row["behind"] else ""
    return f"{row['mean_reward']:.3f}{chance}"


def _compared(own: Row, other: Row) -> str:
    """Return how much more or less a policy earns than another."""
    mine, theirs = own["mean_reward"], other["mean_reward"]
    more = "more" if mine > theirs else "less"
    if mine == theirs:
        return "as much as"
    if theirs <= 0 or abs(mine - theirs) < 0.005 * theirs:
        return f"{abs(mine - theirs):.3f} {more} than"
    return f"{100 * abs(mine - theirs) / theirs:.0f}% {more} than"


def _may_be_chance(result: Result, rival: Row) -> bool:
    """Tell whether the difference to a rival is within its interval over the streams."""
    return len(result["seeds"]) > 1 and abs(rival["behind"]) <= (rival["behind_interval"] or 0.0)


def more(result: Result) -> str:
    """Return the next sentences: the policy, what it earns without peers and learnt arms, and what earns more."""
    rows = _by_policy(result)
    own = rows.get(result["policy"])
    if own is None:
        return ""
    is_default = result.get("is_default")
    best, *_ = playing(result)
    is_beaten = best["mean_reward"] > own["mean_reward"] and not _may_be_chance(result, best)
    without = _without([rows[name] for name in WITHOUT if name in rows and not (is_beaten and name == best["policy"])])
    parts = [f"The policy is {own['policy']}{', the default' if is_default else ''}{without}."]
    if len(result["sites"]) > 1:
        name = f"{own['policy']}{', the default policy,' if is_default else ''}"
        parts = [f"{name} sends {own['sent']:.0f}% of the items to peers{without}."]
    if is_beaten:
        parts.append(_better(result, best))
    oracle = rows.get("oracle")
    if oracle is not None and own["mean_reward"] > oracle["mean_reward"]:
        where = "stretch of time" if result["goes_by"] == ["every feature"] else "cell of the context"
        parts.append(f"The oracle earns {oracle['mean_reward']:.3f}: it uses the best of your models in each {where}.")
        learnt = ", and models learnt from the labels," if "no learnt arms" in rows else ""
        parts.append(f"Finer choices{learnt} can beat it.")
    return " ".join(parts)


def _without(rows: Sequence[Row]) -> str:
    """Return what the policy of the run earns without peers, and without learnt arms, after a semicolon."""
    earns = ["it earns ", *("" for _ in rows)]  # said once
    found = [f"{WITHOUT[row['policy']]} {it}{row['mean_reward']:.3f}" for row, it in zip(rows, earns, strict=False)]
    return "; " + ", ".join(found) if found else ""


def _better(result: Result, rival: Row) -> str:
    streams, without = len(result["seeds"]), WITHOUT.get(rival["policy"])
    ahead = f", ahead in {streams - rival['behind_in']} of {streams} streams" if has_intervals(result) else ""
    who = f"{without.capitalize()} it earns more" if without else f"{rival['policy']} earns more here"
    return f"{who}: {rival['mean_reward']:.3f} per item{ahead}."


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
    words, call = f"{site} asks {peer} about {_share(part, known):.0f}% of its items", _number(known, costs[peer])
    if not part["known"]:
        return f"{words}; a call costs {call}."
    gained, best = float(part["gained"]) / part["known"], _best(part, costs)
    words = f"{words}: on these, {peer} {_quality(known, gained)}"
    if best is None:
        return f"{words}, and a call costs {call}."
    loses = gained - costs[peer] < best[1] - costs[best[0]]
    words = f"{words}, {_of(site)} own best arm ({best[0]}) {_number(known, best[1])}"
    words += f" at a cost of {_number(known, costs[best[0]])}" if costs[best[0]] else ""
    return f"{words}, and a call costs {call}{', which is more than it gains' if loses else ''}."


def _why_kept(site: str, known: Row) -> str:
    part, call = known["kept"], min(float(known["costs"][peer]) for peer in known["peers"])
    words, best = f"{site} keeps {_share(part, known):.0f}% of its items", _best(part, known["costs"])
    if best is None:
        return f"{words}; a call costs {_number(known, call)}."
    words = f"{words}: on these, its own best arm ({best[0]}) {_quality(known, best[1])}"
    least = best[1] - known["costs"][best[0]] + call
    if round(least, 2) >= 1:
        return f"{words}, so no peer can be worth a call that costs {_number(known, call)}."
    must = f"be right {_number(known, least)} of the time" if known["is_accuracy"] else f"gain {_number(known, least)}"
    return f"{words}, and a peer would have to {must} to be worth a call that costs {_number(known, call)}."


def _of(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def _best(part: Row, costs: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the site's own arm that would have earned most there, and its mean gain."""
    least = max(1.0, part["known"] / 2)  # of the items must have an answer of its
    means = {arm: float(gained) / known for arm, (known, gained) in part["own"].items() if known >= least}
    return max(means.items(), key=lambda each: each[1] - costs[each[0]]) if means else None


def _quality(known: Row, value: float) -> str:
    return f"is right {_number(known, value)} of the time" if known["is_accuracy"] else f"gains {_number(known, value)}"


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
    """Return version, date, command, files, seeds and data of a run, by name; empty if they were not recorded."""
    known = result.get("made")
    if not known:
        return []
    seeds, data = result["seeds"], dict.fromkeys(each[:DIGITS] for each in result["data"])
    return [
        ("cosend", known["version"]),
        ("date", known["date"]),
        ("command", known["command"]),
        *((name, known[name]) for name in ("network file", "recorded data") if known.get(name)),
        ("seeds" if len(seeds) > 1 else "seed", ", ".join(map(str, seeds))),
        (f"SHA-256 of the rows, first {DIGITS} digits", ", ".join(data)),
    ]


def is_scored(result: Result) -> bool:
    """Tell whether answers were scored: then there are no labels, and nothing is an error."""
    return bool(result.get("known_by") == "score")


def what_rewards_are(result: Result) -> str:
    """Say what the reward of a row counts, and which items it averages."""
    gain = what_a_score_gains(result) if is_scored(result) else "1 for a correct prediction"
    if not is_scored(result) and not result.get("is_accuracy", True):
        gain = "what [reward] in the network file says that an answer gains"
    streams, means = len(result["seeds"]), ["the sites"] if len(result["sites"]) > 1 else []
    means += [f"{streams} streams, with Student's 95% interval over the streams"] if has_intervals(result) else []
    said = [f"Reward per item: {gain}, minus costs."]
    said += [f"Means over {' and '.join(means)}."] if means else []
    return " ".join([*said, *played_over(result)])


def what_a_score_gains(result: Result) -> str:
    """Say what the score of an answer counts as in rewards, which are in [0, 1]."""
    low, high = result.get("score_range") or (0, 1)
    of_range = "" if (low, high) == (0, 1) else f" as a fraction of the range from {low:g} to {high:g}"
    return f"the score of the answer{of_range}"


def played_over(result: Result) -> list[str]:
    """Say that one recording was played several times, and why this gives no intervals."""
    streams = len(result["seeds"])
    if streams == 1 or has_intervals(result):
        return []
    return [
        f"The same recording was played {streams} times with different random draws; these are means.",
        "Intervals over them would say nothing about other data.",
    ]


def what_marks_mean(result: Result) -> str:
    """Say when policies are tied for best, or why nothing is said about that, unless `played_over` has."""
    if has_intervals(result):
        return "Policies are tied for best if their intervals overlap the interval of the best."
    if result.get("is_recorded"):
        return "" if played_over(result) else "This is one recording: other data may give other rewards."
    return "This is one stream; cosend run --seeds 5 adds intervals."


def price(result: Result, cost: float | None) -> str:
    """Return a cost in money; nothing where the value of a correct prediction is unknown."""
    money = result.get("money")
    return f"{cost * money['unit']:,.4g}" if money and cost is not None else ""


def what_costs_are(result: Result) -> str:
    """Say what costs are counted in."""
    if is_scored(result):
        low, high = result.get("score_range") or (0, 1)
        return (
            "1 is worth a score of 1" if (low, high) == (0, 1) else f"1 is worth a score of {high:g} instead of {low:g}"
        )
    return "1 is worth a correct prediction" if result.get("is_accuracy", True) else "1 is worth a reward of 1"


def price_heading(result: Result, word: str) -> str:
    """Return the heading of a column of such costs; nothing where there is none."""
    money = result.get("money")
    return f"{word} {money['currency']}".strip() if money else ""


def quality(row: Row, decimals: int = 1) -> str:
    """Return the mean score of a row, or its error in % where there were labels."""
    return f"{row['error']:.{decimals}f}" if row.get("score") is None else f"{row['score']:.3f}"


def markdown(result: Result) -> str:
    rows, sent = playing(result), sends(result)
    lines = [[_bold(row["policy"], is_best(row, rows)), *_cells(row, sent, is_best(row, rows))] for row in rows]
    lines += [[f"*{shown(row)}*", *_cells(row, sent, best=False)] for row in knowing(result)]
    known = "mean score" if is_scored(result) else "error in %"
    heading = ["policy", "reward per item", known, *(["sent to peers in %"] if sent else [])]
    words = " ".join(filter(None, [verdict(result), more(result), result.get("others_see")]))
    sentences = words.replace(". ", ".\n")  # one sentence a line, as in all our pages
    marks = [row["policy"] for row in rows if is_best(row, rows)]
    tied = (
        ["", "Rows in bold are tied for the best reward: their intervals overlap."]
        if len(marks) > 1 and has_intervals(result)
        else []
    )
    said = ["", *played_over(result)] if played_over(result) else tied
    reasons = [f"- {each}" for each in why(result)]
    table = markdown_table(heading, lines)
    return "\n".join([sentences, "", *table, *said, *(["", WHEN, "", *reasons] if reasons else [])])


def _cells(row: Row, sent: bool, best: bool) -> list[str]:
    return [_bold(reward_text(row), best), quality(row), *([f"{row['sent']:.0f}"] if sent else [])]


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def reward_text(row: Row) -> str:
    half = row["reward_interval"]
    return f"{row['mean_reward']:.3f}" + ("" if half is None else f" \N{PLUS-MINUS SIGN} {half:.3f}")
