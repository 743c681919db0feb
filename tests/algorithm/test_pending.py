"""What waits for its label: one table that is filled and emptied with the choices, whatever comes in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosend import CellKLUCB, CoS, Learner, Patience, ZoomingKLUCB, simulate
from cosend.algorithm import layout as col
from cosend.algorithm.pending import (
    ids_among,
    not_among,
)
from cosend.algorithm.values import AskPeer, Choice
from cosend.errors import ArmError, SettingError, SettledDecision, UnknownDecision


def a_learner(**options: Any) -> Learner:
    return Learner("here", own={"a": 0.0, "b": 0.1}, **options)


def choice(made: Choice | AskPeer) -> Choice:
    assert isinstance(made, Choice)
    return made


def test_ids_are_found_again_in_whatever_order_they_leave() -> None:
    """Entries move up when one before them leaves: here thousands leave from a table that grows meanwhile."""
    learner, draw = a_learner(policy=CellKLUCB(slices=3)), random.Random(1)
    waiting: dict[int, float] = {}
    for n in range(3_000):
        context = draw.random()
        waiting[choice(learner.choose(context)).id] = context
        if n % 3 == 2 or len(waiting) > 400:
            for ticket in draw.sample(sorted(waiting), min(len(waiting), draw.randint(1, 6))):
                del waiting[ticket]
                if draw.random() < 0.3:
                    learner.withdraw(ticket)
                else:
                    learner.learn(ticket, 1.0)
        assert learner.pending_count == len(waiting)
    assert learner.registry.ids() == sorted(waiting)
    assert all(ticket in learner.registry for ticket in waiting)
    learner.withdraw_many(list(waiting))
    assert not learner.ledger.counts[..., [col.PENDING, col.TRAINING_PENDING]].any()


def test_any_number_may_become_overdue_at_once() -> None:
    """Two hundred answers wait with the same arrival: one item makes all of them overdue."""
    learner = a_learner(patience=Patience(wait_limit=1), policy=CoS(slices=1))
    learner.choose(0.5)
    flags = [(True, True)] * 200
    learner.answer_many([0.5] * 200, caller="there", requests=range(200), flags=flags)
    assert learner.pending_count == 201
    learner.choose(0.5)
    learner.choose(0.5)
    assert learner.registry.ids() == [202, 203]
    assert learner.take_overdue() == list(range(1, 202))
    assert learner.take_overdue() == []


def test_a_wait_that_overflows_drops_the_oldest_in_a_batch_as_one_by_one() -> None:
    one, many = (a_learner(patience=Patience(max_pending=3, overdue=0.5)) for _ in range(2))
    contexts = [n / 100 for n in range(100)]
    single = [choice(one.choose(context)) for context in contexts]
    assert many.choose_many(contexts).choices == single
    assert one.registry.ids() == many.registry.ids() == [98, 99, 100]
    assert one.take_overdue() == many.take_overdue() == list(range(1, 98))


def test_an_item_whose_arm_failed_is_chosen_for_again_and_counted_once() -> None:
    learner = a_learner(policy=ZoomingKLUCB(split_after=4.0))
    for n in range(40):
        made = choice(learner.choose(n / 40))
        again = learner.fail(made.id)
        assert again == n + 1
        other = choice(learner.choose(n / 40, without=[made.arm], again=again))
        assert other.arm != made.arm
        assert other.id == made.id + 1
        learner.learn(other.id, 1.0)
    assert learner.arrivals == 40
    assert learner.last_id == 80
    with pytest.raises(SettledDecision):
        learner.fail(1)


def test_notes_go_with_what_they_belong_to() -> None:
    learner = a_learner()
    for _ in range(4):
        learner.registry.notes[choice(learner.choose(0.5)).id] = "noted"
    learner.learn(1, 1.0)
    learner.withdraw(2)
    learner.learn_many([3], [0.5])
    assert learner.registry.notes == {4: "noted"}
    learner.remove("a")
    assert learner.registry.notes.keys() == set(learner.registry.ids())


@pytest.mark.parametrize("bad", [0, -1, 2, 2**63, -(2**63), 2**70, True, 1.0, "1", None], ids=repr)
def test_what_is_no_id_of_a_decision_that_waits_is_refused(bad: Any) -> None:
    learner = a_learner()
    learner.choose(0.5)
    calls: list[Callable[[], object]] = [
        lambda: learner.learn(bad, 1.0),
        lambda: learner.learn_many([1, bad], [1.0, 1.0]),
        lambda: learner.withdraw(bad),
    ]
    for call in calls:
        with pytest.raises(UnknownDecision, match="ids run from 1 to 1"):
            call()
    assert bad not in learner.registry or bad is True
    assert learner.pending_count == 1
    with pytest.raises(SettledDecision, match="decision 1 of site 'here'"):
        learner.learn_many([1, 1], [1.0, 1.0])


def test_ids_that_follow_each_other_are_looked_up_as_any_others() -> None:
    learner = a_learner()
    learner.choose_many([0.5] * 5)
    learner.withdraw(2)
    for ids in (range(1, 6), range(3, 6), range(5, 0, -2), range(1, 8)):
        assert learner.find(ids) == learner.find([*ids])
        assert [*learner.still_pending(ids)] == learner.still_pending([*ids]) == [n for n in ids if n in {1, 3, 4, 5}]
    with pytest.raises(UnknownDecision, match="0"):
        learner.find(range(3))


def test_a_choice_without_any_arm_is_refused_and_changes_nothing() -> None:
    learner = a_learner()
    learner.pause("a")
    before = str(learner.state())
    calls: list[Callable[[], object]] = [
        lambda: learner.choose(0.5, without=["b"]),
        lambda: learner.choose_many([0.5, 0.6], without=["b"]),
        lambda: learner.answer_many([0.5], caller="x", requests=[1], flags=[(True, True)], without=["b"]),
    ]
    for call in calls:
        with pytest.raises(ArmError, match="'here' has no arm left: a, b are paused or excluded"):
            call()
    assert str(learner.state()) == before
    with pytest.raises(ArmError, match="'here' has no arm 'c'"):
        learner.choose(0.5, without=["c"])
    assert choice(learner.choose(0.5)).arm == "b"


def test_a_peer_that_announces_more_than_a_count_can_hold_is_refused_and_changes_nothing() -> None:
    learner = a_learner()
    before = str(learner.state())
    for functions in (2**63, 2**31):
        with pytest.raises(SettingError, match="functions must be at most 2147483647"):
            learner.add_peer("there", functions=functions)
    assert str(learner.state()) == before
    learner.add_peer("there", functions=2**31 - 1)
    learner.choose(0.5)


@pytest.mark.parametrize("bad", [[1], [-1], ["0"], [0.0], [True]], ids=repr)
def test_categories_that_are_no_axes_are_refused(bad: Any) -> None:
    with pytest.raises(SettingError, match="categories must be numbers of axes, 0 to 0"):
        a_learner(categories=bad)


def test_categories_with_more_cells_than_there_are_keys_are_refused() -> None:
    with pytest.raises(SettingError, match="there are not enough keys for their cells"):
        a_learner(dimensions=6, categories=range(6), policy=CellKLUCB(slices=1))


def test_a_state_comes_back_with_what_is_paused_and_more_that_waits_than_a_new_table_holds() -> None:
    learner = a_learner(policy=CoS(slices=40), categories=[1], dimensions=2)
    learner.pause("b")
    for n in range(150):
        learner.choose((n / 150, n % 7))
    again = Learner.from_state(learner.state())
    assert again.registry.ids() == learner.registry.ids()
    assert again.arms.paused == {"b"}
    for each in (again, learner):
        each.resume("b")
        each.learn_many(range(1, 151), [1.0] * 150)
        each.choose((0.5, 3))
    assert str(again.state()) == str(learner.state())


def test_room_that_was_made_ahead_is_used_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that would take a while to grow is copied ahead; what came since then is copied when it grows."""
    monkeypatch.setattr("cosend.algorithm.pending.LARGE", 16)
    monkeypatch.setattr("cosend.algorithm.pending.MOST_NEW", 3)
    ahead, plain, draw = a_learner(policy=ZoomingKLUCB()), a_learner(policy=ZoomingKLUCB()), random.Random(2)
    grew, filling = 0, 0
    for n in range(400):
        if ahead.registry.is_filling_up:
            filling += 1
            ahead.registry.make_room()
            assert not ahead.registry.is_filling_up  # until more have come
        slots = len(ahead.registry.table.entries)
        context = draw.random()
        assert choice(ahead.choose(context)) == choice(plain.choose(context))
        grew += len(ahead.registry.table.entries) > slots
        if n % 5 == 0:
            for learner in (ahead, plain):
                learner.learn(n + 1, 1.0)
    assert grew > 2
    assert filling > grew
    assert ahead.registry.entries() == plain.registry.entries()
    assert not a_learner(patience=Patience(max_pending=2)).registry.is_filling_up


def test_ids_that_wait_among_others() -> None:
    learner = a_learner(policy=CellKLUCB(slices=2))
    for _ in range(6):
        learner.choose(0.5)
    learner.learn(2, 1.0)
    waiting = ids_among(learner.registry.table.entries, 5)
    assert waiting.tolist() == [1, 3, 4, 5]
    assert not_among(np.array([2, 3, 7]), waiting).tolist() == [2, 7]
    assert not_among(np.array([2, 3]), waiting[:0]).tolist() == [2, 3]


# Late labels: rewards that come together count for less, so that a bad start is no trap


def bursty(items: int, burst: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return gains of two arms: the second is right in most bursts, the first in every fifth, and in the first one."""
    good = np.arange(items) // burst % 5 == 0
    return np.stack([good, ~good], axis=1).astype(np.float64)


@pytest.mark.compiled
def test_a_burst_that_misleads_is_no_trap() -> None:
    """Labels come 100 items late, in bursts of 100: the arm that fails in the first burst is the better one."""
    gains = bursty(6_000, 100)
    late = []
    for seed in range(5):
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, policy=CellKLUCB(slices=1), seed=seed)
        arms = simulate([learner], np.zeros((6_000, 1)), gains, delay=100).arms[:, 0]
        late.append((arms[3_000:] == 1).mean())
    assert min(late) > 0.5


# Very many pending decisions


MANY = 300_000


def with_waiting(count: int) -> Learner:
    learner = Learner("edge", own={"one": 0.0, "two": 0.0})
    learner.choose_many([0.5] * count)
    assert learner.pending_count == count
    return learner


def seconds_to_add_a_peer(learner: Learner) -> float:
    """Return how long it takes in the best of several attempts."""
    best = float("inf")
    for number in range(8):
        begun = time.perf_counter()
        learner.add_peer(f"peer {number}", 0.1)
        best = min(best, time.perf_counter() - begun)
    return best


@pytest.mark.claims
def test_a_peer_joins_as_fast_whatever_waits() -> None:
    few, many = with_waiting(100), with_waiting(MANY)
    assert seconds_to_add_a_peer(many) < 20 * seconds_to_add_a_peer(few)
    assert many.pending_count == MANY
    many.learn(1, 1.0)
    many.remove("peer 3")
    many.learn(MANY, 1.0)
    assert many.pending_count == MANY - 2
