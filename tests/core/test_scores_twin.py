"""Labels that score local classifiers that were not used: the core and its slow twins agree step by step, exactly."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.errors import ArmError, RewardError, SettingError, SettledDecision
from tests.examples import examples
from tests.oracle import lockstep, options
from tests.oracle.lockstep import Network
from tests.policies import POLICIES, choose, everything, new_learner

pytestmark = pytest.mark.compiled


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw a network of any policy, whose labels score all local classifiers."""
    axes = draw(st.integers(1, 2))
    policy, chosen = draw(options.policies)
    draws = random.Random(draw(options.seeds))
    network = lockstep.build(draws, draw(options.sizes), axes, chosen, policy, scores=True)
    network.lasting = draw(options.lasting)
    network.has_trouble = draw(st.booleans())
    return network


@given(network=networks(), delay=options.delays)
@examples(13)
def test_core_and_twin_agree_when_labels_score_all_local_classifiers(network: Network, delay: int) -> None:
    lockstep.play(network, slots=50, max_delay=delay)


@given(network=networks(), delay=options.delays)
@examples(5)
def test_core_and_twin_agree_on_scores_while_arms_change(network: Network, delay: int) -> None:
    lockstep.play(network, slots=50, max_delay=delay, changes=True)


@given(network=networks())
@examples(4)
def test_core_and_twin_agree_on_scores_of_a_caller_that_trains(network: Network) -> None:
    lockstep.train_all(network, requests=30)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_many_labels_with_scores_are_as_one_by_one(name: str) -> None:
    one, many = new_learner(POLICIES[name]), new_learner(POLICIES[name])
    draw = random.Random(5)
    for _ in range(20):
        ids = []
        for _ in range(3):
            context = (draw.random(), draw.random())
            choice = choose(one, context)
            assert choose(many, context).arm == choice.arm
            ids.append(choice.id)
        gains = [float(draw.random() < 0.5) for _ in ids]
        arms = [one.arms.names[arm] for arm, _, _ in one.find(ids)]
        others = [{arm: draw.random() for arm in ("a", "b") if arm != used} for used in arms]
        for ticket, gain, scores in zip(ids, gains, others, strict=True):
            one.learn(ticket, gain, None, scores)
        many.learn_many(ids, gains, None, others)
        assert everything(one) == everything(many)


def test_a_label_counts_for_every_classifier_that_it_scores() -> None:
    learner = new_learner(POLICIES["CellKLUCB"])
    choice = choose(learner, (0.1, 0.1))
    other = "b" if choice.arm == "a" else "a"
    learner.learn(choice.id, 1.0, None, {other: 0.5})
    known = learner.cells()[choice.cell].estimates
    assert (known[choice.arm].reward_count, known[other].reward_count) == (1, 1)
    assert known[other].mean_reward == 0.5 - learner.arms.cost(other)
    assert (known[other].waiting_count, known["far"].reward_count) == (0, 0)


def test_scores_that_make_no_sense_change_nothing() -> None:
    learner = new_learner(POLICIES["CellKLUCB"])
    choice = choose(learner, (0.1, 0.1))
    other = "b" if choice.arm == "a" else "a"
    before = everything(learner)
    for wrong in ({"far": 1.0}, {"nobody": 1.0}, {choice.arm: 1.0}):
        with pytest.raises(ArmError):
            learner.learn(choice.id, 1.0, None, wrong)
    with pytest.raises(RewardError):
        learner.learn(choice.id, 1.0, None, {other: 1.5})
    with pytest.raises(SettingError):
        learner.learn_many([choice.id], [1.0], None, [{other: 1.0}, {}])
    with pytest.raises(SettledDecision):
        learner.learn_many([choice.id] * 2, [1.0] * 2, None, [{other: 1.0}, {}])
    assert everything(learner) == before
    with pytest.raises(SettingError, match="score_local"):
        type(learner)("here", own={"a": 0.0}, score_local="some")  # type: ignore[arg-type]
