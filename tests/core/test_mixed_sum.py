"""The view that adds up: it is there unless a policy does without, and is worth having where features add up."""

from __future__ import annotations

import numpy as np
import pytest

from cosend import Learner, MixedViews, replay
from cosend.core.kernel import columns as col
from cosend.core.kernel.mixed_scratch import scratch_of
from cosend.core.kernel.mixed_sum import SUM_VIEW, adds_up, chance_of
from cosend.core.policy.mixed import plans_for
from cosend.errors import StateError
from tests.core.test_mixed import mixed, taught
from tests.policies import choose, everything

ADDS_UP, WITHOUT = MixedViews(), MixedViews(adds_up=False)


def test_it_is_one_view_more_and_all_others_stay() -> None:
    for axes, codes in ((0, 0), (1, 0), (3, 0b10), (13, 1)):
        without, with_it = plans_for(axes, codes, adds_up=False), plans_for(axes, codes, adds_up=True)
        kept = [plan for number, plan in enumerate(with_it) if number != SUM_VIEW]
        assert [plan._replace(up=0) for plan in kept] == [plan._replace(up=0) for plan in without]
        assert [plan.up for plan in kept] == [plan.up + (plan.up >= SUM_VIEW) for plan in without]
    assert adds_up(mixed(ADDS_UP).ledger)
    assert not adds_up(mixed(WITHOUT).ledger)
    assert not adds_up(mixed(WITHOUT, dimensions=0).ledger)


def test_nothing_is_added_up_without_it() -> None:
    without, with_it = mixed(WITHOUT), mixed(ADDS_UP)
    for learner in (without, with_it):
        taught(learner, 40)
    assert not without.ledger.rewards[..., col.EVIDENCE].any()
    assert with_it.ledger.rewards[..., col.EVIDENCE].any()
    short = with_it.ledger.rewards[0, :, col.EVIDENCE]  # of the first view, whose memory is short
    assert not short.any()


def test_a_label_moves_the_forecast_of_the_sum_towards_the_gain_and_no_other_arm() -> None:
    learner, point = mixed(ADDS_UP), (0.1, 0.5, 0.9)
    assert set(sum_of(learner, point).values()) == {0.5}
    choice = choose(learner, point)
    learner.learn(choice.id, 1.0, None, {"b" if choice.arm != "b" else "a": 0.0})
    after = sum_of(learner, point)
    known = 0.5 * 8 / 9  # 1 - 0.5, shared by nine rows; that of the pattern is another one now
    assert after[choice.arm] == pytest.approx(chance_of(known))
    assert after["b" if choice.arm != "b" else "a"] == pytest.approx(chance_of(-known))
    assert sorted(after.values())[1:-1] == [0.5, 0.5]
    assert (chance_of(1e9), chance_of(-1e9)) == (chance_of(30.0), chance_of(-30.0))


def test_rows_with_few_labels_take_most_of_a_step() -> None:
    learner = Learner("here", own={"a": 0.0}, dimensions=3, policy=ADDS_UP, score_local="all")
    for _ in range(30):
        learner.learn(choose(learner, (0.1, 0.1, 0.1)).id, 1.0)
    of_all, begun = learner.ledger.rewards[1, 0, col.EVIDENCE], learner.ledger.site[col.ROWS]
    learner.learn(choose(learner, (0.9, 0.9, 0.9)).id, 0.0)
    moved = of_all - learner.ledger.rewards[1, 0, col.EVIDENCE]
    new = learner.ledger.rewards[begun : learner.ledger.site[col.ROWS], 0, col.EVIDENCE]
    assert len(new) >= 7
    assert -new == pytest.approx(31 * moved)  # thirty labels and one, against one


def test_the_scratch_is_as_long_as_what_is_in_it() -> None:
    for policy, axes in ((ADDS_UP, 3), (WITHOUT, 0), (ADDS_UP, 13)):
        ledger = mixed(policy, dimensions=axes).ledger
        parts = getattr(scratch_of, "py_func", scratch_of)(ledger)  # arrays cannot leave compiled code
        assert sum(map(len, parts)) == len(ledger.parameters) - col.PARAMETER_COLUMNS
        assert parts.steps.ctypes.data + parts.steps.nbytes == ledger.parameters.ctypes.data + ledger.parameters.nbytes


def sum_of(learner: Learner, point: tuple[float, ...]) -> dict[str, float]:
    (explained,) = [each for each in learner.explain(point) if each.view.is_sum]
    return dict(explained.forecasts)


def test_a_state_says_whether_there_is_one() -> None:
    for policy in (ADDS_UP, WITHOUT):
        learner = mixed(policy)
        taught(learner, 20)
        choose(learner, (0.1, 0.1, 0.1))
        assert everything(Learner.from_state(learner.state())) == everything(learner)
        state = learner.state()
        state.facts["policy"]["adds_up"] = not policy.adds_up
        with pytest.raises(StateError):
            Learner.from_state(state)


@pytest.mark.compiled
def test_it_finds_out_what_no_single_axis_says() -> None:
    """Each of 15 axes says a little of which arm is right, all together say it for sure; views see single axes."""
    draw = np.random.default_rng(4)
    contexts = draw.integers(0, 2, (4000, 15)).astype(float)
    first = contexts.sum(axis=1) > 7
    right, errors = np.stack([first, ~first], axis=1).astype(float), {}
    for policy in (WITHOUT, ADDS_UP):
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=15, policy=policy, score_local="all")
        arms = replay([learner], contexts, right).arms[:, 0]
        errors[policy] = 1 - right[np.arange(4000), arms][2000:].mean()
    assert errors[ADDS_UP] < 0.1 < 0.3 < errors[WITHOUT]
