"""The sentence over a run says what its table says."""

from __future__ import annotations

from typing import Any

import pytest

from cosend.report.verdict import WHEN, learnt_words, markdown, more, setting, verdict, why
from tests.report import made_up

ALONE = "With only its own best model, each site would earn 0.880."


def result_with(policy: str, seeds: int = 5, **facts: Any) -> dict[str, Any]:
    result = made_up(seeds=seeds)
    next(row for row in result["overall"] if row["policy"] == policy).update(facts)
    return result


def test_a_policy_that_is_best_is_compared_with_the_local_models_and_the_next() -> None:
    result = made_up()
    assert verdict(result) == f"ZoomingKLUCB, the default policy, earns the most: 0.980 per item. {ALONE}"
    assert more(result) == (
        "ZoomingKLUCB sends 60% of the items to peers. Next comes CoS, 0.020 behind, and behind in 5 of 5 streams."
    )
    sentences = markdown(result).partition("\n\n")[0]  # each on a line
    assert " ".join(sentences.split("\n")) == f"{verdict(result)} {more(result)}"
    assert len(sentences.split("\n")) == 4
    alone = result | {"sites": result["sites"][:1]}
    assert more(alone).startswith("The site's best model alone would earn 0.880. Next comes CoS")
    assert "peers" not in more(alone)


@pytest.mark.parametrize(
    ("result", "first", "then"),
    [
        pytest.param(
            result_with("oracle per cell", mean_reward=0.99),
            "ZoomingKLUCB, the default policy, earns the most",
            "Knowing the best model for every cell in advance would earn 0.990.",
            id="the oracle never wins, but says what could be earned",
        ),
        pytest.param(
            result_with("CoS", behind_interval=0.03),
            "ZoomingKLUCB, the default policy, earns the most",
            "Next comes CoS, 0.020 behind, which may be chance.",
            id="a lead within its interval may be chance",
        ),
        pytest.param(
            result_with("previous label", mean_reward=0.99, behind=-0.01, behind_in=0),
            f"previous label earns the most: 0.990 per item. ZoomingKLUCB, the default policy, earns 0.980. {ALONE}",
            "ZoomingKLUCB sends 60% of the items to peers.",
            id="a policy that clearly earns more comes first",
        ),
        pytest.param(
            result_with("previous label", mean_reward=0.981, behind=-0.001, behind_in=0),
            "ZoomingKLUCB, the default policy, earns 0.980 per item. With only",
            "previous label earns 0.981, a difference that may be chance.",
            id="a policy that earns more by chance comes after",
        ),
        pytest.param(
            result_with("previous label", seeds=1, mean_reward=0.981, behind=-0.001),
            "previous label earns the most: 0.981 per item.",
            "ZoomingKLUCB sends 60% of the items to peers.",
            id="with one stream nothing is called chance",
        ),
        pytest.param(made_up(policies=("CoS",)), "CoS earns 0.980 per item.", "", id="nothing to compare with"),
        pytest.param(made_up() | {"overall": []}, "Nothing has been played yet.", "", id="nothing was played"),
    ],
)
def test_what_comes_first_and_what_is_said_then(result: dict[str, Any], first: str, then: str) -> None:
    assert verdict(result).startswith(first)
    assert more(result).endswith(then)


def test_one_stream_claims_nothing_about_others() -> None:
    assert more(made_up(seeds=1)).endswith("Next comes CoS, 0.020 behind.")
    assert setting(made_up(seeds=1)).endswith("context: age \N{MIDDLE DOT} 1 seed: 0")


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
            "north asks west for 12% of its items: there west is right 91%, its own best, grown, 74%, and a call "
            "costs 5%.",
        ),
        (
            part(120, 109, fast=60, grown=108),
            "north asks west for 12% of its items: there west is right 91%, its own best, grown, 90%, and a call "
            "costs 5%, which is more than it gains.",
        ),
        (
            part(120, 109, fast=84, slow=95),
            "north asks west for 12% of its items: there west is right 91%, its own best, fast, 70%, and a call "
            "costs 5%.",
        ),
        (part(120, 109), "north asks west for 12% of its items: there west is right 91%, and a call costs 5%."),
        (part(120, 0, 0, fast=0), "north asks west for 12% of its items; a call costs 5%."),
        (
            part(12, 9, fast=6),
            "north keeps 88% of its items: there its own best, grown, is right 90%, and a peer would have to be right "
            "95% to be worth a call at 5%.",
        ),
    ],
)
def test_a_site_says_why_it_asks_a_peer_or_why_not(peer: dict[str, Any], sentence: str) -> None:
    assert reasons(KEPT, west=peer) == [sentence]


def test_the_peer_that_is_asked_most_comes_first_and_who_only_tries_one_asks_nobody() -> None:
    found = reasons(KEPT, west=part(30, 20, fast=10), east=part(90, 80, fast=50))
    assert [each.split()[2] for each in found] == ["east", "west"]
    none = part(19, 10, fast=10)
    assert reasons(part(981, 960, fast=960), west=none)[0].endswith(
        "and no peer can be so much better that a call at 5% pays."
    )
    assert reasons(part(981, 900, fast=0), west=none)[0].startswith("north keeps 98% of its items: there")
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
        "north asks west for 12% of its items: there west gains 0.91, its own best, slow, 0.88 at a cost of 0.10, "
        "and a call costs 0.02."
    ]
    assert kept[0].endswith("grown, gains 0.90, and a peer would have to gain 0.92 to be worth a call at 0.02.")
