"""`ContextSelection` around every policy and its slow twin, which share no code, agree step by step, exactly."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.core.kernel import columns as col
from tests.examples import examples
from tests.oracle import lockstep, options
from tests.oracle.lockstep import Around, Network
from tests.oracle.views_twin import ViewsTwin

pytestmark = pytest.mark.compiled


@st.composite
def arounds(draw: st.DrawFn, dimensions: int) -> Around:
    """`ContextSelection`, alone or with `ChangeAware` inside or outside."""
    return Around(
        rising=draw(st.sampled_from([None, None, False, True])),
        candidates=draw(options.candidates(dimensions)),
        changes_outside=draw(st.booleans()),
    )


@st.composite
def networks(draw: st.DrawFn, sizes: st.SearchStrategy[list[int]] = options.sizes, dimensions: int = 3) -> Network:
    """Draw a network of any policy with several views."""
    axes = draw(st.integers(1, dimensions))
    policy, chosen = draw(options.policies)
    seed = random.Random(draw(options.seeds))
    network = lockstep.build(seed, draw(sizes), axes, chosen, policy, draw(arounds(axes)))
    network.lasting = draw(options.lasting)
    network.axis = draw(st.sampled_from([None, *range(axes)]))
    return network


def switches(network: Network) -> int:
    """Return at how many sites more than one view has decided."""
    return sum(isinstance(twin, ViewsTwin) and sum(n > 0 for n in twin.decided) > 1 for twin in network.twins.values())


@given(network=networks(), delay=options.delays)
@examples(15)
def test_core_and_twin_agree_on_random_networks(network: Network, delay: int) -> None:
    lockstep.play(network, slots=60, max_delay=delay)


@given(network=networks(dimensions=2), delay=options.delays)
@examples(5)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(network: Network, delay: int) -> None:
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


@given(network=networks(dimensions=2))
@examples(5)
def test_core_and_twin_agree_on_answers_to_a_caller_that_trains(network: Network) -> None:
    """Rewards of answers judge the views too."""
    lockstep.play(network, slots=30, max_delay=1)
    lockstep.train_all(network, requests=30)


@given(network=networks(st.lists(st.integers(1, 3), min_size=1, max_size=2)), delay=st.sampled_from([0, 3]))
@examples(5)
def test_core_and_twin_agree_on_long_streams(network: Network, delay: int) -> None:
    lockstep.play(network, slots=200, max_delay=delay)


@pytest.mark.parametrize("rising", [None, True])
@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        ("CoS", {"slices": 2, "exploration_exponent": 0.05}),
        ("CellKLUCB", {"slices": 2}),
        ("CellThompson", {"slices": 2}),
        ("Zooming", {"alpha": 0.1, "split_after": 20.0, "inherit": 2.0}),
        ("ZoomingKLUCB", {"alpha": 0.3, "inherit": 0.0}),
    ],
)
def test_the_view_that_explains_the_rewards_is_trusted(
    policy: str, chosen: dict[str, Any], rising: bool | None
) -> None:
    """The comparison above would be worth little if the first view were trusted always."""
    network = lockstep.build(random.Random(1), [2, 2], 2, chosen, policy, Around(rising, "auto"))
    network.axis = 1
    lockstep.play(network, slots=400, max_delay=2)
    assert switches(network) == 2
    for learner in network.learners.values():
        assert not learner.views()[0].trusted


@pytest.mark.parametrize("axes", [(), (0,)])
def test_cubes_of_a_view_split_at_the_rate_of_all_axes(axes: tuple[int, ...]) -> None:
    """Level 1 needs 8 arrivals at the rate of no axis, 12 at that of one, 16 at that of two."""
    network = lockstep.build(random.Random(0), [1], 2, {}, "Zooming", Around(None, (axes,)))
    slices = []
    for _ in range(20):
        choice = lockstep.agree(network, "site0", (0.1, 0.1))
        slices.append(network.learners["site0"].cells()[choice.cell].slices)
    assert slices == [1, *[2] * 16, *[4] * 3]


def test_a_label_that_is_entered_nowhere_in_a_view_judges_it_by_the_cell_that_holds_its_context() -> None:
    """The first item waits while a child that holds it is begun in the first view, but not in the second."""
    network = lockstep.build(random.Random(0), [1], 2, {}, "Zooming", Around(None, ((0,), (1,))))
    for context in ((0.1, 0.9), (0.1, 0.1)):
        lockstep.agree(network, "site0", context)
    for decision in (2, 1):
        lockstep.learn(network, "site0", decision, 1.0, None)
    lockstep.compare_ledgers(network)
    assert [view.share for view in network.learners["site0"].views()] == pytest.approx([0.6, 0.4])  # p: 3/4 and 1/2


@pytest.mark.parametrize(("decision", "share"), [(3, 0.6), (4, 0.5)])
def test_a_label_of_an_earlier_phase_judges_by_the_first_step_of_the_present_one(decision: int, share: float) -> None:
    """The view of the time alone has 4 slices by now; the label of item 3, the first of its phase, is in its cell."""
    chosen = {"alpha": 0.01, "time_dimension": True}
    network = lockstep.build(random.Random(0), [1], 1, chosen, "CoS", Around(None, ((), (0,))))
    for x in (0.9, 0.9, 0.1, 0.1):
        lockstep.agree(network, "site0", (x,))
    for late in (decision, 1):
        lockstep.learn(network, "site0", late, 1.0, None)
    lockstep.compare_ledgers(network)
    assert network.learners["site0"].views()[0].share == pytest.approx(share)


def test_max_cells_limits_the_cubes_of_all_views_together() -> None:
    """With room for one cube besides the roots, the first view begins a child and the second does not."""
    network = lockstep.build(random.Random(0), [1], 2, {"max_cells": 3}, "Zooming", Around(None, ((0,), (1,))))
    for _ in range(3):
        lockstep.agree(network, "site0", (0.1, 0.1))
    lockstep.compare_ledgers(network)
    cells = network.learners["site0"].cells().values()
    assert sorted((cell.view, cell.slices) for cell in cells) == [(0, 1), (0, 2), (1, 1)]


def test_the_trusted_view_is_the_first_to_get_a_new_cube() -> None:
    """Only the second axis matters, so the second view is trusted when the last cube that has room is begun."""
    chosen = {"alpha": 0.05, "split_after": 120.0, "max_cells": 18}
    network = lockstep.build(random.Random(18), [2], 2, chosen, "ZoomingKLUCB", Around(None, ((0,), (1,))))
    network.axis = 1
    lockstep.play(network, slots=500, max_delay=1)
    assert network.learners["site0"].ledger.site[col.TRUSTED] == 1
    assert len(network.learners["site0"].cells()) == 18
