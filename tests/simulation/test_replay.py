"""The compiled replay of a whole network makes exactly the decisions of learners that go item by item."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosend import Answer, AskPeer, Choice, CoS, LabelledData, Learner, MixedViews, Patience, Phase, replay
from cosend.errors import CosendError, NetworkError, SettingError

pytestmark = pytest.mark.compiled

SIZES = (2, 1, 3)
NAMES = ("north", "east", "south")


def new_learners(policy: Any, dimensions: int = 2) -> list[Learner]:
    return [
        Learner(
            name,
            own={f"{name}{j}": 0.1 * j for j in range(size)},
            peers={peer: 0.05 for peer in NAMES if peer != name},
            dimensions=dimensions,
            policy=policy,
            seed=11,
        )
        for name, size in zip(NAMES, SIZES, strict=True)
    ]


class StepByStep:
    """Does what `replay` does, with one Python call for every step."""

    def __init__(self, learners: list[Learner], contexts: Any, gains: Any, delay: int) -> None:
        self.learners = {learner.name: learner for learner in learners}
        self.first = dict(zip(NAMES, np.cumsum([0, *SIZES[:-1]]).tolist(), strict=True))
        self.contexts, self.gains, self.delay = contexts, gains, delay
        self.trace: list[tuple[int, int, int]] = []
        self.due: list[tuple[int, Callable[[], None]]] = []

    def play(self, items: Any) -> list[tuple[int, int, int]]:
        for slot, row in enumerate(items.tolist()):
            while self.due and self.due[0][0] <= slot:
                self.due.pop(0)[1]()
            for learner, item in zip(self.learners.values(), row, strict=True):
                self.arrive(slot, learner, item)
        for _, label in self.due:
            label()
        return self.trace

    def arrive(self, slot: int, learner: Learner, item: int) -> None:
        context = tuple(self.contexts[item].tolist())
        told: dict[str, LabelledData] = {}
        while isinstance(choice := learner.choose(context, told), AskPeer):
            told[choice.peer] = self.learners[choice.peer].report(context)
        owner, function, ticket = learner, choice.arm, None
        if choice.arm in self.learners:
            owner = self.learners[choice.arm]
            function, ticket = self.called(owner, learner, choice, context)
        column = self.first[owner.name] + owner.arms.number(function)
        self.trace.append((choice.phase.value, learner.arms.number(choice.arm), column))
        gain = float(self.gains[item, column])

        def label() -> None:
            learner.learn(choice.id, gain)
            if ticket is not None:
                owner.learn(ticket, gain)

        if self.delay == 0:
            label()
        else:
            self.due.append((slot + self.delay, label))

    def called(self, peer: Learner, caller: Learner, choice: Choice, context: tuple[float, ...]) -> Answer:
        always = caller.policy.share_labels == "always"
        training = choice.phase is Phase.TRAIN
        return peer.answer(context, caller=caller.name, request=choice.id, training=training, labelled=always)


@given(
    policy=st.builds(
        CoS,
        horizon=st.sampled_from([None, 60, 10_000]),
        slices=st.sampled_from([None, None, 1, 3]),
        exploration_exponent=st.sampled_from([None, 0.05, 0.2]),
        order=st.sampled_from(["pseudocode", "random", "train_first"]),
        training_count=st.sampled_from(["reported", "own_and_mine"]),
        doubling=st.sampled_from(["reset", "keep"]),
        share_labels=st.sampled_from(["training", "always"]),
        max_peer_functions=st.integers(1, 3),
    ),
    delay=st.sampled_from([0, 1, 2, 7]),
    same_stream=st.booleans(),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60)
def test_replay_equals_step_by_step(policy: CoS, delay: int, same_stream: bool, seed: int) -> None:
    draw = np.random.default_rng(seed)
    contexts = draw.random((70, 2))
    gains = draw.integers(0, 2, (70, sum(SIZES))).astype(np.uint8)
    items = np.repeat(np.arange(70)[:, None], 3, axis=1) if same_stream else draw.integers(0, 70, (70, 3))
    compiled, single = new_learners(policy), new_learners(policy)
    trace = replay(compiled, contexts, gains, items=None if same_stream else items, delay=delay)
    expected = StepByStep(single, contexts, gains, delay).play(items)
    columns = (trace.phases, trace.arms, trace.functions)
    assert [tuple(row) for row in np.stack([column.ravel() for column in columns], axis=1).tolist()] == expected
    for one, other in zip(compiled, single, strict=True):
        ours, theirs = one.state(), other.state()
        assert ours.facts == theirs.facts
        for name, array in theirs.arrays.items():
            np.testing.assert_array_equal(ours.arrays[name], array)


def test_replay_goes_on_where_it_stopped() -> None:
    draw = np.random.default_rng(1)
    contexts, gains = draw.random((300, 2)), draw.random((300, sum(SIZES)))
    policy = CoS(horizon=300, exploration_exponent=0.1)
    whole, parts = new_learners(policy), new_learners(policy)
    trace = replay(whole, contexts, gains)
    first = replay(parts, contexts[:120], gains[:120])
    second = replay(parts, contexts[120:], gains[120:])
    np.testing.assert_array_equal(np.concatenate([first.arms, second.arms]), trace.arms)


def test_slow_labels_do_not_make_a_cell_over_explore() -> None:
    """A pending choice counts at the moment of the choice: with labels 1,000 slots late each arm is explored once."""
    learner = Learner("alone", own={"a": 0.0, "b": 0.0}, policy=CoS(slices=1, exploration_exponent=0.01))
    trace = replay([learner], np.full((1000, 1), 0.5), np.ones((1000, 2)), delay=1000)
    explored = np.bincount(trace.arms[trace.phases == 2])
    quota = 1000**0.01 * np.log(1000)
    assert (explored <= quota + 2).all()


BAD: dict[str, Callable[..., Any]] = {
    "contexts must be": lambda c, g, i: (c[:, :1], g, i),
    "axis 1 of the context must be in [0, 1], got 1.5": lambda c, g, i: (np.where(c > 2, c, 1.5) * [0, 1], g, i),
    "gains must be [10 items, 6 functions]": lambda c, g, i: (c, g[:, :5], i),
    "gain must be a number in [0, 1], got 2.0": lambda c, g, i: (c, g + 2.0, i),
    "gains must be numbers, got an array of": lambda c, g, i: (c, g.astype(str), i),
    "gains must be numbers in rows of equal length": lambda c, g, i: (c, [[0.0], [0.0, 1.0]], i),
    "contexts must be numbers": lambda c, g, i: ([*c.tolist(), ["x", "y"]], g, i),
    "items must be whole numbers, got an array of float64": lambda c, g, i: (c, g, np.zeros((4, 3))),
    "items must be [slot, 3 sites]": lambda c, g, i: (c, g, 5),
    "with numbers of the 10 items": lambda c, g, i: (c, g, np.full((4, 3), 2**32)),
    "items must be": lambda c, g, i: (c, g, np.full((4, 3), 99)),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arrays_are_refused_and_nothing_is_learnt(message: str) -> None:
    learners = new_learners(CoS(horizon=10))
    contexts, gains, items = BAD[message](np.zeros((10, 2)), np.zeros((10, 6)), None)
    with pytest.raises(CosendError) as raised:
        replay(learners, contexts, gains, items=items)
    assert message in str(raised.value)
    assert all(learner.arrivals == 0 for learner in learners)


def test_learners_that_do_not_belong_together_are_refused() -> None:
    learners = new_learners(CoS(horizon=10))
    with pytest.raises(CosendError, match="which is not in the replay"):
        replay(learners[:2], np.zeros((5, 2)), np.zeros((5, 3)))
    with pytest.raises(CosendError, match="same name"):
        replay([learners[0], learners[0]], np.zeros((5, 2)), np.zeros((5, 4)))
    patient = Learner("p", own={"a": 0.0}, policy=CoS(slices=1), patience=Patience(wait_limit=3))
    with pytest.raises(CosendError, match="wait limit"):
        replay([patient], np.zeros((5, 1)), np.zeros((5, 1)))


@pytest.mark.parametrize("delay", [0, 1, 9])
def test_a_site_without_room_for_all_labels_is_refused(delay: int) -> None:
    def learner(**options: Any) -> Learner:
        return Learner("p", own={"a": 0.0}, policy=CoS(slices=1), patience=Patience(**options))

    contexts, gains = np.zeros((5, 1)), np.zeros((5, 1))
    with pytest.raises(NetworkError, match="'p' has max_waiting 4: replay cannot keep it, 5 must have room"):
        replay([learner(max_waiting=4)], contexts, gains, delay=delay)
    for enough in (learner(max_waiting=5), learner()):
        replay([enough], contexts, gains, delay=delay)
        assert enough.arrivals == 5


def test_plain_lists_do_as_well_as_arrays() -> None:
    draw = np.random.default_rng(3)
    contexts, gains, items = draw.random((20, 2)), draw.random((20, 6)), draw.integers(-1, 20, (30, 3))
    arrays, lists = new_learners(CoS(horizon=30)), new_learners(CoS(horizon=30))
    expected = replay(arrays, contexts, gains, items=items)
    trace = replay(lists, contexts.tolist(), gains.tolist(), items=items.tolist())
    for ours, theirs in zip(trace, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_same_result_without_the_compiler() -> None:
    """Whatever runs these tests, compiled or not, must find the same numbers."""
    draw = random.Random(5)
    contexts = np.array([[draw.random(), draw.random()] for _ in range(400)])
    gains = np.array([[float(draw.random() < 0.6) for _ in range(6)] for _ in range(400)])
    learners = new_learners(CoS(horizon=400, exploration_exponent=0.1, order="random", max_peer_functions=3))
    trace = replay(learners, contexts, gains)
    fingerprint = [int(np.dot(column.astype(np.int64).ravel(), np.arange(1200) % 97)) for column in trace]
    assert fingerprint == [86740, 95867, 129002]


def test_many_sites_get_room_for_what_they_visit_and_not_for_what_they_might() -> None:
    """With room for what each might visit, two items at each of 30 sites took more than a gigabyte."""
    names = [f"site {n}" for n in range(30)]

    def sites() -> list[Learner]:
        return [
            Learner(
                name,
                own={f"{name}, {n}": 0.0 for n in range(5)},
                peers={peer: 0.05 for peer in names if peer != name},
                dimensions=3,
                policy=MixedViews(),
            )
            for name in names
        ]

    contexts, gains = np.full((2, 3), 0.5), np.ones((2, 150), np.uint8)
    replay(sites(), contexts, gains)  # what is compiled takes memory too
    learners = sites()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        replay(learners, contexts, gains)
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (most - before) / 1e6 < 200
    assert (after - before) / 1e6 < 20  # of which learners keep room for a few more cells than they have visited


@pytest.mark.parametrize("policy", [CoS(horizon=200), MixedViews()])
def test_a_label_that_never_comes_changes_nothing_whatever_it_would_be(policy: Any) -> None:
    draw = np.random.default_rng(1)
    contexts, gone = draw.random((200, 2)), draw.random((200, 3)) < 0.3
    gains = (draw.random((200, 6)) < 0.6).astype(np.float64)
    delays, found = np.where(gone, -1, draw.integers(0, 5, (200, 3))), []
    gone_everywhere = gone.all(axis=1)
    assert gone_everywhere.any()
    for other in (0.0, 1.0):
        gains[gone_everywhere] = other
        learners = new_learners(policy)
        trace = replay(learners, contexts, gains, delay=delays)
        found.append([*(column.tobytes() for column in trace), *(str(learner.cells()) for learner in learners)])
    assert found[0] == found[1]
    with pytest.raises(SettingError, match="-1 for a label that never comes"):
        replay(new_learners(policy), contexts, gains, delay=-1)
