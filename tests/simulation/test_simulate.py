"""A compiled simulation makes exactly the decisions of learners that go item by item, whatever the policy and delay."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosend import CoS, Learner, MixedViews, Network, Patience, Site, simulate
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import Answer, AskPeer, Choice, LabelledData, Phase, ScoreLocal
from cosend.axes import FromFunction
from cosend.errors import CosendError, NetworkError, SettingError
from tests.policies import POLICIES, everything

pytestmark = pytest.mark.compiled

NAMES, SIZES, SLOTS = ("north", "east", "south"), (2, 1, 3), 90
Array = npt.NDArray[Any]


def new_learners(
    policies: list[Policy], scores: tuple[ScoreLocal, ...] = ("used",) * 3, free: int = 2
) -> list[Learner]:
    """Return three sites that are each other's peers, with a policy each; the first functions cost nothing."""
    return [
        Learner(
            name,
            own={f"{name}{j}": 0.1 * (j // free) for j in range(size)},
            peers={peer: 0.05 for peer in NAMES if peer != name},
            dimensions=2,
            policy=policy,
            seed=11,
            score_local=score_local,
        )
        for name, size, policy, score_local in zip(NAMES, SIZES, policies, scores, strict=True)
    ]


def stream(seed: int) -> tuple[Array, Array, Array]:
    """Return contexts, gains and items; some slots have no item for a site."""
    draw = np.random.default_rng(seed)
    contexts = draw.random((SLOTS, 2))
    chances = np.where(contexts[:, :1] < 0.5, [0.9, 0.2, 0.5, 0.3, 0.6, 0.4], [0.2, 0.8, 0.5, 0.9, 0.4, 0.1])
    return contexts, (draw.random((SLOTS, 6)) < chances).astype(np.uint8), draw.integers(-1, SLOTS, (SLOTS, 3))


class StepByStep:
    """Does what `simulate` does, with one Python call for every step."""

    def __init__(self, learners: list[Learner], contexts: Array, gains: Array) -> None:
        self.learners = {learner.name: learner for learner in learners}
        self.first = dict(zip(NAMES, np.cumsum([0, *SIZES[:-1]]).tolist(), strict=True))
        self.contexts, self.gains = contexts, gains
        self.due: list[tuple[int, int, Callable[[], None]]] = []

    def play(self, items: Array, delays: Array) -> list[tuple[int, int, int]]:
        trace = []
        for slot in range(len(items)):
            self.deliver(slot)
            for s, learner in enumerate(self.learners.values()):
                trace.append((0, 0, 0))
                if items[slot, s] >= 0:
                    trace[-1], label = self.arrive(learner, int(items[slot, s]))
                    if delays[slot, s] == 0:
                        label()
                    else:
                        self.due.append((slot + int(delays[slot, s]), len(trace), label))
        self.deliver(2**63)
        return trace

    def deliver(self, slot: int) -> None:
        """Deliver labels that are due: first what is due first, then in the order of the items."""
        self.due.sort(key=lambda each: each[:2])
        while self.due and self.due[0][0] <= slot:
            self.due.pop(0)[2]()

    def arrive(self, learner: Learner, item: int) -> tuple[tuple[int, int, int], Callable[[], None]]:
        context = tuple(self.contexts[item].tolist())
        told: dict[str, LabelledData] = {}
        while isinstance(choice := learner.choose(context, told), AskPeer):
            told[choice.peer] = self.learners[choice.peer].report(context)
        owner, answer = learner, Answer(choice.arm, None)
        if choice.arm in self.learners:
            owner = self.learners[choice.arm]
            answer = called(owner, learner, choice, context)
        column = self.first[owner.name] + owner.arms.number(answer.function)
        gain = float(self.gains[item, column])
        ticket = answer.ticket

        def label() -> None:
            learner.learn(choice.id, gain, None, self.scores(learner, item, choice.arm))
            if ticket is not None:
                owner.learn(ticket, gain, None, self.scores(owner, item, answer.function))

        return (choice.phase.value, learner.arms.number(choice.arm), column), label

    def scores(self, learner: Learner, item: int, used: str) -> dict[str, float]:
        """Return what the other classifiers of a site gain that cost nothing, if it scores all of them."""
        if learner.score_local == "used":
            return {}
        free = [name for name, cost in learner.arms.own.items() if cost == 0.0 and name != used]
        return {name: float(self.gains[item, self.first[learner.name] + learner.arms.number(name)]) for name in free}


def called(peer: Learner, caller: Learner, choice: Choice, context: tuple[float, ...]) -> Answer:
    training, always = choice.phase is Phase.TRAIN, caller.policy.share_labels == "always"
    return peer.answer(context, caller=caller.name, request=choice.id, training=training, labelled=always)


def delays_of(kind: Any, seed: int) -> Any:
    if kind == "random":
        return np.random.default_rng(seed).choice([0, 0, 1, 2, 5, 30], (SLOTS, 3))
    if kind == "never":
        return np.random.default_rng(seed).choice([1, 3, 10**15], (SLOTS, 3))
    return kind


def check_same(new: Callable[[], list[Learner]], contexts: Array, gains: Array, items: Array, delays: Any) -> None:
    compiled, single = new(), new()
    trace = simulate(compiled, contexts, gains, items=items, delay=delays)
    expected = StepByStep(single, contexts, gains).play(items, np.broadcast_to(delays, items.shape))
    assert list(zip(*(column.ravel().tolist() for column in trace), strict=True)) == expected
    for one, other in zip(compiled, single, strict=True):
        assert everything(one) == everything(other)


@pytest.mark.parametrize("delay", [0, 1, "random", "never"])
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_equals_step_by_step(name: str, delay: Any) -> None:
    check_same(lambda: new_learners([POLICIES[name]] * 3), *stream(len(name)), delays_of(delay, 5))


@given(
    policy=st.builds(
        CoS,
        horizon=st.sampled_from([None, 60, 10_000]),
        slices=st.sampled_from([None, None, 1, 3]),
        exploration_exponent=st.sampled_from([None, 0.05, 0.2]),
        order=st.sampled_from(["pseudocode", "random", "train_first"]),
        training_count=st.sampled_from(["reported", "own_and_mine"]),
        share_labels=st.sampled_from(["training", "always"]),
        max_peer_functions=st.integers(1, 3),
    ),
    delay=st.sampled_from([0, 1, 2, 7]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=30)
def test_cos_with_any_options_equals_step_by_step(policy: CoS, delay: int, seed: int) -> None:
    check_same(lambda: new_learners([policy] * 3, free=1), *stream(seed), delay)


@pytest.mark.parametrize("seed", range(6))
def test_sites_with_different_policies_are_simulated_together(seed: int) -> None:
    """Their ledgers have different numbers of views and columns, but stand in one stack."""
    policies = random.Random(seed).sample(list(POLICIES.values()), 3)
    contexts, gains, items = stream(seed)
    scores: tuple[ScoreLocal, ...] = ("all", "used", "all")
    check_same(lambda: new_learners(policies, scores), contexts, gains, items, delays_of("random", seed))


@pytest.mark.parametrize("score_local", ["used", "all"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_simulation_equals_a_network_of_sites(name: str, score_local: ScoreLocal) -> None:
    """With real sites, classifiers that are functions, and labels that come a turn later; then both go on."""
    contexts, gains, _ = stream(3)

    def site(name: str, policy: Policy, first: int, size: int) -> Site:
        axes = [
            FromFunction(lambda item: contexts[item, 0], "first"),
            FromFunction(lambda item: contexts[item, 1], "second"),
        ]
        models = {f"{name}{j}": lambda item, column=first + j: int(gains[item, column]) for j in range(size)}
        costs = {f"{name}{j}": 0.1 * (j // 2) for j in range(size)}
        options: dict[str, Any] = {"seed": 11, "score_local": score_local, "learnt": False}
        return Site(name, classifiers=models, context=axes, policy=policy, costs=costs, **options)

    sites = [site(name_, POLICIES[name], *part) for name_, part in zip(NAMES, ((0, 2), (2, 1), (3, 3)), strict=True)]
    network = Network(sites, call_cost=0.05)
    learners = new_learners([POLICIES[name]] * 3, (score_local,) * 3)
    for learner in learners:  # a network tells how many classifiers a peer has
        for peer in list(learner.arms.peers):
            learner.remove(peer)
        for peer, size in zip(NAMES, SIZES, strict=True):
            if peer != learner.name:
                learner.add_peer(peer, 0.05, functions=size)
    order = [[peer for peer in each.learner.arms.names if peer in NAMES] for each in sites]
    assert [[arm for arm in learner.arms.names if arm in NAMES] for learner in learners] == order
    for part in (slice(0, 50), slice(50, SLOTS)):
        trace = simulate(learners, contexts[part], gains[part])
        rows = [(item, 1) for item in range(SLOTS)[part]]
        events = list(network.run(dict.fromkeys(NAMES, rows)))
        arms = [learner.arms.names[arm] for row in trace.arms for learner, arm in zip(learners, row, strict=True)]
        assert [event.decision.arm for event in events] == arms
        for one, other in zip(learners, sites, strict=True):
            assert everything(one) == everything(other.learner)


@pytest.mark.parametrize("name", POLICIES)
def test_arms_join_and_leave_between_two_simulations(name: str) -> None:
    contexts, gains, items = stream(4)
    compiled, single = new_learners([POLICIES[name]] * 3), new_learners([POLICIES[name]] * 3)
    for learners in (compiled, single):
        steps = StepByStep(learners, contexts, gains)
        for first, last in ((0, 40), (40, SLOTS)):
            part, delays = items[first:last], np.full((last - first, 3), 3)
            if learners is compiled:
                simulate(learners, contexts, gains, items=part, delay=delays)
            else:
                steps.play(part, delays)
            if first == 0:  # as many functions as before, so the columns stay
                learners[0].remove("north0")
                learners[0].add_own("again", 0.02)
                learners[1].remove("south")
                learners[2].set_cost("east", 0.0)
    for one, other in zip(compiled, single, strict=True):
        assert everything(one) == everything(other)


@pytest.mark.parametrize("kind", [np.int8, np.uint64])
def test_any_whole_numbers_are_delays(kind: Any) -> None:
    contexts, gains, _ = stream(6)
    arms = [
        simulate(new_learners([POLICIES["CellKLUCB"]] * 3), contexts, gains, delay=delay).arms.tolist()
        for delay in (2, np.full((SLOTS, 3), 2, kind), kind(2), np.full((SLOTS, 3), 2).tolist())
    ]
    assert all(each == arms[0] for each in arms)


def test_labels_that_come_after_the_end_take_no_room_and_are_learnt_in_the_end() -> None:
    contexts, gains, items = stream(7)
    for delay in (10**9, 2**63 - 1, np.full((SLOTS, 3), 2**64 - 1, np.uint64)):
        learners = new_learners([POLICIES["ZoomingKLUCB afresh"]] * 3)
        trace = simulate(learners, contexts, gains, items=items, delay=delay)
        later = new_learners([POLICIES["ZoomingKLUCB afresh"]] * 3)
        assert trace.arms.tolist() == simulate(later, contexts, gains, items=items, delay=SLOTS).arms.tolist()
        assert [everything(one) for one in learners] == [everything(one) for one in later]


BAD_DELAYS: dict[str, tuple[Any, list[str]]] = {
    "below 0": (-1, ["delay", "0 or more", "-1"]),
    "half a slot": (0.5, ["delay", "whole number", "0.5"]),
    "too large": (2**70, ["delay", "whole number"]),
    "not a number": (np.full((SLOTS, 3), np.nan), ["delay", "whole number of slots"]),
    "by slot only": (np.ones(SLOTS, int), ["delay", f"shape ({SLOTS},)", f"as many as items: ({SLOTS}, 3)"]),
    "of different length": ([[1, 2, 3], [1]], ["delay", "whole number of slots", "array"]),
}


@pytest.mark.parametrize("case", BAD_DELAYS)
def test_bad_delays_are_refused_and_nothing_is_learnt(case: str) -> None:
    delay, fragments = BAD_DELAYS[case]
    learners = new_learners([POLICIES["MixedViews"]] * 3)
    contexts, gains, items = stream(8)
    before = [everything(learner) for learner in learners]
    with pytest.raises(SettingError) as caught:
        simulate(learners, contexts, gains, items=items, delay=delay)
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)
    assert [everything(learner) for learner in learners] == before


def test_a_simulation_cannot_start_while_labels_are_pending() -> None:
    learners = new_learners([POLICIES["ZoomingKLUCB afresh"]] * 3)
    contexts, gains, items = stream(9)
    learners[1].choose((0.5, 0.5))
    before = [everything(learner) for learner in learners]
    with pytest.raises(NetworkError, match="'east' waits for labels"):
        simulate(learners, contexts, gains, items=items, delay=delays_of("random", 1))
    assert [everything(learner) for learner in learners] == before


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
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arrays_are_refused_and_nothing_is_learnt(message: str) -> None:
    learners = new_learners([CoS(horizon=10)] * 3)
    contexts, gains, items = BAD[message](np.zeros((10, 2)), np.zeros((10, 6)), None)
    with pytest.raises(CosendError) as raised:
        simulate(learners, contexts, gains, items=items)
    assert message in str(raised.value)
    assert all(learner.arrivals == 0 for learner in learners)


def test_learners_that_do_not_belong_together_are_refused() -> None:
    learners = new_learners([CoS(horizon=10)] * 3)
    with pytest.raises(CosendError, match="which is not in the simulation"):
        simulate(learners[:2], np.zeros((5, 2)), np.zeros((5, 3)))
    with pytest.raises(CosendError, match="same name"):
        simulate([learners[0], learners[0]], np.zeros((5, 2)), np.zeros((5, 4)))
    patient = Learner("p", own={"a": 0.0}, policy=CoS(slices=1), patience=Patience(wait_limit=3))
    with pytest.raises(CosendError, match="wait limit"):
        simulate([patient], np.zeros((5, 1)), np.zeros((5, 1)))


@pytest.mark.parametrize("delay", [0, 1, 9])
def test_a_site_without_room_for_all_labels_is_refused(delay: int) -> None:
    def learner(**options: Any) -> Learner:
        return Learner("p", own={"a": 0.0}, policy=CoS(slices=1), patience=Patience(**options))

    contexts, gains = np.zeros((5, 1)), np.zeros((5, 1))
    with pytest.raises(NetworkError, match="'p' has max_pending 4, and 5 labels may be pending"):
        simulate([learner(max_pending=4)], contexts, gains, delay=delay)
    for enough in (learner(max_pending=5), learner()):
        simulate([enough], contexts, gains, delay=delay)
        assert enough.arrivals == 5


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
    simulate(sites(), contexts, gains)  # what is compiled takes memory too
    learners = sites()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        simulate(learners, contexts, gains)
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
        learners = new_learners([policy] * 3, free=1)
        trace = simulate(learners, contexts, gains, delay=delays)
        found.append([*(column.tobytes() for column in trace), *(str(learner.cells()) for learner in learners)])
    assert found[0] == found[1]
    with pytest.raises(SettingError, match="-1 for a label that never comes"):
        simulate(new_learners([policy] * 3, free=1), contexts, gains, delay=-1)
