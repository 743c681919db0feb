"""Every policy and its slow twin, which share no code, agree step by step, exactly."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.algorithm import layout as col
from cosend.algorithm.learner import Learner
from cosend.algorithm.values import Choice, Phase
from cosend.errors import StateError
from tests.examples import examples
from tests.oracle import lockstep, options
from tests.oracle.lockstep import Network

pytestmark = pytest.mark.compiled

POLICIES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "CoS": options.cos(),
    "CellKLUCB": options.index(),
    "Zooming": options.zooming(),
    "ZoomingKLUCB": options.zooming_index(),
    "MixedViews": options.mixed(),
}
every_policy = pytest.mark.parametrize("policy", POLICIES)
NO_CODES = st.just(frozenset[int]())


@st.composite
def networks(draw: st.DrawFn, policy: str, dimensions: int = 3, has_trouble: bool | None = None) -> Network:
    """Draw a network of a policy: some have axes with codes, score all local models, or have arms that fail."""
    axes, draws = draw(st.integers(1, dimensions)), random.Random(draw(options.seeds))
    codes, scores = draw(st.one_of(NO_CODES, options.categories(axes))), draw(st.booleans())
    network = lockstep.build(draws, draw(options.sizes), axes, draw(POLICIES[policy]), policy, codes, scores)
    network.lasting, network.axis = draw(options.lasting), draw(st.sampled_from([None, *range(axes)]))
    network.has_trouble = draw(st.booleans()) if has_trouble is None else has_trouble
    return network


@every_policy
@given(data=st.data(), delay=options.delays)
@examples(20)
def test_both_agree_on_random_networks(policy: str, data: st.DataObject, delay: int) -> None:
    lockstep.play(data.draw(networks(policy)), slots=50, max_delay=delay)


@every_policy
@given(data=st.data(), delay=options.delays)
@examples(8)
def test_both_agree_while_arms_join_leave_and_change_their_cost(policy: str, data: st.DataObject, delay: int) -> None:
    network = data.draw(networks(policy, dimensions=2))
    lockstep.play(network, slots=45, max_delay=delay, changes=True)
    lockstep.train_all(network, requests=10)


@every_policy
@given(data=st.data())
@examples(5)
def test_both_agree_on_answers_to_a_caller_that_trains(policy: str, data: st.DataObject) -> None:
    """A policy that trains nobody may be trained by a caller with another; an answer splits no cube."""
    network = data.draw(networks(policy, dimensions=2, has_trouble=False))
    lockstep.play(network, slots=20, max_delay=1)
    lockstep.train_all(network, requests=30)


@pytest.mark.parametrize("seed", range(3))
def test_both_agree_when_no_more_is_paid_to_learn_about_arms(seed: int) -> None:
    chosen = {"bonus": 2.0, "share_labels": "always"}
    network = lockstep.build(random.Random(seed), [2, 2, 1], 1, chosen, "MixedViews", scores=True)
    lockstep.play(network, slots=250, max_delay=1)
    assert any(learner.ledger.site[col.PAID_EXPLORED] > 52 for learner in network.learners.values())


@pytest.mark.parametrize("policy", ["CoS", "CellKLUCB"])
@given(sizes=options.sizes, dimensions=st.integers(1, 3), chosen=options.keeping(), seed=options.seeds)
@examples(5)
def test_both_agree_on_labels_of_an_earlier_phase(
    policy: str, sizes: list[int], dimensions: int, chosen: dict[str, Any], seed: int
) -> None:
    lockstep.play(lockstep.build(random.Random(seed), sizes, dimensions, chosen, policy), slots=40, max_delay=20)


# The comparison above would be worth little if the networks only ever explored, or if nothing failed


TRAINS = {"slices": 1, "exploration_exponent": 0.05, "max_peer_functions": 3, "order": "train_first"}


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        ("CoS", TRAINS),
        ("CellKLUCB", {"slices": 1}),
        ("Zooming", {"alpha": 0.1, "split_after": 30.0, "order": "train_first"}),
        ("Zooming", {"alpha": 0.3, "split_after": 10.0, "inherit": 2.0, "max_cells": 14}),
        ("ZoomingKLUCB", {"alpha": 0.3}),
        ("ZoomingKLUCB", {"alpha": 0.3, "inherit": 0.0, "max_cells": 20}),
    ],
)
def test_networks_reach_every_phase_and_small_cubes(policy: str, chosen: dict[str, Any]) -> None:
    network = lockstep.build(random.Random(1), [2, 3, 1], 1, chosen, policy)
    lockstep.play(network, slots=400, max_delay=2)
    trains = {Phase.TRAIN} if "KLUCB" not in policy else set[Phase]()
    assert {choice.phase for _, choice in network.history} == {Phase.EXPLORE, Phase.EXPLOIT} | trains
    for learner in network.learners.values() if "Zooming" in policy else ():
        assert len(learner.cells()) == chosen.get("max_cells", len(learner.cells()))
        assert max(cell.slices for cell in learner.cells().values()) >= 2**3


def test_networks_in_trouble_reach_everything_that_can_go_wrong() -> None:
    chosen = {"exploration_exponent": 0.05, "order": "train_first", "wait_limit": 12}
    network = lockstep.build(random.Random(2), [2, 1, 2], 2, chosen, "CoS", categories=frozenset({1}))
    network.has_trouble = True
    disordered = 0
    for slot in range(150):
        lockstep.play_slot(network, slot, max_delay=8)
        for learner in network.learners.values():
            arrivals = [entry.arrival for entry in learner.registry.entries()]
            disordered += arrivals != sorted(arrivals)
    lockstep.compare_ledgers(network)
    items = sum(learner.arrivals for learner in network.learners.values())
    assert len(network.history) > items + 50  # chosen again
    assert disordered > 20
    assert {choice.phase for _, choice in network.history} == set(Phase)


# Cases worth naming: equal cells and cubes


def right_choice(network: Network, context: tuple[float, ...], gain: float = 1.0) -> Choice:
    choice = lockstep.agree(network, "site0", context)
    lockstep.learn(network, "site0", choice.id, gain, None)
    return choice


def set_costs(network: Network, *costs: float) -> None:
    for name, cost in zip(network.functions["site0"], costs, strict=True):
        lockstep.both(network, "site0", "set_cost", name, cost)


def test_a_late_label_whose_cell_was_never_visited_changes_nothing() -> None:
    """The third item begins a phase with 3 slices instead of 2; the new cell of the first two was never visited."""
    network = lockstep.build(random.Random(0), [1], 1, {"alpha": 0.25}, policy="CellKLUCB")
    for x in (0.4, 0.4, 0.0):
        lockstep.agree(network, "site0", (x,))
    lockstep.learn(network, "site0", 1, 1.0, None)
    lockstep.compare_ledgers(network)
    (cell,) = network.learners["site0"].cells().values()
    assert cell.estimates["site0.f0"].reward_count == 0


def test_an_item_chosen_for_again_expires_after_smaller_pending_ids() -> None:
    """With a limit of 3 the item that came first is too old at the fifth arrival, but the second, before it, is not."""
    network = lockstep.build(random.Random(0), [1, 1], 1, {"slices": 1, "wait_limit": 3}, "CellKLUCB")
    learner = network.learners["site0"]
    for _ in range(2):
        lockstep.agree(network, "site0", (0.5,))
    again = lockstep.both(network, "site0", "fail", 1)
    assert again == 1
    lockstep.agree(network, "site0", (0.5,), again=again)
    pending = []
    for _ in range(4):
        lockstep.agree(network, "site0", (0.5,))
        lockstep.compare_ledgers(network)
        pending.append(learner.registry.ids()[:2])
    assert pending == [[2, 3], [2, 3], [2, 3], [4, 5]]


def test_every_combination_of_codes_has_a_tree_of_its_own_also_beyond_max_cells() -> None:
    network = lockstep.build(random.Random(0), [1], 3, {"max_cells": 3}, "Zooming", categories=frozenset({0, 2}))
    for code in (0.0, 1.0):
        for _ in range(3):
            lockstep.agree(network, "site0", (code, 0.9, 4095.0))
    lockstep.agree(network, "site0", (4095.0, 0.9, 0.0))
    lockstep.compare_ledgers(network)
    cells = network.learners["site0"].cells().values()
    expected = [(1, (0, 0, 4095)), (1, (1, 0, 4095)), (1, (4095, 0, 0)), (2, (0, 1, 4095))]
    assert sorted((cell.slices, cell.axes) for cell in cells) == expected


def test_an_axis_with_codes_does_not_count_in_the_rate_at_which_cubes_split() -> None:
    """Level 1 needs 8 arrivals at the rate of no axis, 12 at that of one, 16 at that of two."""
    network = lockstep.build(random.Random(0), [1], 2, {}, "Zooming", categories=frozenset({1}))
    choices = [lockstep.agree(network, "site0", (0.1, 3.0)) for _ in range(16)]
    cells = network.learners["site0"].cells()
    assert [cells[choice.cell].slices for choice in choices] == [1, *[2] * 12, *[4] * 3]


def test_an_axis_with_codes_does_not_count_in_the_exponent_of_the_quotas() -> None:
    """With t^(1/2) ln t two models are owed samples for long; with t^(2/5) ln t they are not at step 23."""
    phases = {}
    for codes in (frozenset({0}), frozenset[int]()):
        network = lockstep.build(random.Random(0), [2], 2, {"slices": 1}, "CoS", categories=codes)
        phases[len(codes)] = [right_choice(network, (1.0, 0.5)) for _ in range(23)][-1].phase
    assert phases == {1: Phase.EXPLORE, 0: Phase.EXPLOIT}


def test_a_doubling_that_keeps_keeps_the_codes_apart() -> None:
    """The third item begins a phase with more slices; every cell of it has the numbers of the old one of its code."""
    chosen = {"alpha": 0.25}
    network = lockstep.build(random.Random(0), [1], 2, chosen, "CellKLUCB", categories=frozenset({1}))
    for code in (1.0, 4095.0, 4095.0):
        right_choice(network, (0.1, code))
    lockstep.compare_ledgers(network)
    arrivals = {cell.axes: cell.labelled.arrivals for cell in network.learners["site0"].cells().values()}
    assert (arrivals[0, 1], arrivals[0, 4095]) == (1, 2)


def test_the_mean_of_a_child_is_the_quotient_of_what_it_inherited() -> None:
    """Not its parent's mean: 1.5 * 0.8 / 1.5 is below 0.8, so the arm with one reward beats the one with two."""
    chosen = {"split_after": 3.0, "inherit": 1.5, "lipschitz": 1.0}
    network = lockstep.build(random.Random(0), [2], 1, chosen, policy="ZoomingKLUCB")
    set_costs(network, 0.0, 0.0)
    for _ in range(3):
        right_choice(network, (0.1,), 0.8)
    assert lockstep.agree(network, "site0", (0.1,)).propensity == 1.0
    lockstep.compare_ledgers(network)


def test_a_cube_splits_before_the_oldest_decision_expires() -> None:
    """The default reward would bring the second arm within the width of the cube, but it comes after the question."""
    chosen = {"alpha": 2.0, "lipschitz": 1.0, "inherit": 0.0, "max_pending": 1, "default_reward": 0.5}
    network = lockstep.build(random.Random(0), [2], 1, {**chosen, "split_after": 0.2}, policy="ZoomingKLUCB")
    set_costs(network, 0.6, 0.0)
    slices = []
    for item in range(1, 7):
        choice = lockstep.agree(network, "site0", (0.1,))
        slices.append(network.learners["site0"].cells()[choice.cell].slices)
        if item <= 3:
            lockstep.learn(network, "site0", choice.id, 0.0, None)
    assert slices == [1, 1, 2, 2, 2, 2]


# Cases worth naming: mixed views


scored_or_used = pytest.mark.parametrize(
    ("scores", "adds_up"), [(True, False), (False, False), (True, True), (False, True)]
)


@scored_or_used
def test_both_agree_on_a_long_stream_with_finer_cells(scores: bool, adds_up: bool) -> None:
    network = lockstep.build(random.Random(3), [2, 1], 2, {"adds_up": adds_up}, "MixedViews", scores=scores)
    network.axis = 1
    lockstep.play(network, slots=400, max_delay=2)
    assert {cell.slices for cell in network.learners["site0"].cells().values()} == {1, 4, 16, 64}


@pytest.mark.parametrize("adds_up", [False, True])
def test_both_agree_with_many_axes(adds_up: bool) -> None:
    options, codes = {"adds_up": adds_up}, frozenset([3])
    network = lockstep.build(random.Random(3), [2, 1], 14, options, "MixedViews", categories=codes, scores=True)
    network.axis = 1
    lockstep.play(network, slots=120, max_delay=2)
    assert len(network.learners["site0"].views()) == 2 + adds_up + 13 * 3 + 1 + 2


def test_what_explains_the_rewards_gets_the_weight() -> None:
    network = lockstep.build(random.Random(1), [2, 2], 3, {}, "MixedViews", scores=True)
    network.axis = 1
    lockstep.play(network, slots=300, max_delay=2)
    for learner in network.learners.values():
        assert sum(view.share for view in learner.views() if 1 in view.axes) > 0.5


@pytest.mark.parametrize(("given", "steps"), [(0, (3, 1)), (2, (4, 2)), (1, (14, 3)), (0, (11, 2))])
@scored_or_used
def test_both_agree_while_features_get_axes(given: int, steps: tuple[int, int], scores: bool, adds_up: bool) -> None:
    """Labels are late, so that items are pending that were decided before the axes came; some items lack numbers."""
    network = lockstep.build(random.Random(given), [2, 1], given, {"adds_up": adds_up}, "MixedViews", scores=scores)
    network.lacks = 0.2
    for slot in range(70):
        if slot in (25, 40):
            lockstep.grow(network, steps[slot == 40])
            lockstep.compare_ledgers(network)
        lockstep.play_slot(network, slot, max_delay=6, changes=slot % 9 == 0)
    lockstep.play(network, slots=0, max_delay=80)


def test_both_agree_on_single_values_of_features() -> None:
    network = lockstep.build(random.Random(5), [2], 0, {}, "MixedViews", scores=True)
    lockstep.play(network, slots=5, max_delay=2)
    lockstep.grow(network, 1)
    lockstep.play(network, slots=700, max_delay=2)
    assert {cell.slices for cell in network.learners["site0"].cells().values()} == {1, 4, 16, 2**20}


@pytest.mark.parametrize(("given", "same"), [(0, 4), (0, 14), (2, 4), (2, 14)])
@pytest.mark.parametrize(("max_cells", "adds_up"), [(None, False), (60, True)])
def test_both_agree_while_features_change_that_never_did(
    given: int, same: int, max_cells: int | None, adds_up: bool
) -> None:
    """With few features pairs are looked at. Some change before there are labels enough for finer cells, some after."""
    options, scores = {"adds_up": adds_up, "max_cells": max_cells}, (given == 0) == (same == 14)
    network = lockstep.build(random.Random(given), [2, 1], given, options, "MixedViews", scores=scores)
    network.lacks = 0.2
    for slot in range(160):
        if slot == 20:
            lockstep.grow(network, 2, same)
        if slot in (26, 100):
            lockstep.grow(network, 2, places=(0.5,) if slot == 26 else (0.1, 1.0))
        if slot == 130:
            lockstep.grow(network, same - 3, places=(0.3,) * (same - 3))
        lockstep.compare_ledgers(network)
        lockstep.play_slot(network, slot, max_delay=6, changes=slot % 9 == 0)
    lockstep.play(network, slots=0, max_delay=170)
    lockstep.compare_ledgers(network)


@pytest.mark.parametrize("seed", range(3))
def test_free_models_are_tried_as_others_once_a_label_has_not_scored_all_of_them(seed: int) -> None:
    settings = {"share": 0.035, "bonus": 0.2, "home_margin": 0.02, "adds_up": seed > 0}
    network = lockstep.build(random.Random(seed), [3, 2], 1, settings, "MixedViews", scores=True)
    for slot in range(120):
        if slot == 40:
            for name, learner in network.learners.items():
                learner.try_free_models()
                twin: Any = network.twins[name]
                twin.tries_free = True
        lockstep.play_slot(network, slot, max_delay=4)
    lockstep.compare_ledgers(network)
    saved = network.learners["site0"].state()
    assert Learner.from_state(saved).ledger.site[col.SCORES] == col.SOME_FREE
    saved.arrays["site"][col.SCORES] = col.ONLY_USED
    with pytest.raises(StateError):
        Learner.from_state(saved)
