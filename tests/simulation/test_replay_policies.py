"""The compiled replay of every policy makes exactly the decisions of learners that go item by item, however late."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cosend import Answer, AskPeer, Choice, Context, LabelledData, Learner, Network, Phase, Site, replay
from cosend.core.learner.values import ScoreLocal
from cosend.core.policy.parts import Policy
from cosend.errors import NetworkError, SettingError
from tests.policies import POLICIES, everything

pytestmark = pytest.mark.compiled

NAMES, SIZES, SLOTS = ("north", "east", "south"), (2, 1, 3), 90
Array = npt.NDArray[Any]


def new_learners(policies: list[Policy], scores: tuple[ScoreLocal, ...] = ("used",) * 3) -> list[Learner]:
    """Return three sites that are each other's peers, with a policy each."""
    return [
        Learner(
            name,
            own={f"{name}{j}": 0.1 * (j // 2) for j in range(size)},
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
    """Does what `replay` does, with one Python call for every step."""

    def __init__(self, learners: list[Learner], contexts: Array, gains: Array) -> None:
        self.learners = {learner.name: learner for learner in learners}
        self.first = dict(zip(NAMES, np.cumsum([0, *SIZES[:-1]]).tolist(), strict=True))
        self.contexts, self.gains = contexts, gains
        self.due: list[tuple[int, int, Callable[[], None]]] = []

    def play(self, items: Array, delays: Array) -> list[tuple[int, int, int]]:
        trace = []
        for slot in range(len(items)):
            self.hand_out(slot)
            for s, learner in enumerate(self.learners.values()):
                trace.append((0, 0, 0))
                if items[slot, s] >= 0:
                    trace[-1], label = self.arrive(learner, int(items[slot, s]))
                    if delays[slot, s] == 0:
                        label()
                    else:
                        self.due.append((slot + int(delays[slot, s]), len(trace), label))
        self.hand_out(2**63)
        return trace

    def hand_out(self, slot: int) -> None:
        """Hand out what is due: first what is due first, then in the order of the items."""
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


@pytest.mark.parametrize("delay", [0, 1, 5, "random", "never"])
@pytest.mark.parametrize("name", POLICIES)
def test_replay_equals_step_by_step(name: str, delay: Any) -> None:
    policies = [POLICIES[name]] * 3
    contexts, gains, items = stream(len(name))
    compiled, single = new_learners(policies), new_learners(policies)
    delays = delays_of(delay, 5)
    trace = replay(compiled, contexts, gains, items=items, delay=delays)
    expected = StepByStep(single, contexts, gains).play(items, np.broadcast_to(delays, items.shape))
    assert list(zip(*(column.ravel().tolist() for column in trace), strict=True)) == expected
    for one, other in zip(compiled, single, strict=True):
        assert everything(one) == everything(other)


@pytest.mark.parametrize("seed", range(6))
def test_sites_with_different_policies_replay_together(seed: int) -> None:
    """Their ledgers have different numbers of views and columns, but stand in one stack."""
    policies = random.Random(seed).sample(list(POLICIES.values()), 3)
    contexts, gains, items = stream(seed)
    scores: tuple[ScoreLocal, ...] = ("all", "used", "all")
    compiled, single = new_learners(policies, scores), new_learners(policies, scores)
    delays = delays_of("random", seed)
    trace = replay(compiled, contexts, gains, items=items, delay=delays)
    expected = StepByStep(single, contexts, gains).play(items, delays)
    assert list(zip(*(column.ravel().tolist() for column in trace), strict=True)) == expected
    for one, other in zip(compiled, single, strict=True):
        assert everything(one) == everything(other)


@pytest.mark.parametrize("score_local", ["used", "all"])
@pytest.mark.parametrize("name", POLICIES)
def test_replay_equals_a_network_of_sites(name: str, score_local: ScoreLocal) -> None:
    """With real sites, classifiers that are functions, and labels that come a turn later; then both go on."""
    contexts, gains, _ = stream(3)

    def site(name: str, policy: Policy, first: int, size: int) -> Site:
        axes = [
            Context.function(lambda item: contexts[item, 0], "first"),
            Context.function(lambda item: contexts[item, 1], "second"),
        ]
        models = {f"{name}{j}": lambda item, column=first + j: int(gains[item, column]) for j in range(size)}
        costs = {f"{name}{j}": 0.1 * (j // 2) for j in range(size)}
        options: dict[str, Any] = {"seed": 11, "score_local": score_local}
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
        trace = replay(learners, contexts[part], gains[part])
        rows = [(item, 1) for item in range(SLOTS)[part]]
        events = list(network.run(dict.fromkeys(NAMES, rows)))
        arms = [learner.arms.names[arm] for row in trace.arms for learner, arm in zip(learners, row, strict=True)]
        assert [event.decision.arm for event in events] == arms
        for one, other in zip(learners, sites, strict=True):
            assert everything(one) == everything(other.learner)


@pytest.mark.parametrize("name", POLICIES)
def test_arms_join_and_leave_between_two_replays(name: str) -> None:
    contexts, gains, items = stream(4)
    compiled, single = new_learners([POLICIES[name]] * 3), new_learners([POLICIES[name]] * 3)
    for learners in (compiled, single):
        steps = StepByStep(learners, contexts, gains)
        for first, last in ((0, 40), (40, SLOTS)):
            part, delays = items[first:last], np.full((last - first, 3), 3)
            if learners is compiled:
                replay(learners, contexts, gains, items=part, delay=delays)
            else:
                steps.play(part, delays)
            if first == 0:  # as many functions as before, so the columns stay
                learners[0].remove("north0")
                learners[0].add_own("again", 0.02)
                learners[1].remove("south")
                learners[2].set_cost("east", 0.0)
    for one, other in zip(compiled, single, strict=True):
        assert everything(one) == everything(other)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_any_whole_numbers_are_delays(kind: Any) -> None:
    contexts, gains, _ = stream(6)
    arms = [
        replay(new_learners([POLICIES["CellKLUCB"]] * 3), contexts, gains, delay=delay).arms.tolist()
        for delay in (2, np.full((SLOTS, 3), 2, kind), kind(2), np.full((SLOTS, 3), 2).tolist())
    ]
    assert all(each == arms[0] for each in arms)


def test_labels_that_come_after_the_end_take_no_room_and_are_learnt_in_the_end() -> None:
    contexts, gains, items = stream(7)
    for delay in (10**9, 2**63 - 1, np.full((SLOTS, 3), 2**64 - 1, np.uint64)):
        learners = new_learners([POLICIES["ZoomingKLUCB timed"]] * 3)
        trace = replay(learners, contexts, gains, items=items, delay=delay)
        later = new_learners([POLICIES["ZoomingKLUCB timed"]] * 3)
        assert trace.arms.tolist() == replay(later, contexts, gains, items=items, delay=SLOTS).arms.tolist()
        assert [everything(one) for one in learners] == [everything(one) for one in later]


BAD_DELAYS: dict[str, tuple[Any, list[str]]] = {
    "below 0": (-1, ["delay", "0 or more", "-1"]),
    "one below -1, which is never": (np.full((SLOTS, 3), -2), ["delay", "0 or more"]),
    "half a slot": (0.5, ["delay", "whole number", "0.5"]),
    "a truth": (True, ["delay", "whole number", "True"]),
    "too large": (2**70, ["delay", "whole number"]),
    "real numbers": (np.ones((SLOTS, 3)), ["delay", "whole number of slots"]),
    "not a number": (np.full((SLOTS, 3), np.nan), ["delay", "whole number of slots"]),
    "text": ("late", ["delay", "whole number", "'late'"]),
    "nothing": (None, ["delay", "whole number", "None"]),
    "by slot only": (np.ones(SLOTS, int), ["delay", f"shape ({SLOTS},)", f"as many as items: ({SLOTS}, 3)"]),
    "of fewer sites": (np.ones((SLOTS, 2), int), ["delay", f"as many as items: ({SLOTS}, 3)"]),
    "the other way round": (np.ones((3, SLOTS), int), ["delay", f"as many as items: ({SLOTS}, 3)"]),
    "of different length": ([[1, 2, 3], [1]], ["delay", "whole number of slots", "array"]),
    "none at all": ([], ["delay", "whole number of slots"]),
}


@pytest.mark.parametrize("case", BAD_DELAYS)
def test_bad_delays_are_refused_and_nothing_is_learnt(case: str) -> None:
    delay, fragments = BAD_DELAYS[case]
    learners = new_learners([POLICIES["MixedViews"]] * 3)
    contexts, gains, items = stream(8)
    before = [everything(learner) for learner in learners]
    with pytest.raises(SettingError) as caught:
        replay(learners, contexts, gains, items=items, delay=delay)
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)
    assert [everything(learner) for learner in learners] == before


def test_a_replay_cannot_go_on_while_labels_wait() -> None:
    learners = new_learners([POLICIES["ZoomingKLUCB timed"]] * 3)
    contexts, gains, items = stream(9)
    learners[1].choose((0.5, 0.5))
    before = [everything(learner) for learner in learners]
    with pytest.raises(NetworkError, match="'east' waits for labels"):
        replay(learners, contexts, gains, items=items, delay=delays_of("random", 1))
    assert [everything(learner) for learner in learners] == before
