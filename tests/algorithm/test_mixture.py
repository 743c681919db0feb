"""`MixedViews` without the compiler: every way through its rules is taken."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from cosend import CellKLUCB, Learner, MixedViews, Patience, simulate
from cosend.algorithm import layout as col
from cosend.algorithm.mixture import scratch_of
from cosend.algorithm.mixture_views import plans_for
from cosend.algorithm.readout import look_at
from cosend.algorithm.state import State
from cosend.algorithm.values import Answer, AskPeer, Choice, LabelledData, Phase
from cosend.errors import ContextError, DecisionError, SettingError, StateError
from tests.policies import choose, everything, new_learner

NOTHING = float("nan")


@pytest.mark.parametrize(
    ("axes", "codes", "score_local", "adds_up"),
    [
        (1, [], "all", True),
        (2, [1], "used", False),
        (3, [], "all", False),
        (3, [0, 2], "used", True),
        (14, [3], "all", True),
    ],
)
def test_batches_are_as_one_by_one_while_arms_come_and_go(
    axes: int, codes: list[int], score_local: Any, adds_up: bool
) -> None:
    """Beside it, what is saved and loaded goes on as if it had never stopped."""
    options: dict[str, Any] = {"dimensions": axes, "categories": codes, "score_local": score_local}
    options |= {"policy": MixedViews(adds_up=adds_up), "improving": ["b"]}
    patience = Patience(wait_limit=9, overdue=0.5)
    one, many = mixed(patience=patience, **options), mixed(patience=patience, **options)
    draw = random.Random(axes)
    for turn in range(14):
        points = [
            tuple(float(draw.randrange(3)) if axis in codes else draw.random() for axis in range(axes))
            for _ in range(3)
        ]
        made = [choose(one, point) for point in points]
        batch = many.choose_many(points).choices
        assert [(choice.id, choice.arm, choice.cell) for choice in batch] == [
            (choice.id, choice.arm, choice.cell) for choice in made
        ]
        ids, gains = [choice.id for choice in made[:2]], [draw.choice([0.0, 1.0, 0.4]) for _ in range(2)]
        for ticket, gain in zip(ids, gains, strict=True):
            one.learn(ticket, gain)
        many.learn_many(ids, gains)
        for learner in (one, many):
            flags = [(True, True), (False, False)]
            asked: dict[str, Any] = {"caller": "there", "requests": [2 * turn, 2 * turn + 1], "flags": flags}
            first, _ = learner.answer_many(points[:2], **asked)
            assert first.ticket is not None
            learner.learn(first.ticket, 1.0, None, {"b" if first.function != "b" else "a": 0.0})
            if turn == 5:
                learner.add_own("late", improves=True)
                learner.add_peer("far", 0.1)
                learner.pause("a")
            if turn == 9:
                learner.resume("a")
                learner.remove("there" if axes == 2 else "dear")
        many = Learner.from_state(many.state())
        assert everything(one) == everything(many)


def mixed(policy: MixedViews | None = None, patience: Patience | None = None, **options: Any) -> Learner:
    own, peers = {"a": 0.0, "b": 0.0, "dear": 0.2}, {"there": 0.05}
    given: dict[str, Any] = {"own": own, "peers": peers, "dimensions": 3, "score_local": "all", **options}
    return Learner("here", policy=policy or MixedViews(), patience=patience, seed=3, **given)


def taught(learner: Learner, items: int, seed: int = 1) -> list[Choice]:
    """Choose for items and learn their labels, which score all that costs nothing."""
    draw, made = random.Random(seed), []
    for _ in range(items):
        choice = choose(learner, tuple(draw.random() for _ in range(learner.dimensions)))
        free = [arm for arm, cost in learner.arms.own.items() if not cost and arm != choice.arm]
        learner.learn(choice.id, draw.choice([0.0, 1.0, 0.3]), None, {arm: draw.random() for arm in free})
        made.append(choice)
    return made


def test_the_views_are_those_of_the_specification() -> None:
    counts = [len(plans_for(axes, 0, adds_up=False)) for axes in (1, 2, 3, 12, 13)]
    assert counts == [7, 13, 25, 2 + 36 + 66 * 3 + 2 + 2, 2 + 39 + 2]
    assert [plan.slices for plan in plans_for(1, 1, adds_up=False)] == [1] * 5  # a category has one fineness
    codes = plans_for(6, 0b111111, adds_up=False)
    assert max(len(plan.axes) for plan in codes) == 2  # there are no keys for six categories together


def test_it_answers_reports_and_chooses_again_after_a_state_came_back() -> None:
    learner = mixed(patience=Patience(max_pending=5, overdue=0.5))
    taught(learner, 60)
    for n in range(7):
        choose(learner, (0.1 * n, 0.5, 0.5))
    learner.answer((0.5, 0.5, 0.5), caller="there", request=1, training=False, labelled=True)
    again = Learner.from_state(learner.state())
    assert everything(again) == everything(learner)
    failed = choose(again, (0.9, 0.9, 0.9))
    assert again.choose((0.9, 0.9, 0.9), again=again.fail(failed.id)).id == failed.id + 1  # type: ignore[union-attr]
    again.choose((0.9, 0.9, 0.9), {"there": LabelledData(3, 1)})  # which is nothing to it
    assert again.report((0.9, 0.9, 0.9)).arrivals >= 1
    assert again.report((NOTHING, 0.9, 0.9)).arrivals == again.arrivals  # of all items


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("site", (col.PATTERN,), -1),
        ("cells", (0, col.CELL_KEY), -1),
        ("pending_contexts", (0, 0), -2),
        ("pending_contexts", (0, 0), 10**6),
        ("pending_contexts", (0, 0), NOTHING),
    ],
)
def test_a_damaged_state_is_refused(name: str, place: tuple[int, ...], value: float) -> None:
    learner = mixed()
    taught(learner, 10)
    choose(learner, (0.1, 0.1, 0.1))
    state = learner.state()
    state.arrays[name][place] = value
    with pytest.raises(StateError):
        Learner.from_state(State(state.facts, state.arrays))


def test_it_does_without_numbers_and_explains_what_it_forecasts() -> None:
    learner = mixed()
    fresh = learner.answer((0.5, 0.5, 0.5), caller="there", request=1, training=False)
    assert isinstance(fresh, Answer)
    assert learner.cells() == {}
    taught(learner, 80)
    for context in ((NOTHING, 0.5, 0.5), (0.5, NOTHING, 0.5), (NOTHING,) * 3):
        assert not isinstance(learner.choose(context), AskPeer)
    explained = learner.explain((NOTHING, 0.5, 0.5))
    assert sum(each.view.share for each in explained) == pytest.approx(1.0)
    assert set(explained[0].forecasts) == set(learner.arms.names)
    with pytest.raises(ContextError):
        learner.explain((2.0, 0.5, 0.5))
    with pytest.raises(SettingError, match="mixes views"):
        new_learner(CellKLUCB(slices=1)).explain((0.5, 0.5))
    key = next(iter(learner.cells()))
    assert look_at(learner.ledger, dict(zip(learner.arms.names, learner.arms.costs, strict=True)), key) is not None


def test_an_arm_that_left_is_forgotten_with_the_patterns_it_was_part_of() -> None:
    learner = mixed()
    taught(learner, 30)
    choose(learner, (0.5, 0.5, 0.5))
    answer = learner.answer((0.5, 0.5, 0.5), caller="there", request=1, training=True)
    assert answer.ticket is not None
    before = learner.ledger.counts.copy()
    learner.withdraw(answer.ticket)  # nothing was entered for it
    assert np.array_equal(learner.ledger.counts, before)
    learner.add_own("new")
    learner.remove("new")
    assert learner.ledger.site[col.PATTERN] > 0
    learner.remove("b")
    assert learner.ledger.site[col.PATTERN] == 0
    taught(learner, 10)
    with pytest.raises(SettingError):
        MixedViews(max_cells=0)
    with pytest.raises(SettingError):
        MixedViews(share_labels="sometimes")  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "codes", "steps"), [(0, [], (2, 3)), (2, [1], (3, 9)), (0, [], (13, 1))])
@pytest.mark.parametrize("adds_up", [False, True])
def test_features_get_axes_while_labels_are_awaited(
    given: int, codes: list[int], steps: tuple[int, int], adds_up: bool
) -> None:
    """What is saved and loaded meanwhile goes on as if it had never stopped; values of features have cells."""
    learner = mixed(MixedViews(adds_up=adds_up), dimensions=given, categories=codes)
    draw = random.Random(given)
    for step, count in enumerate((0, *steps)):
        if count:
            waits = choose(learner, _somewhere(learner, draw, codes))
            learner.add_axes(count)
            learner = Learner.from_state(learner.state())
            learner.learn(waits.id, 1.0, None, {"b" if waits.arm != "b" else "a": 0.0})
        for _ in range(90 if step == 1 else 12):
            choice = choose(learner, _somewhere(learner, draw, codes))
            learner.learn(choice.id, draw.choice([0.0, 1.0]))
        assert learner.dimensions == given + sum(count for count, _, _ in learner.features)
        assert sum(view.share for view in learner.views()) == pytest.approx(1.0)
    assert learner.features == [(count, 0, 0) for count in steps]
    assert 2**20 in {cell.slices for cell in learner.cells().values()}
    assert everything(Learner.from_state(learner.state())) == everything(learner)


@pytest.mark.parametrize("patience", [Patience(max_pending=30, overdue=0.25), Patience(wait_limit=25)])
def test_what_waits_becomes_wider_bit_by_bit_as_if_at_once(patience: Patience, monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes come again before it is done, and meanwhile labels come, decisions expire and models join and leave."""
    monkeypatch.setattr("cosend.algorithm.pending.WIDENED", 2)
    monkeypatch.setattr("cosend.algorithm.pending.LOOKED_FOR", 5)
    options: dict[str, Any] = {"own": {"a": 0.0, "b": 0.0}, "dimensions": 0, "policy": MixedViews()}
    bits, whole = (Learner("here", **options, patience=patience, score_local="all") for _ in range(2))
    draw, most = random.Random(7), 0

    def both(verb: str, *arguments: Any) -> None:
        one, other = getattr(bits, verb)(*arguments), getattr(whole, verb)(*arguments)
        assert one == other
        whole.registry.widen_all()

    both("add_axes", 2, 4)
    for n in range(600):
        both("choose", _somewhere(whole, draw, []))
        ids = [id for id in range(max(1, whole.last_id - 40), whole.last_id) if id in whole.registry]
        some = draw.sample(ids, min(len(ids), 3))
        if n % 40 in (0, 3, 5) and whole.dimensions < 40:
            changes = n % 40 == 5 and whole.unchanged > 0
            both("add_axes", 1, 0, [0.3] * changes)
        elif draw.random() < 0.3 and some:
            both("learn", some[0], draw.random())
        elif draw.random() < 0.3:
            both("learn_many", some, [draw.random() for _ in some])
        elif draw.random() < 0.1:
            both("withdraw_many", some)
        elif draw.random() < 0.2:
            bits.registry.widen_some()
        elif n % 97 == 0:
            both("remove", "c") if "c" in whole.arms.own else both("add_own", "c")
        most = max(most, len(bits.registry.narrow))
    assert most > 2
    both("take_overdue")
    assert everything(bits) == everything(whole)
    assert bits.registry.narrow == ()


def test_a_learner_for_whom_nothing_waits_has_nothing_to_widen() -> None:
    learner = mixed(dimensions=1)
    waits = choose(learner, (0.5,))
    learner.add_axes(1)
    assert learner.registry.narrow
    learner.learn(waits.id, 1.0)
    with pytest.raises(DecisionError):
        learner.learn(2**70, 1.0)
    learner.registry.widen_some()
    assert not learner.registry.narrow
    learner.add_axes(1)
    assert not learner.registry.narrow


def _somewhere(learner: Learner, draw: random.Random, codes: list[int]) -> tuple[float, ...]:
    lacks = 0.1 if learner.dimensions > 1 else 0.0
    return tuple(
        NOTHING if draw.random() < lacks else float(axis in codes) or 0.3 for axis in range(learner.dimensions)
    )


def test_axes_are_added_to_mixed_views_only_and_not_without_end() -> None:
    for learner, count in ((new_learner(CellKLUCB(slices=1)), 1), (mixed(), 901), (mixed(), 0)):
        with pytest.raises(SettingError, match="axes"):
            learner.add_axes(count)
    with pytest.raises(SettingError, match="at most 52"):
        mixed(dimensions=53)
    with pytest.raises(SettingError, match="can do without a context"):
        Learner("here", own={"a": 0.0}, dimensions=0, policy=CellKLUCB(slices=1))
    wide = mixed(dimensions=1)
    wide.add_axes(300)
    choose(wide, (0.5,) * 301)
    with pytest.raises(ContextError, match="axis 300"):
        wide.choose((0.5,) * 300 + (2.0,))
    small = mixed(MixedViews(max_cells=9), dimensions=0)
    small.add_axes(4)
    taught(small, 20)
    assert len(small.cells()) == 9


@pytest.mark.parametrize("adds_up", [False, True])
def test_features_that_never_changed_count_as_if_they_had_axes(adds_up: bool) -> None:
    """Three features are the same for 20 items, of which one changes then; up to rounding it is all the same.

    In the sum not quite: what stands for finer cells adds up from the first label on, these only from the 32nd.
    """
    policy = MixedViews(adds_up=adds_up)
    options: dict[str, Any] = {"own": {"a": 0.0, "b": 0.0}, "dimensions": 0, "policy": policy, "score_local": "all"}
    lazy, eager = Learner("here", **options), Learner("here", **options)
    lazy.add_axes(12, same=3)
    eager.add_axes(15)
    draw, waiting = random.Random(4), list[int]()
    for n in range(30):
        others, value = tuple(draw.random() for _ in range(12)), 0.9 if n > 20 and n % 2 else 0.3
        if n == 20:
            assert len(lazy.add_axes(1, places=[0.3]).views) == 3
            lazy = Learner.from_state(lazy.state())
        points = (*others, value) if n >= 20 else others, (*others, value, 0.3, 0.3)
        chosen = [choose(learner, point) for learner, point in zip((lazy, eager), points, strict=True)]
        assert chosen[0].arm == chosen[1].arm
        waiting.append(chosen[0].id)
        while len(waiting) > 3:  # some wait while the axis comes
            scores = dict(zip("ab", (draw.choice([0.0, 1.0]), draw.random()), strict=True))
            for learner in (lazy, eager):
                arm = learner.arms.names[learner.look_up([waiting[0]])[1][0][0]]
                learner.learn(waiting[0], scores[arm], None, {name: scores[name] for name in scores if name != arm})
            del waiting[0]
        assert _mixed(lazy, points[0]) == pytest.approx(_mixed(eager, points[1]), abs=2e-3 if adds_up else 1e-12)
    assert len(eager.ledger.views) - len(lazy.ledger.views) == 5  # three of each of two features, less the common one


def _mixed(learner: Learner, point: tuple[float, ...]) -> list[float]:
    explained = learner.explain(point)
    return [sum(each.view.share * each.forecasts[arm] for each in explained) for arm in learner.arms.names]


def test_features_that_never_changed_must_be_there_to_change() -> None:
    learner = mixed(dimensions=0)
    for wrong in ((1, 0, [0.5]), (0, 0), (1, 900)):
        with pytest.raises(SettingError):
            learner.add_axes(*wrong)
    learner.add_axes(0, same=1)
    with pytest.raises(SettingError):
        learner.add_axes(2, 0, [0.5, 0.5])
    learner.add_axes(1, places=[0.5])  # no item has come yet
    taught(learner, 40)
    assert learner.ledger.views[:, col.VIEW_WEIGHT].min() == 0.0  # of the view that stands for none any more
    assert everything(Learner.from_state(learner.state())) == everything(learner)
    state = learner.state()
    state.facts["features"] = [[0, 1, 0], [1, 0, 2]]
    with pytest.raises(StateError):
        Learner.from_state(state)


def test_a_replay_gives_features_axes() -> None:
    draw = random.Random(2)
    items = [{"x": draw.randrange(3), "y": draw.random(), "t": draw.choice("ab")} for _ in range(130)]
    gains = [[float(item["x"] == 1), float(item["t"] == "a"), 0.5] for item in items]
    one = mixed(own={"a": 0.0, "b": 0.0}, peers={"there": 0.0}, dimensions=0)
    there = Learner("there", own={"c": 0.0}, peers={"here": 0.0}, dimensions=0, policy=MixedViews())
    slots = [[n, (n + 3) % 130] for n in range(130)]
    simulate([one, there], np.zeros((130, 0)), gains, items=slots, delay=3, features=items)
    assert one.features == there.features == [(3, 0, 0)]


# The view that adds up


ADDS_UP, WITHOUT = MixedViews(), MixedViews(adds_up=False)


def test_the_scratch_is_as_long_as_what_is_in_it() -> None:
    for policy, axes in ((ADDS_UP, 3), (WITHOUT, 0), (ADDS_UP, 13)):
        ledger = mixed(policy, dimensions=axes).ledger
        parts = getattr(scratch_of, "py_func", scratch_of)(ledger)  # arrays cannot leave compiled code
        assert sum(map(len, parts)) == len(ledger.parameters) - col.PARAMETER_COLUMNS
        assert parts.keeps.ctypes.data + parts.keeps.nbytes == ledger.parameters.ctypes.data + ledger.parameters.nbytes


@pytest.mark.compiled
def test_it_finds_out_what_no_single_axis_says() -> None:
    """Each of 15 axes says a little of which arm is right, all together say it for sure; views see single axes."""
    draw = np.random.default_rng(4)
    contexts = draw.integers(0, 2, (4000, 15)).astype(float)
    first = contexts.sum(axis=1) > 7
    right, errors = np.stack([first, ~first], axis=1).astype(float), {}
    for policy in (WITHOUT, ADDS_UP):
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=15, policy=policy, score_local="all")
        arms = simulate([learner], contexts, right).arms[:, 0]
        errors[policy] = 1 - right[np.arange(4000), arms][2000:].mean()
    assert errors[ADDS_UP] < 0.1 < 0.3 < errors[WITHOUT]


def test_of_an_arm_that_learns_only_the_newest_gains_count() -> None:
    """Both arms become right in the end; one of them learns, and so is believed at once."""
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=1, score_local="all", improving=["b"])
    for n in range(400):
        choice = choose(learner, (0.5,))
        gains = {"a": 0.6, "b": 0.0 if n < 300 else 0.9}
        learner.learn(choice.id, gains.pop(choice.arm), None, gains)
    long_memory = [each for each in learner.explain((0.5,)) if each.view.memory == 1.0 and each.view.axes]
    assert all(each.forecasts["b"] > 0.7 for each in long_memory)
    assert all(each.forecasts["a"] < 0.7 for each in long_memory)
    assert choose(learner, (0.5,)).arm == "b"


@pytest.mark.parametrize(("cost", "free"), [(0.001, False), (0.0, True)])
def test_few_items_are_paid_for_only_to_learn_about_arms(cost: float, free: bool) -> None:
    """Peers that are as good as nothing are tried again and again, where it costs nothing."""
    draw = random.Random(5)
    peers = {f"peer {n}": cost for n in range(8)}
    learner = Learner(
        "here", own={"a": 0.0}, peers=peers, dimensions=1, score_local="all", policy=MixedViews(bonus=3.0)
    )
    explored = 0
    for _ in range(600):
        choice = choose(learner, (draw.random(),))
        explored += choice.phase is Phase.EXPLORE and choice.arm != "a"
        learner.learn(choice.id, 0.5 if choice.arm == "a" else 0.3, None, {} if choice.arm == "a" else {"a": 0.5})
    assert (explored > 60) == free
    assert free or 50 <= explored <= 50 + 600 // 100 + 1


def test_a_choice_that_is_refused_leaves_nothing_to_explain() -> None:
    learner = Learner("s", own={"a": 0.0, "b": 0.1}, dimensions=1, policy=MixedViews(), score_local="used")
    watch = learner.watch()
    with pytest.raises(ContextError):
        learner.choose([2.0])
    assert not watch.worths.size
    learner.choose([0.5])
    assert watch.worths.tolist() == [3.0, 2.9]  # neither was ever tried
