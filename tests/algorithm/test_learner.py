"""A learner, case by case: what the properties and the twin do not pin down."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosend import CellKLUCB, CoS, Learner, Patience, Zooming, simulate
from cosend.algorithm import layout as col
from cosend.algorithm.policies import how_to_decide
from cosend.algorithm.readout import look_at
from cosend.algorithm.state import State
from cosend.algorithm.values import AskPeer, Choice, LabelledData, Phase
from cosend.errors import (
    ArmError,
    ContextError,
    RewardError,
    SettingError,
    SettledDecision,
    StateError,
)
from tests.policies import POLICIES, choose, everything, new_learner


def pick(learner: Learner, context: Any = 0.5) -> Choice:
    choice = learner.choose(context)
    assert isinstance(choice, Choice)
    return choice


def alone(**options: Any) -> Learner:
    return Learner("here", own={"a": 0.0, "b": 0.0}, policy=CoS(slices=2, exploration_exponent=0.01), **options)


def snapshot(learner: Learner) -> tuple[Any, ...]:
    facts, arrays = learner.state()
    return facts, {name: array.tolist() for name, array in arrays.items()}


def test_first_items_explore_each_arm_then_the_best_is_exploited() -> None:
    learner = alone()
    for _ in range(200):
        choice = pick(learner)
        learner.learn(choice.id, 1.0 if choice.arm == "b" else 0.0)
    assert pick(learner) == Choice(201, Phase.EXPLOIT, "b", 1, 1.0)
    estimates = learner.cells()[1].estimates
    assert estimates["b"].mean_reward == 1.0
    assert estimates["a"].mean_reward == 0.0
    assert estimates["a"].reward_count <= math.log(200) * 200**0.01 + 1


def test_a_cheaper_arm_wins_over_a_slightly_better_one_and_costs_may_change() -> None:
    learner = Learner("here", own={"a": 0.3, "b": 0.0}, policy=CoS(slices=1, exploration_exponent=0.01))
    for _ in range(300):
        choice = pick(learner)
        learner.learn(choice.id, 1.0 if choice.arm == "a" else 0.9)
    assert pick(learner).arm == "b"
    learner.set_cost("a", 0.0)
    assert pick(learner).arm == "a"


def test_no_contexts_are_no_choices_whatever_was_told() -> None:
    learner = Learner("here", own={"a": 0.0}, peers={"b": 0.0})
    before = snapshot(learner)
    assert learner.choose_many([], {"b": LabelledData(3, 1)}) == ([], None)
    assert snapshot(learner) == before
    assert not learner._asked.any()


def test_asking_changes_nothing_but_the_cached_count() -> None:
    learner = Learner("here", own={"a": 0.0}, peers={"there": 0.0}, policy=CoS(slices=1, order="train_first"))
    ask = learner.choose(0.5)
    assert ask == AskPeer("there", (0.5,))
    assert learner.arrivals == learner.pending_count == 0
    assert learner.choose(0.5) == ask
    assert pick_told(learner, LabelledData(0, 0)).phase is Phase.TRAIN
    assert learner.cells()[0].estimates["there"].training_count == 1


def pick_told(learner: Learner, data: LabelledData) -> Choice:
    choice = learner.choose(0.5, {"there": data})
    assert isinstance(choice, Choice)
    return choice


def test_what_an_unknown_peer_tells_is_refused() -> None:
    learner = alone()
    with pytest.raises(ArmError, match="no peer 'nobody' that could tell anything: it has none"):
        learner.choose(0.5, {"nobody": LabelledData(1, 1)})
    assert pick(learner).id == 1


def test_a_training_count_beyond_all_quotas_saturates() -> None:
    learner = Learner("here", own={"a": 0.0}, peers={"there": 0.0}, policy=CoS(slices=1, order="train_first"))
    learner.choose(0.5)
    pick_told(learner, LabelledData(2**40, 0))
    assert learner.cells()[0].estimates["there"].training_count == 2**31 - 1


def test_hundreds_of_cells_make_the_ledger_grow_within_its_limit() -> None:
    learner = Learner("here", own=dict.fromkeys("abcde", 0.0), dimensions=2, policy=CoS(slices=50))
    for x, y in np.random.default_rng(0).random((3_000, 2)).tolist():
        learner.learn(pick(learner, (x, y)).id, 1.0)
    ledger, cells = learner.ledger, len(learner.cells())
    used = ledger.slots.nbytes + ledger.cells.nbytes + ledger.rewards.nbytes + ledger.counts.nbytes
    assert cells > 1_500
    assert used / (cells * 5) <= 64


def test_doubling_lays_a_finer_partition_and_resets_as_the_paper_does() -> None:
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, policy=CoS(alpha=0.3))
    for n in range(14):
        learner.learn(pick(learner, n / 14).id, 1.0)
    assert learner.ledger.site[[col.EPOCH, col.EPOCH_LENGTH]].tolist() == [2, 8]
    learner.learn(pick(learner).id, 1.0)
    assert learner.ledger.site[[col.EPOCH, col.EPOCH_LENGTH]].tolist() == [3, 16]
    assert sum(cell.labelled.arrivals for cell in learner.cells().values()) == 1


def test_what_is_known_is_carried_over_to_all_finer_cells_however_many() -> None:
    learner = Learner("here", own={"a": 0.0}, dimensions=2, policy=CellKLUCB())
    for x, y in np.random.default_rng(0).random((1_100, 2)).tolist():
        learner.learn(pick(learner, (x, y)).id, 1.0)
    cells = learner.cells().values()
    assert len(cells) > 16  # more than there was room for
    assert all(cell.estimates["a"].mean_reward == 1.0 for cell in cells)


def test_a_second_label_is_refused_and_changes_nothing() -> None:
    learner = alone()
    first, second = pick(learner), pick(learner)
    learner.learn(first.id, 1.0)
    before = snapshot(learner)
    calls: list[Callable[[], None]] = [
        lambda: learner.learn(first.id, 0.0),
        lambda: learner.learn_many([second.id, first.id], [1.0, 1.0]),
        lambda: learner.learn_many([second.id, second.id], [1.0, 1.0]),
    ]
    for call in calls:
        with pytest.raises(SettledDecision, match="is not waiting for a label"):
            call()
    assert snapshot(learner) == before


@pytest.mark.parametrize("gain", [math.nan, 1.1, -0.1, "right", None])
def test_gains_and_costs_outside_their_range_are_refused(gain: Any) -> None:
    learner = alone()
    choice = pick(learner)
    before = snapshot(learner)
    with pytest.raises(RewardError, match="gain must be a number in"):
        learner.learn(choice.id, gain)
    if gain is not None:
        with pytest.raises(RewardError, match="cost must be a number in"):
            learner.learn(choice.id, 1.0, cost=gain)
    with pytest.raises(SettingError, match="as many as decisions"):
        learner.learn_many([choice.id], [])
    assert snapshot(learner) == before


def test_whole_numbers_and_truth_values_are_gains_too() -> None:
    learner = alone()
    gains: list[Any] = [1, True, np.float64(1.0), np.int64(1)]
    for gain in gains:
        learner.learn(pick(learner).id, gain)
    assert sum(estimate.reward_count for estimate in learner.cells()[1].estimates.values()) == 4


def test_overdue_decisions_are_dropped_or_get_the_default_reward() -> None:
    dropping, rewarding = alone(patience=Patience(wait_limit=2)), alone(patience=Patience(wait_limit=2, overdue=0.5))
    for learner in (dropping, rewarding):
        for _ in range(4):
            pick(learner)
        assert learner.take_overdue() == [1]
        assert learner.take_overdue() == []
        assert learner.pending_count == 3
    assert sum(e.reward_count for e in dropping.cells()[1].estimates.values()) == 0
    assert sum(e.reward_count for e in rewarding.cells()[1].estimates.values()) == 1


def test_arms_join_and_leave_without_losing_what_is_known_of_the_others() -> None:
    learner = alone()
    for _ in range(50):
        learner.learn(pick(learner).id, 1.0)
    known = learner.cells()[1].estimates["b"]
    learner.add_own("c", 0.1)
    learner.add_peer("there", 0.2, functions=3)
    assert learner.arms.names == ("a", "b", "c", "there")
    assert learner.ledger.site[col.MAX_PEER_FUNCTIONS] == 3
    assert learner.remove("a") == []
    assert learner.cells()[1].estimates["b"] == known
    assert learner.cells()[1].estimates["c"].reward_count == 0
    waiting = pick(learner)
    assert waiting.arm == "c"
    assert learner.remove("c") == [waiting.id]
    with pytest.raises(SettledDecision):
        learner.learn(waiting.id, 1.0)
    with pytest.raises(ArmError, match="'b' is the last classifier"):
        learner.remove("b")
    with pytest.raises(ArmError, match="has an arm 'there' already"):
        learner.add_own("there")
    with pytest.raises(ArmError, match="must have a name"):
        learner.add_own("")


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ArmError, match="needs at least one"):
        Learner("here", own={})
    with pytest.raises(SettingError, match="max_cells"):
        Learner("here", own={"a": 0.0}, dimensions=40, policy=CoS(slices=12))


def test_a_state_of_another_version_or_damaged_is_refused() -> None:
    state = alone().state()
    with pytest.raises(StateError, match="version 99; this cosend reads version 8"):
        Learner.from_state(State({**state.facts, "version": 99}, state.arrays))
    with pytest.raises(StateError, match="damaged"):
        Learner.from_state(State(state.facts, {name: a for name, a in state.arrays.items() if name != "cells"}))
    with pytest.raises(StateError, match="needs at least one"):
        Learner.from_state(State({**state.facts, "own": {}}, state.arrays))
    with pytest.raises(StateError, match="do not fit each other"):
        Learner.from_state(State({**state.facts, "last_id": 7}, state.arrays))


@pytest.mark.parametrize(
    ("contexts", "told"), [([1.5], {}), ([0.5, math.nan], {}), ([1.5], {"there": LabelledData(3, 1)})]
)
def test_points_outside_are_refused_before_anything_is_entered(contexts: list[float], told: Any) -> None:
    learner = Learner("here", own={"a": 0.0}, peers={"there": 0.1}, policy=CoS(slices=2, exploration_exponent=0.01))
    before = snapshot(learner)
    with pytest.raises(ContextError, match=r"axis 0 of a context of site 'here' must be in \[0, 1\]"):
        learner.decide(np.array(contexts)[:, None], told)
    assert snapshot(learner) == before


def test_one_cell_is_looked_at_by_its_key() -> None:
    learner = Learner("here", own={"a": 0.0}, dimensions=1)
    choice = learner.choose((0.5,))
    assert isinstance(choice, Choice)
    cell = look_at(learner.ledger, {"a": 0.0}, choice.cell)
    assert cell == learner.cells()[choice.cell]
    assert look_at(learner.ledger, {"a": 0.0}, choice.cell + 1) is None


def test_a_label_counts_for_every_classifier_that_it_scores() -> None:
    learner = new_learner(POLICIES["CellKLUCB"])
    choice = choose(learner, (0.1, 0.1))
    other = "b" if choice.arm == "a" else "a"
    learner.learn(choice.id, 1.0, None, {other: 0.5})
    known = learner.cells()[choice.cell].estimates
    assert (known[choice.arm].reward_count, known[other].reward_count) == (1, 1)
    assert known[other].mean_reward == 0.5 - learner.arms.own[other]
    assert (known[other].pending_count, known["far"].reward_count) == (0, 0)


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


def test_a_replay_decides_as_a_learner_does_that_asks_and_trains_a_peer() -> None:
    draw = np.random.default_rng(1)
    contexts, gains = draw.random((80, 1)), (draw.random((80, 2)) < 0.6).astype(float)
    policy = CoS(slices=2, exploration_exponent=0.05)
    here, there = (
        Learner(name, own={f"{name} model": 0.0}, peers={peer: 0.1}, policy=policy)
        for name, peer in (("here", "there"), ("there", "here"))
    )
    trace = simulate([here, there], contexts, gains, items=[[n, -1] for n in range(80)])
    arms, twins = (
        [],
        [Learner(each.name, own=each.arms.own, peers=each.arms.peers, policy=policy) for each in (here, there)],
    )
    for context, (mine, theirs) in zip(contexts[:, 0].tolist(), gains.tolist(), strict=True):
        told: dict[str, LabelledData] = {}
        while isinstance(made := twins[0].choose(context, told), AskPeer):
            told["there"] = twins[1].report(context)
        arms.append(twins[0].arms.number(made.arm))
        if made.arm == "there":
            training = made.phase is Phase.TRAIN
            ticket = twins[1].answer(context, caller="here", request=made.id, training=training).ticket
            if ticket is not None:
                twins[1].learn(ticket, theirs)
        twins[0].learn(made.id, theirs if made.arm == "there" else mine)
    assert trace.arms[:, 0].tolist() == arms
    assert {Phase.TRAIN.value, Phase.EXPLOIT.value} <= set(trace.phases[:, 0].tolist())
    assert [everything(each) for each in twins] == [everything(each) for each in (here, there)]


def test_combinations_of_codes_have_trees_of_their_own() -> None:
    learner = Learner("here", own={"a": 0.0}, dimensions=3, categories=[0, 2], policy=Zooming(split_after=1.0))
    for codes in ((0.0, 0.0), (0.0, 4095.0), (7.0, 0.0)):
        for _ in range(3):
            learner.choose((codes[0], 0.9, codes[1]))
    assert sorted(cell.axes for cell in learner.cells().values() if cell.slices == 2) == [
        (0, 1, 0),
        (0, 1, 4095),
        (7, 1, 0),
    ]


def test_small_questions_about_a_learner() -> None:
    learner = alone(patience=Patience(wait_limit=5, max_pending=8))
    assert how_to_decide(None, None)[1] == how_to_decide(None, "all")[1] == "all"
    assert learner.still_pending([]) == []
    assert not learner.registry.may_overflow(5, 0)
    assert learner.registry.may_overflow(6, 0)
    pick(learner)
    assert learner.still_pending([1]) == [1]
    assert repr(learner) == "<Learner 'here': 2 own, 0 peers, 1 items, 1 wait>"
    assert learner.registry.may_overflow(6, 1)
    assert [learner.registry.may_overflow(count, 3) for count in (3, 4, 8)] == [False, True, True]
    with pytest.raises(ContextError, match="must be a sequence of contexts"):
        learner.choose_many(0.5)  # type: ignore[arg-type]
    with pytest.raises(ArmError, match="cannot be its own arm"):
        learner.add_own("here")
    learner.add_peer("there")
    with pytest.raises(ContextError, match="axis 0"):
        learner.choose(2.0, {"there": LabelledData(1, 1)})
    learner.pause("a")
    learner.pause("b")
    with pytest.raises(ArmError, match="no classifier left with which to answer 'far'"):
        learner.answer(0.5, caller="far", request=1, training=False)
