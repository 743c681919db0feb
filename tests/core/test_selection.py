"""Which part of a context to trust: the one that foretells rewards, and only that one decides."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from cosend.core.kernel import columns as col
from cosend.core.kernel import selection
from cosend.core.kernel.ledger import EMPTY, Ledger, new_ledger
from cosend.core.learner.learner import Learner
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import (
    CellKLUCB,
    CellThompson,
    ChangeAware,
    ContextSelection,
    CoS,
    Zooming,
    ZoomingKLUCB,
)
from tests.policies import choose

INSIDE: dict[str, Policy] = {
    "CoS": CoS(slices=4, exploration_exponent=0.05),
    "CellKLUCB": CellKLUCB(slices=4),
    "CellThompson": CellThompson(slices=4),
    "Zooming": Zooming(split_after=8.0, alpha=0.5, inherit=2.0),
    "ZoomingKLUCB": ZoomingKLUCB(),
    "ChangeAware": ChangeAware(ZoomingKLUCB(), rising=True),
}


def selecting(policy: Policy, useful: int, dimensions: int = 3, items: int = 600, seed: int = 1) -> tuple[Learner, int]:
    """Play two arms of which one is right above and one below the middle of one axis; returns the last right ones."""
    learner, draw = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=dimensions, policy=policy), random.Random(seed)
    right = 0
    for n in range(items):
        context = [draw.random() for _ in range(dimensions)]
        choice = choose(learner, context)
        gain = float((choice.arm == "a") == (context[useful] < 0.5))
        right += n >= items - 100 and gain > 0
        learner.learn(choice.id, gain)
    return learner, int(right)


@pytest.mark.compiled
@pytest.mark.parametrize("useful", [0, 2])
@pytest.mark.parametrize("inside", INSIDE)
def test_the_axis_that_tells_something_wins(inside: str, useful: int) -> None:
    learner, right = selecting(ContextSelection(INSIDE[inside]), useful)
    views = learner.views()
    assert {view.axes for view in views} == {(0,), (1,), (2,), (0, 1, 2)}
    assert [view.axes for view in views if view.trusted] == [(useful,)]
    assert next(view.share for view in views if view.trusted) > 0.99
    assert sum(view.share for view in views) == pytest.approx(1.0)
    assert sum(view.decided for view in views) == 600
    assert right > 80


def test_a_view_without_axes_wins_where_no_axis_tells_anything() -> None:
    draw = random.Random(2)
    policy = ContextSelection(CellKLUCB(slices=6), ((0, 1), (0,), ()))
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=2, policy=policy)
    for _ in range(800):
        choice = choose(learner, (draw.random(), draw.random()))
        learner.learn(choice.id, float(draw.random() < (0.8 if choice.arm == "a" else 0.3)))
    assert [view.axes for view in learner.views() if view.trusted] == [()]


def test_two_axes_together_win_where_neither_tells_anything_alone() -> None:
    """Right is arm a where both are high or both low: each axis alone sees a fair coin."""
    draw = random.Random(3)
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=2, policy=ContextSelection(CellKLUCB(slices=2)))
    for _ in range(600):
        context = (draw.random(), draw.random())
        choice = choose(learner, context)
        learner.learn(choice.id, float((choice.arm == "a") == ((context[0] < 0.5) == (context[1] < 0.5))))
    assert [view.axes for view in learner.views() if view.trusted] == [(0, 1)]


def test_the_first_candidate_is_trusted_until_another_leads_by_enough() -> None:
    ledger = new_ledger(1, views=3)
    ledger.site[col.CANDIDATES] = 2
    ledger.views[2, col.VIEW_LOSS] = -99.0  # the view that a prior comes from is no candidate
    lead = selection.LEAD
    for loss, trusted in ((0.0, 0), (-lead, 0), (-lead - 0.001, 1), (lead - 0.1, 1), (lead + 0.001, 0)):
        ledger.views[1, col.VIEW_LOSS] = loss
        selection.reconsider(ledger)
        assert ledger.site[col.TRUSTED] == trusted


@pytest.mark.parametrize(
    ("row", "gain", "loss"),
    [
        (EMPTY, 1.0, math.log(2)),
        (EMPTY, 0.3, math.log(2)),
        (0, 1.0, -math.log(3.5 / 5)),
        (0, 0.0, -math.log(1.5 / 5)),
        (0, 0.5, -0.5 * math.log(3.5 / 5) - 0.5 * math.log(1.5 / 5)),
        (0, 1.4, -math.log(3.5 / 5)),
        (0, -0.4, -math.log(1.5 / 5)),
        (1, 1.0, -math.log(0.5 / 5)),
        (2, 0.0, -math.log(0.5 / 5)),
    ],
)
def test_a_view_loses_by_how_unlikely_it_held_a_reward(row: int, gain: float, loss: float) -> None:
    """Rows of four rewards: three right, none or less, all or more."""
    ledger = new_ledger(1, views=1)
    for n, total in enumerate((3.0, -1.0, 5.0)):
        ledger.rewards[n, 0, [col.REWARD_SUM, col.REWARD_COUNT]] = total, 4.0
    selection.judge(ledger, 0, row, 0, gain)
    assert ledger.views[0, col.VIEW_LOSS] == pytest.approx(loss)


def copies(policy: Policy) -> tuple[Ledger, Learner]:
    learner, _ = selecting(policy, 0, items=200)
    return learner.ledger, learner


def test_a_view_that_is_not_trusted_decides_nothing_whatever_it_says() -> None:
    """The estimates of all other views are turned round, and the choices stay."""
    policy = ContextSelection(CellKLUCB(slices=4))
    (_, learner), (ledger, other) = copies(policy), copies(policy)
    trusted = int(ledger.site[col.TRUSTED])
    for row, cell in enumerate(other.cells().values()):
        if cell.view != trusted:
            ledger.rewards[row] = ledger.rewards[row, ::-1].copy()
    draw = random.Random(4)
    for _ in range(50):
        context = [draw.random() for _ in range(3)]
        assert choose(learner, context) == choose(other, context)


def test_an_answer_and_a_report_come_from_the_view_that_is_trusted() -> None:
    learner, _ = selecting(ContextSelection(CellKLUCB(slices=4)), useful=1)
    (trusted,) = [number for number, view in enumerate(learner.views()) if view.trusted]
    assert learner.views()[trusted].axes == (1,)
    known = [cell.labelled.arrivals for cell in learner.cells().values() if cell.view == trusted]
    for height, arm in ((0.1, "a"), (0.9, "b")):
        for elsewhere in (0.0, 0.5, 1.0):
            context = (elsewhere, height, elsewhere)
            assert learner.answer(context, caller="there", request=1, training=False).function == arm
            reported = learner.report(context)
            assert reported.arrivals in known
            assert reported.arrivals > 100


def test_every_view_learns_from_every_label_whichever_decided() -> None:
    learner, _ = selecting(ContextSelection(CellKLUCB(slices=3)), useful=0, items=150)
    for view in range(4):
        cells = [cell for cell in learner.cells().values() if cell.view == view]
        assert sum(known.reward_count for cell in cells for known in cell.estimates.values()) == 150


def test_trainings_judge_no_view() -> None:
    """What a peer in training got right says nothing about an estimate."""
    policy = ContextSelection(CoS(slices=2, order="train_first", exploration_exponent=0.3))
    learner = Learner("here", own={"a": 0.0}, peers={"there": 0.0}, dimensions=2, policy=policy)
    choose(learner, (0.5, 0.5))  # the quota of the first step is 0
    choice = choose(learner, (0.9, 0.1))
    entries = learner.registry.table.entries
    entries[entries[:, col.WAIT_ID] == choice.id, col.WAIT_ARM : col.WAIT_KIND + 1] = 1
    learner.ledger.counts[:, 1, col.TRAINING_WAITING] += 1
    learner.learn(choice.id, 1.0)
    assert not learner.ledger.views[:, col.VIEW_LOSS].any()
    assert [view.share for view in learner.views()] == pytest.approx([1 / 3] * 3)


def test_one_candidate_has_all_the_trust_and_is_not_judged() -> None:
    views: list[Any] = []
    for policy in (ContextSelection(CellKLUCB(slices=2), ((0,),)), CellKLUCB(slices=2)):
        learner, _ = selecting(policy, useful=0, items=50)
        views.append(learner.views())
        assert [(view.trusted, view.share, view.decided) for view in views[-1]] == [(True, 1.0, 50)]
    assert [view[0].axes for view in views] == [(0,), (0, 1, 2)]


def test_a_single_candidate_is_as_a_context_of_those_axes() -> None:
    policy = CellKLUCB(slices=3)
    chosen = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=2, policy=ContextSelection(policy, ((1,),)))
    plain = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=1, policy=policy)
    draw = random.Random(5)
    for _ in range(100):
        context = (draw.random(), draw.random())
        choice = choose(chosen, context)
        assert choose(plain, context[1]) == choice
        gain = float((choice.arm == "a") == (context[1] < 0.5))
        for learner in (chosen, plain):
            learner.learn(choice.id, gain)
