"""The sentence over a run says what its table says."""

from __future__ import annotations

from typing import Any

import pytest

from cosend.report.verdict import markdown, more, setting, verdict
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
