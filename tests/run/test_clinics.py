"""The first run: contexts matter in it, sending pays, and nothing wins by a quirk of the stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from cosend.config.network_file import load
from cosend.report.verdict import MEANINGS
from cosend.run.play import play, summary
from cosend.run.prepare import prepare

SEEDS = range(5)
SHORT = 2_000  # items
DEFAULT = "MixedViews"
TRIVIAL = ("previous label", "commonest label", "uniform random")
NO_CONTEXT = ("best single model", "AdaBoost", "SWA 100")


def rewards_of(seeds: Iterable[int], **changes: int) -> dict[str, Any]:
    """Return for every policy its reward in each of these streams, the mean over the clinics."""
    network, folder = load(None)
    assert network.stream is not None
    stream = network.stream.model_copy(update=changes)
    rewards: dict[str, Any] = {}
    for seed in seeds:
        played = play(prepare(network.model_copy(update={"seed": seed, "stream": stream}), folder)).played
        rows = summary(played)
        for policy in dict.fromkeys(row["policy"] for row in rows):
            own = [row["mean_reward"] for row in rows if row["policy"] == policy]
            rewards.setdefault(policy, []).append(float(np.mean(own)))
    return {policy: np.array(each) for policy, each in rewards.items()}


@pytest.fixture(scope="module")
def rewards() -> dict[str, Any]:
    return rewards_of(SEEDS)


@pytest.fixture(scope="module")
def at_first() -> dict[str, Any]:
    return rewards_of(SEEDS[:2], items=SHORT)


@pytest.mark.claims
def test_the_default_policy_earns_more_than_anything_else_that_knows_no_future(rewards: dict[str, Any]) -> None:
    for policy, earned in rewards.items():
        lead = rewards[DEFAULT] - earned
        if policy not in (DEFAULT, "oracle"):
            assert lead.mean() > 2.776 * lead.std(ddof=1) / np.sqrt(len(SEEDS)), policy  # Student's t, 95 %


@pytest.mark.compiled
def test_whatever_is_played_has_a_meaning_on_the_page(at_first: dict[str, Any]) -> None:
    assert set(at_first) <= set(MEANINGS)


@pytest.mark.compiled
def test_the_default_policy_earns_more_than_simple_ones_from_the_start(at_first: dict[str, Any]) -> None:
    for policy in (*TRIVIAL, *NO_CONTEXT, "best local model", "CoS"):
        assert (at_first[DEFAULT] > at_first[policy]).all(), policy


@pytest.mark.claims
def test_the_oracle_is_above_everything_that_chooses_among_the_same_models(rewards: dict[str, Any]) -> None:
    for policy, earned in rewards.items():
        if policy not in (DEFAULT, "local only"):  # these learn models of their own
            assert (rewards["oracle"] >= earned).all(), policy


@pytest.mark.claims
def test_contexts_matter_and_so_do_peers_and_what_sites_learn_themselves(rewards: dict[str, Any]) -> None:
    for policy in (*NO_CONTEXT, "best local model"):
        assert (rewards[DEFAULT] - rewards[policy] > 0.08).all(), policy
    assert (rewards[DEFAULT] - rewards["local only"]).mean() > 0.01
    assert (rewards[DEFAULT] - rewards["no learnt arms"] > 0.02).all()


@pytest.mark.claims
def test_who_looks_at_nothing_loses_to_any_single_model(rewards: dict[str, Any]) -> None:
    for policy in TRIVIAL:
        assert (rewards[policy] < rewards["best local model"]).all(), policy
