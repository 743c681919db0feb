"""Problems with known accuracies are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from research.lipschitz import FLOOR, SIDE, LipschitzProblem

from cosend import CoS, simulate
from research import lipschitz as problems

APART = LipschitzProblem(
    functions=(2, 1, 2), dimensions=2, alpha=0.5, call_cost=0.1, contexts="concentrated", arrivals="heterogeneous"
)
KINDS = [
    LipschitzProblem(functions=(2, 2)),
    LipschitzProblem(functions=(1, 3), dimensions=3, alpha=0.5, call_cost=0.2),
    LipschitzProblem(functions=(2, 1), contexts="concentrated", lipschitz=3.0),
    LipschitzProblem(functions=(2, 1), arrivals="heterogeneous"),
    APART,
]


@pytest.mark.parametrize("problem", KINDS, ids=repr)
def test_accuracies_are_hoelder_with_the_given_constants(problem: LipschitzProblem) -> None:
    random = np.random.default_rng(5)
    here, there = random.random((2, 2_000, problem.dimensions))
    apart = np.linalg.norm(here - there, axis=1)[:, None]
    differences = np.abs(problem.accuracies(here) - problem.accuracies(there))
    assert (differences <= problem.lipschitz * apart**problem.alpha + 1e-12).all()
    assert differences.max() > 0.1  # they do differ


def test_concentrated_contexts_stay_in_a_cube_of_their_stream() -> None:
    contexts, _ = APART.stream(500)
    assert APART.corners().shape == (3, 2)
    for site, corner in enumerate(APART.corners()):
        own = APART.contexts_at(contexts, site)
        assert (own >= corner).all()
        assert (own <= corner + SIDE).all()
        assert np.ptp(own, axis=0).min() > 0.9 * SIDE
    assert len(np.unique(APART.corners(), axis=0)) == 3


@pytest.mark.parametrize("problem", KINDS, ids=repr)
@pytest.mark.parametrize("site", [0, 1])
def test_losses_by_hand(problem: LipschitzProblem, site: int) -> None:
    """Slot by slot and without arrays: the best arm's value minus the value of the function that answered."""
    slots = 300
    contexts, gains = problem.stream(slots, seed=1)
    items = problem.items(slots)
    trace = simulate(problem.learners(CoS(horizon=slots), 1), contexts, gains, items=items)
    places, heights = problem.peaks()
    owners = np.repeat(np.arange(problem.sites), problem.functions)
    for slot, loss in enumerate(problem.losses(contexts, trace, site)):
        x = contexts[items[slot, site]]
        values = []
        for place, height, owner in zip(places, heights, owners, strict=True):
            distance = float(np.sqrt(sum((a - b) ** 2 for a, b in zip(x, place, strict=True))))
            accuracy = max(FLOOR, height - problem.lipschitz * distance**problem.alpha)
            values.append(accuracy - (0.0 if owner == site else problem.call_cost))
        assert loss == pytest.approx(max(values) - values[trace.functions[slot, site]], abs=1e-12)
        assert loss >= 0
    assert problem.regret(contexts, trace, site)[-1] == pytest.approx(problem.losses(contexts, trace, site).sum())


def test_working_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts, gains = APART.stream(100)
    trace = simulate(APART.learners(CoS(horizon=100)), contexts, gains, items=APART.items(100))
    losses = APART.losses(contexts, trace)
    monkeypatch.setattr(problems, "ROWS_AT_ONCE", 7)
    again = APART.stream(100)
    assert (again[0] == contexts).all()
    assert (again[1] == gains).all()
    assert (APART.losses(contexts, trace) == losses).all()
