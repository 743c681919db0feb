"""The sentence over a run says what its table says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cosend.report.verdict import (
    WHEN,
    learnt_words,
    markdown,
    more,
    setting,
    verdict,
    what_costs_are,
    what_marks_mean,
    what_rewards_are,
    why,
)
from tests.report import made_up

SENDS = "ZoomingKLUCB, the default policy, sends 60% of the items to peers; without peers it earns 0.940."
ORACLE = (
    "The oracle earns 0.860: it uses the best of your models in each cell of the context. Finer choices can beat it."
)


def result_with(policy: str, seeds: int = 5, **facts: Any) -> dict[str, Any]:
    result = made_up(seeds=seeds)
    next(row for row in result["overall"] if row["policy"] == policy).update(facts)
    return result


def test_the_claim_is_about_routing_next_to_one_model_and_the_rest_is_said_then() -> None:
    result = made_up()
    assert verdict(result) == "Routing earns 0.980 per item, 11% more than each site's best single model (0.880)."
    assert more(result) == f"{SENDS} {ORACLE}"
    sentences = markdown(result).partition("\n\n")[0]  # each on a line
    assert " ".join(sentences.split("\n")) == f"{verdict(result)} {more(result)}"
    assert len(sentences.split("\n")) == 4
    alone = made_up(sites=("solo",))
    assert verdict(alone).endswith("11% more than the best single model (0.880).")
    assert more(alone) == f"The policy is ZoomingKLUCB, the default; without peers it earns 0.940. {ORACLE}"


@pytest.mark.parametrize(
    ("result", "claim"),
    [
        pytest.param(
            result_with("oracle", mean_reward=0.99),
            "11% more than each site's best single model (0.880) and 99% of the oracle.",
            id="less than the oracle",
        ),
        pytest.param(
            result_with("oracle", mean_reward=0.981),
            "11% more than each site's best single model (0.880) and 99.9% of the oracle.",
            id="not all of it while there is a difference",
        ),
        pytest.param(
            result_with("best single model", behind_interval=0.2),
            "11% more than each site's best single model (0.880, perhaps by chance).",
            id="a lead within its interval may be chance",
        ),
        pytest.param(
            result_with("best single model", mean_reward=0.99, behind=-0.01),
            "1% less than each site's best single model (0.990).",
            id="a loss",
        ),
        pytest.param(
            result_with("best single model", mean_reward=-0.02, behind=1.0),
            "1.000 more than each site's best single model (-0.020).",
            id="no share of nothing",
        ),
        pytest.param(
            made_up(policies=("ZoomingKLUCB", "local only")),
            "2% more than without peers (0.960).",
            id="no model is known",
        ),
    ],
)
def test_the_claim_is_no_larger_than_the_difference(result: dict[str, Any], claim: str) -> None:
    assert verdict(result) == f"Routing earns 0.980 per item, {claim}"


def test_a_claim_names_the_policy_of_the_file_and_money_where_there_is_some() -> None:
    assert verdict(made_up(policies=("CoS",))) == "Routing with CoS earns 0.980 per item."
    assert verdict(made_up() | {"overall": []}) == "Nothing has been played yet."
    assert more(made_up() | {"overall": []}) == ""
    paid = made_up(policies=("CoS",)) | {"money": {"unit": 0.02, "currency": "USD"}}
    assert verdict(paid) == "Routing with CoS earns 0.980 per item (0.0196 USD)."


@pytest.mark.parametrize(
    ("result", "then"),
    [
        (
            result_with("previous label", mean_reward=0.99, behind=-0.01, behind_in=1),
            "previous label earns more here: 0.990 per item, ahead in 4 of 5 streams.",
        ),
        (
            result_with("previous label", seeds=1, mean_reward=0.981, behind=-0.001),
            "previous label earns more here: 0.981 per item.",
        ),
        (result_with("previous label", mean_reward=0.981, behind=-0.001), ""),  # may be chance: the table says tied
    ],
)
def test_what_clearly_earns_more_is_named_below_the_claim(result: dict[str, Any], then: str) -> None:
    assert "previous" not in verdict(result)
    assert more(result) == " ".join(filter(None, [SENDS, then, ORACLE]))


@pytest.mark.parametrize(
    ("policy", "reward", "said"),
    [
        ("no learnt arms", 0.99, ". Without learnt arms it earns more: 0.990 per item."),
        ("no learnt arms", 0.776, "; without learnt arms it earns 0.776."),
    ],
)
def test_it_is_said_what_learnt_arms_add(policy: str, reward: float, said: str) -> None:
    result = made_up(sites=("solo",), policies=("ZoomingKLUCB", policy), seeds=1)
    result["overall"][1]["mean_reward"] = reward
    assert more(result) == f"The policy is ZoomingKLUCB, the default{said}"


@pytest.mark.parametrize(
    ("alone", "said"),
    [
        (0.95, "; without peers it earns 0.950, without learnt arms 0.940."),
        (0.99, "; without learnt arms it earns 0.940. Without peers it earns more: 0.990 per item."),
    ],
)
def test_it_is_said_what_peers_and_learnt_arms_add(alone: float, said: str) -> None:
    result = made_up(policies=("ZoomingKLUCB", "local only", "no learnt arms"), seeds=1)
    result["overall"][1]["mean_reward"] = alone
    assert more(result) == f"ZoomingKLUCB, the default policy, sends 60% of the items to peers{said}"


def test_the_best_single_model_of_a_site_has_its_name() -> None:
    result = made_up(sites=("solo",), seeds=1)
    result["models"]["solo"][1]["alone"] = 0.88
    assert verdict(result).endswith("11% more than the best single model, solo 1 (0.880).")
    result["models"]["solo"][1]["learnt"] = {"kind": "grown"}  # it is none of the given ones
    assert verdict(result).endswith("11% more than the best single model (0.880).")


def test_models_learnt_from_labels_beat_the_oracle_only_where_there_are_some() -> None:
    learning = made_up(policies=("ZoomingKLUCB", "no learnt arms", "oracle"))
    assert more(learning).endswith(" Finer choices, and models learnt from the labels, can beat it.")


def test_without_a_context_the_oracle_knows_the_time_only() -> None:
    assert "best of your models in each stretch of time." in more(made_up() | {"goes_by": ["every feature"]})


def test_one_recording_is_no_sample_of_others_however_often_it_is_played() -> None:
    """It has no intervals, nothing is tied, and nothing is ahead in some of the streams."""
    result = made_up(sites=("solo",)) | {"is_recorded": True}
    for row in result["overall"]:
        row |= {"reward_interval": None, "behind_interval": None}
    result["overall"][1] |= {"mean_reward": 0.99, "behind": -0.01, "behind_in": 0}
    text = markdown(result)
    assert "CoS earns more here: 0.990 per item." in text.split("\n")
    assert "The same recording was played 5 times with different random draws; these are means." in text.split("\n")
    assert not re.search("tied|streams|±", text)
    assert what_rewards_are(result) == (
        "Reward per item: 1 for a correct prediction, minus costs. The same recording was played 5 times with "
        "different random draws; these are means. Intervals over them would say nothing about other data."
    )
    assert what_marks_mean(result) == ""
    assert what_marks_mean(result | {"seeds": [0]}) == "This is one recording: other data may give other rewards."
    assert what_marks_mean(made_up(seeds=1)) == "This is one stream; cosend run --seeds 5 adds intervals."


def test_the_setting_names_the_seed_of_one_stream() -> None:
    assert setting(made_up(seeds=1)).endswith("context: age \N{MIDDLE DOT} 1 seed: 0")


def test_a_table_in_markdown_has_all_that_is_tied_in_bold() -> None:
    table = markdown(result_with("CoS", mean_reward=0.975))
    assert "| **ZoomingKLUCB** | **0.980 ± 0.004** |" in table
    assert "| **CoS** | **0.975 ± 0.004** |" in table
    assert "| local only | 0.940 ± 0.004 |" in table
    assert "| *best single model (hindsight)* |" in table
    assert "tied for the best reward" in table
    assert "tied" not in markdown(made_up())


def test_what_a_reward_is_depends_on_how_answers_are_judged() -> None:
    assert what_rewards_are(made_up(seeds=1)) == (
        "Reward per item: 1 for a correct prediction, minus costs. Means over the sites."
    )
    alone = made_up(seeds=1) | {"sites": ["solo"]}
    assert what_rewards_are(alone) == "Reward per item: 1 for a correct prediction, minus costs."
    assert "the score of the answer, minus costs" in what_rewards_are(made_up() | {"known_by": "score"})
    stars = made_up() | {"known_by": "score", "score_range": [1, 5]}
    assert "the score of the answer as a fraction of the range from 1 to 5, minus costs" in what_rewards_are(stars)
    assert what_costs_are(stars) == "1 is worth a score of 5 instead of 1"
    assert "what [reward] in the network file says" in what_rewards_are(made_up() | {"is_accuracy": False})


def part(items: float, right: float, known: float | None = None, **own: float) -> dict[str, Any]:
    known = items if known is None else known
    return {"items": items, "known": known, "gained": right, "own": {arm: [known, each] for arm, each in own.items()}}


def reasons(kept: dict[str, Any], call: float = 0.05, **peers: dict[str, Any]) -> list[str]:
    costs = {"fast": 0.0, "grown": 0.0, "slow": 0.1, **dict.fromkeys(peers, call)}
    return why({"why": {"north": {"items": 1_000, "is_accuracy": True, "costs": costs, "kept": kept, "peers": peers}}})


KEPT = part(880, 800, fast=700, grown=790)


@pytest.mark.parametrize(
    ("peer", "sentence"),
    [
        (
            part(120, 109, fast=60, grown=89),
            "north asks west about 12% of its items: on these, west is right 91% of the time, "
            "north's own best arm (grown) 74%, and a call costs 5%.",
        ),
        (
            part(120, 109, fast=60, grown=108),
            "north asks west about 12% of its items: on these, west is right 91% of the time, "
            "north's own best arm (grown) 90%, and a call costs 5%, which is more than it gains.",
        ),
        (
            part(120, 109, fast=84, slow=95),
            "north asks west about 12% of its items: on these, west is right 91% of the time, "
            "north's own best arm (fast) 70%, and a call costs 5%.",
        ),
        (
            part(120, 109),
            "north asks west about 12% of its items: on these, west is right 91% of the time, and a call costs 5%.",
        ),
        (part(120, 0, 0, fast=0), "north asks west about 12% of its items; a call costs 5%."),
        (
            part(12, 9, fast=6),
            "north keeps 88% of its items: on these, its own best arm (grown) is right 90% of the time, and a "
            "peer would have to be right 95% of the time to be worth a call that costs 5%.",
        ),
    ],
)
def test_a_site_says_why_it_asks_a_peer_or_why_not(peer: dict[str, Any], sentence: str) -> None:
    assert reasons(KEPT, west=peer) == [sentence]


def test_the_peer_that_is_asked_most_comes_first_and_who_only_tries_one_asks_nobody() -> None:
    found = reasons(KEPT, west=part(30, 20, fast=10), east=part(90, 80, fast=50))
    assert [each.split()[2] for each in found] == ["east", "west"]
    none = part(19, 10, fast=10)
    assert reasons(part(981, 960, fast=960), west=none)[0].endswith("so no peer can be worth a call that costs 5%.")
    assert reasons(part(981, 900, fast=0), west=none)[0].startswith("north keeps 98% of its items: on these")
    assert reasons(part(981, 0, 0), west=none) == ["north keeps 98% of its items; a call costs 5%."]
    assert "a call costs nothing" in reasons(KEPT, 0.0, west=part(30, 20, fast=10))[0]
    assert why(made_up()) == []


def test_the_reasons_stand_below_the_table_a_line_each() -> None:
    result = made_up() | {
        "why": {
            "north": {
                "items": 9,
                "is_accuracy": True,
                "costs": {"w": 0.1},
                "kept": part(9, 0, 0),
                "peers": {"w": part(0, 0)},
            }
        }
    }
    assert markdown(result).endswith(f"\n\n{WHEN}\n\n- north keeps 100% of its items; a call costs 10%.")


@pytest.mark.parametrize(
    ("learnt", "words"),
    [
        (None, ""),
        ({"kind": "grown", "labels": 90.4, "fitted": 0}, "trees learnt here, not yet fitted"),
        (
            {"kind": "grown", "labels": 5_000, "fitted": 4_959},
            "trees learnt here, last fitted to 4,959 of 5,000 labels",
        ),
        ({"kind": "stack", "labels": 258.2, "fitted": 258.2}, "all free models combined, learnt here, from 258 labels"),
    ],
)
def test_what_a_site_learns_itself_is_told_with_how_much_it_was_learnt_from(learnt: Any, words: str) -> None:
    assert learnt_words({"model": "mine", "learnt": learnt}) == words


def test_gains_that_are_not_right_or_wrong_are_told_as_they_are() -> None:
    peers = {"west": part(120, 109, fast=84, slow=105)}
    known = {"items": 1_000, "is_accuracy": False, "costs": {"fast": 0, "slow": 0.1, "grown": 0, "west": 0.02}}
    asked, kept = (
        why({"why": {"north": {**known, "kept": KEPT, "peers": each}}}) for each in (peers, {"west": part(0, 0)})
    )
    assert asked == [
        "north asks west about 12% of its items: on these, west gains 0.91, north's own best arm (slow) 0.88 at a "
        "cost of 0.10, and a call costs 0.02."
    ]
    assert kept[0].endswith(
        "(grown) gains 0.90, and a peer would have to gain 0.92 to be worth a call that costs 0.02."
    )
