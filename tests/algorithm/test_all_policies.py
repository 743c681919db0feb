"""What holds exactly for every policy: in batches, saved and restored, with arms that come and go, and looked into."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import CoS, Learner, Patience, ZoomingKLUCB
from cosend.algorithm import layout as col
from cosend.algorithm.policies import Policy
from cosend.algorithm.state import State
from cosend.algorithm.values import AskPeer, Choice, LabelledData
from cosend.errors import ContextError, StateError
from cosend.store.state_file import read_state, write_state
from tests.policies import POLICIES, choose, everything, new_learner, told_of

named = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
TRAINING_FIRST = CoS(slices=60, order="train_first")
RIGHT: Any = {"a": 0.35, "b": 0.75, "there": 0.6, "far": 0.5}


def gain_of(draw: random.Random, arm: str) -> float:
    return float(draw.random() < RIGHT.get(arm, 0.9))


def context_of(draw: random.Random) -> tuple[float, float]:
    return (draw.random() ** 2, draw.choice([0.0, 0.25, 1.0]))


def step(learners: list[Learner], draw: random.Random, late: float = 0.75) -> None:
    """Let learners that should be the same choose, answer, withdraw and learn late, and compare what they say."""
    context = context_of(draw)
    made = [told_of(choose(learner, context)) for learner in learners]
    assert len(set(made)) == 1
    if draw.random() < 0.2:
        training, labelled = draw.random() < 0.5, draw.random() < 0.5
        request = learners[0].arrivals
        call: dict[str, Any] = {"caller": "far", "request": request, "training": training, "labelled": labelled}
        assert len({learner.answer(context, **call) for learner in learners}) == 1
    assert len({learner.report(context) for learner in learners}) == 1
    for decision in learners[0].registry.ids():
        if draw.random() > late:
            arm = learners[0].arms.names[learners[0].look_up([decision])[1][0][0]]
            gain, cost = gain_of(draw, arm), draw.choice([None, None, 0.2])
            for learner in learners:
                learner.learn(decision, gain, cost)
        elif draw.random() < 0.05:
            for learner in learners:
                learner.withdraw(decision)


@named
@pytest.mark.parametrize("patience", [None, Patience(wait_limit=6, max_pending=9, overdue=0.5)], ids=["", "limits"])
def test_in_batches_is_as_one_by_one(policy: Policy, patience: Patience | None) -> None:
    draw = random.Random(5)
    single, batched = new_learner(policy, patience), new_learner(policy, patience)
    for _ in range(25):
        contexts = [context_of(draw) for _ in range(draw.randint(1, 8))]
        expected = [choose(single, context) for context in contexts]
        made: list[Choice] = []
        told: dict[str, LabelledData] = {}
        while len(made) < len(contexts):
            batch = batched.choose_many(contexts[len(made) :], told)
            told = {} if batch.choices else told
            made += batch.choices
            if batch.ask is not None:
                told[batch.ask.peer] = LabelledData(batched.arrivals // 2, 1)
        assert [told_of(each) for each in made] == [told_of(each) for each in expected]
        known = [choice for choice in made if choice.id in single.registry and draw.random() < 0.7]
        gains = [gain_of(draw, choice.arm) for choice in known]
        for choice, gain in zip(known, gains, strict=True):
            single.learn(choice.id, gain)
        batched.learn_many([choice.id for choice in known], gains)
        assert everything(batched) == everything(single)


@named
def test_many_labels_with_scores_are_as_one_by_one(policy: Policy) -> None:
    one, many = new_learner(policy), new_learner(policy)
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
        for id, gain, scores in zip(ids, gains, others, strict=True):
            one.learn(id, gain, None, scores)
        many.learn_many(ids, gains, None, others)
        assert everything(one) == everything(many)


@named
def test_saved_and_restored_goes_on_as_if_it_had_never_stopped(policy: Policy, tmp_path: Path) -> None:
    """In memory and through a file, more than once, with labels that wait."""
    draw = random.Random(6)
    steady, copied, filed = (new_learner(policy, Patience(wait_limit=9)) for _ in range(3))
    for n in range(110):
        if n % 30 == 20:
            assert steady.pending_count > 0
            copied = Learner.from_state(copied.state())
            write_state(filed.state(), tmp_path / "here.npz")
            filed = Learner.from_state(read_state(tmp_path / "here.npz"))
        step([steady, copied, filed], draw)
    assert everything(copied) == everything(filed) == everything(steady)


@named
def test_what_was_decided_can_be_entered_again_without_deciding(policy: Policy) -> None:
    """As a fold of events does it: with questions, reports, answers, late labels and decisions that expire."""
    draw, patience = random.Random(12), Patience(wait_limit=40)
    decides, enters = new_learner(policy, patience), new_learner(policy, patience)
    for n in range(80):
        context, told = context_of(draw), dict[str, LabelledData]()
        point = np.array([context])
        while isinstance(made := decides.choose(context, told), AskPeer):
            enters.enter_question(point[0], again=0)
            told[made.peer] = LabelledData(n // 2, 1)
            enters.enter_told(point[0], told)
        enters.enter(point, np.array([enters.arms.number(made.arm)]), np.array([made.phase.value]), np.array([0]))
        if n % 3 == 0:
            answer = decides.answer(context, caller="far", request=n, training=True)
            enters.enter_answers(point, np.array([enters.arms.number(answer.function)]))
        if n > 50:
            for learner in (decides, enters):
                learner.learn(learner.registry.ids()[n % 5], 1.0)
    assert everything(enters) == everything(decides)


@named
def test_arms_that_join_and_leave_take_nothing_from_the_others(policy: Policy) -> None:
    """An arm that joins, is never used and leaves again, is as if it had never been; one that leaves is forgotten."""
    draw = random.Random(7)
    learner, twin = new_learner(policy), new_learner(policy)
    for _ in range(40):
        step([learner, twin], draw)
    learner.add_own("new", 0.3)
    learner.add_peer("newer", 0.2, functions=4)
    known = learner.cells()
    assert all(cell.estimates["new"][1:] == (0, 0, 0) for cell in known.values())
    learner.remove("new")
    learner.remove("newer")
    assert everything(learner) == everything(twin)
    for each in (learner, twin):
        dropped = each.remove("there")
        assert not set(dropped) & set(each.registry.ids())
        each.add_own("c", 0.05)
        each.set_cost("far", 0.0)
    for _ in range(60):
        step([learner, twin], draw)
    restored = Learner.from_state(learner.state())
    for _ in range(30):
        step([learner, twin, restored], draw)
    assert everything(restored) == everything(twin) == everything(learner)


@named
def test_who_has_seen_nothing_reports_nothing_and_an_answer_without_label_changes_nothing(policy: Policy) -> None:
    learner = new_learner(policy)
    before = everything(learner)
    assert learner.report((0.3, 0.3)) == (0, 0)
    answer = learner.answer((0.3, 0.3), caller="far", request=1, training=False)
    assert answer.function in ("a", "b")
    assert answer.ticket is None
    assert everything(learner) == before
    assert learner.cells() == {}


def test_a_peer_may_be_asked_for_the_last_cell_there_is_room_for() -> None:
    """Asking opens the cell; the ledger must grow before the reply can be entered."""
    learner = Learner("here", own={"a": 0.0}, peers={"there": 0.1}, policy=TRAINING_FIRST)
    for n in range(60):
        assert isinstance(learner.choose(n / 60), AskPeer)
        assert isinstance(learner.choose(n / 60, {"there": LabelledData(2**40, 0)}), Choice)
    assert learner.arrivals == 60


BAD_POINTS: list[Any] = [(float("nan"), 0.5), (0.5, float("inf")), (0.5, 1.0000001), (-1e-9, 0.5)]
BAD_POINTS += [
    (0.5,),
    "no",
    None,
    [],
]
BAD_POINTS += [[[0.1, 0.1]], 0.5]


@named
def test_a_context_that_is_none_is_refused_and_changes_nothing(policy: Policy) -> None:
    draw = random.Random(10)
    learner, twin = new_learner(policy), new_learner(policy)
    for _ in range(30):
        step([learner, twin], draw)
    before = everything(learner)
    call: dict[str, Any] = {"caller": "far", "request": 1, "training": True}
    for bad in BAD_POINTS[1 if policy.mixes else 0 :]:  # mixed views can do without a number
        for refused in (
            lambda bad=bad: learner.choose(bad),
            lambda bad=bad: learner.choose_many([(0.5, 0.5), bad]),
            lambda bad=bad: learner.report(bad),
            lambda bad=bad: learner.answer(bad, **call),
        ):
            with pytest.raises(ContextError):
                refused()
            assert everything(learner) == before
    for _ in range(10):
        step([learner, twin], draw)


@pytest.fixture(scope="module")
def whole() -> State:
    """Return a state with cubes and labels that wait."""
    learner, draw = new_learner(ZoomingKLUCB(alpha=0.5)), random.Random(11)
    for _ in range(60):
        step([learner], draw)
    assert learner.pending_count > 0
    return learner.state()


UNSAFE: list[tuple[str, Any, Any]] = [
    ("site", col.VIEWS, 2),
    ("site", col.DIMENSIONS, 40),
    ("site", col.RULE, 2),
    ("site", col.STEADY, 1),
    ("site", col.OWN_COUNT, 9),
    ("site", col.ROWS, 10**6),
    ("views", (0, col.VIEW_SLICES), np.nan),
    ("views", (0, col.VIEW_SLICES), 1e300),
    ("cells", (3, col.CELL_KEY), -(10**12)),
    ("pending_contexts", (0, 1), np.nan),
    ("pending_contexts", (0, 1), -0.5),
    ("pending", (0, 2), 4),
    ("pending", (0, 2), -1),
]


@pytest.mark.parametrize(("array", "place", "value"), UNSAFE)
def test_a_state_that_would_lead_compiled_code_astray_is_refused(
    array: str, place: Any, value: Any, whole: State
) -> None:
    """It does not look where it reads."""
    changed = whole.arrays[array].copy()
    changed[place] = value
    with pytest.raises(StateError, match="damaged"):
        Learner.from_state(State(whole.facts, {**whole.arrays, array: changed}))


@pytest.mark.parametrize("array", ["site", "cells", "rewards", "counts", "views", "pending", "pending_contexts"])
def test_an_array_of_another_shape_or_kind_is_refused(array: str, whole: State) -> None:
    given = whole.arrays[array]
    for changed in (given[:-1], given[..., :-1], given[..., :1], given[None], given.ravel()[:0], given.astype("U9")):
        with pytest.raises(StateError, match="damaged"):
            Learner.from_state(State(whole.facts, {**whole.arrays, array: changed}))


@pytest.mark.parametrize("name", ["Zooming", "CellKLUCB", "MixedViews"])
def test_a_state_does_not_fit_another_policy(name: str, whole: State) -> None:
    facts = {**whole.facts, "policy": POLICIES[name].facts()}
    with pytest.raises(StateError, match="damaged"):
        Learner.from_state(State(facts, whole.arrays))


def test_a_question_that_is_entered_visits_the_cell_that_a_choice_visits_before_it_asks() -> None:
    """Also where the ledger must grow for it first."""
    asks, enters = (new_learner(TRAINING_FIRST) for _ in range(2))
    draw = random.Random(8)
    rows = len(enters.ledger.cells)
    for _ in range(3 * rows):
        context = (draw.random(), draw.random())
        assert isinstance(asks.choose(context), AskPeer)
        enters.enter_question(np.array(context), again=0)
    assert len(enters.ledger.cells) > rows
    assert everything(asks) == everything(enters)
