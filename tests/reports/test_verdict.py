"""The sentence over a run says what its table says."""

from __future__ import annotations

from typing import Any

from cosend.reports.verdict import markdown, more, setting, verdict
from tests.reports import made_up


def row_of(result: dict[str, Any], policy: str) -> dict[str, Any]:
    return next(row for row in result["overall"] if row["policy"] == policy)


def test_a_policy_that_is_best_is_compared_with_the_local_models_and_the_next() -> None:
    result = made_up()
    assert verdict(result) == (
        "ZoomingKLUCB, the default policy, earns the most: 0.980 per item. "
        "With only its own best model, each site would earn 0.880."
    )
    assert more(result) == (
        "ZoomingKLUCB sends 60 % of the items to peers. Next comes CoS, 0.020 behind, and behind in 5 of 5 streams."
    )


def test_what_could_be_earned_at_best_is_said_if_it_is_more() -> None:
    result = made_up()
    row_of(result, "oracle per cell")["mean_reward"] = 0.99
    assert more(result).endswith("Knowing the best model for every cell in advance would earn 0.990.")


def test_a_site_without_peers_is_compared_with_its_best_model() -> None:
    result = made_up()
    alone = result | {"sites": result["sites"][:1]}
    assert more(alone).startswith("The site's best model alone would earn 0.880. Next comes CoS")
    assert "peers" not in more(alone)


def test_in_markdown_every_sentence_has_a_line() -> None:
    result = made_up()
    sentences = markdown(result).partition("\n\n")[0]
    assert " ".join(sentences.split("\n")) == f"{verdict(result)} {more(result)}"
    assert len(sentences.split("\n")) == 4


def test_a_lead_within_its_interval_may_be_chance() -> None:
    result = made_up()
    row_of(result, "CoS")["behind_interval"] = 0.03
    assert "Next comes CoS, 0.020 behind, which may be chance." in more(result)


def test_one_stream_claims_nothing_about_others() -> None:
    assert more(made_up(seeds=1)).endswith("Next comes CoS, 0.020 behind.")
    assert setting(made_up(seeds=1)).endswith("context: age \N{MIDDLE DOT} 1 seed: 0")


def test_who_clearly_earns_more_than_the_policy_of_the_run_comes_first() -> None:
    result = made_up()
    row_of(result, "previous label").update(mean_reward=0.99, behind=-0.01, behind_in=0)
    assert verdict(result) == (
        "previous label earns the most: 0.990 per item. ZoomingKLUCB, the default policy, earns 0.980. "
        "With only its own best model, each site would earn 0.880."
    )
    assert "Next comes" not in more(result)
    assert "previous label" not in more(result)


def test_who_earns_more_by_chance_comes_after_the_policy_of_the_run() -> None:
    result = made_up()
    row_of(result, "previous label").update(mean_reward=0.981, behind=-0.001, behind_in=0)
    assert verdict(result).startswith("ZoomingKLUCB, the default policy, earns 0.980 per item. With only")
    assert "previous label earns 0.981, a difference that may be chance." in more(result)


def test_with_one_stream_nothing_is_called_chance() -> None:
    result = made_up(seeds=1)
    row_of(result, "previous label").update(mean_reward=0.981, behind=-0.001)
    assert verdict(result).startswith("previous label earns the most: 0.981 per item.")


def test_what_knows_the_future_never_wins() -> None:
    result = made_up()
    row_of(result, "oracle per cell").update(mean_reward=1.0, behind=-0.02)
    assert verdict(result).startswith("ZoomingKLUCB, the default policy, earns the most")


def test_alone_on_the_field_there_is_nothing_to_compare() -> None:
    assert verdict(made_up(policies=("CoS",))) == "CoS earns 0.980 per item."
    assert verdict(made_up() | {"overall": []}) == "Nothing has been played yet."
    assert more(made_up() | {"overall": []}) == ""
