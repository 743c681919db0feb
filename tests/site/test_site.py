"""A site and its peers: who decides, who learns what, late labels, and what a failure leaves behind."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import CellKLUCB, CoS, Decision, Network, Patience, Site
from cosend.algorithm import layout as col
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import Phase
from cosend.axes import Feature, PreviousLabel, Time
from cosend.errors import (
    RewardError,
    SettingError,
    UnknownDecision,
)

ONE_CELL = CoS(slices=1, exploration_exponent=0.05)
TRAINING_FIRST = CoS(slices=1, exploration_exponent=0.05, order="train_first")


def high(item: Any) -> int:
    return int(item["x"] > 0.5)


def always(label: Any) -> Any:
    return lambda _: label


def broken(_: Any) -> Any:
    raise ZeroDivisionError("broken")


def pair(lab: dict[str, Any] | None = None, hq: dict[str, Any] | None = None, **options: Any) -> tuple[Site, Site]:
    """Two sites that are peers: lab with two classifiers, hq with two others, unless given."""
    settings = {"context": Feature("x", range=(0, 1)), "policy": ONE_CELL, "learnt": False, **options}
    first = Site("lab", classifiers=lab or {"one": always(1), "zero": always(0)}, **settings)
    second = Site("hq", classifiers=hq or {"high": high, "none": always(2)}, **settings)
    Network([first, second], call_cost=0.05)
    return first, second


def items(count: int, seed: int = 1) -> list[dict[str, float]]:
    draw = random.Random(seed)
    return [{"x": draw.random()} for _ in range(count)]


def everything(*sites: Site) -> str:
    """Return the whole state as text, whatever the order in which things were entered."""
    states = [site.state() for site in sites]
    for state in states:
        order = np.argsort(state.arrays["pending"][:, 0])
        state.arrays["pending"] = state.arrays["pending"][order]
    return json.dumps(
        [[state.facts, {name: array.tolist() for name, array in state.arrays.items()}] for state in states],
        sort_keys=True,
    )


def assert_nothing_leaks(*sites: Site) -> None:
    for site in sites:
        assert set(site.pending()) == set(site.learner.registry.ids())
        assert all(entry.answered for entry in site.pending().values())
        assert set(site.learner.registry.notes) <= set(site.pending())
        cells = site.learner.cells().values()
        waiting = sum(known.pending_count for cell in cells for known in cell.estimates.values())
        trained = site.learner.ledger.counts[..., col.TRAINING_PENDING].sum()
        epoch, start = site.learner.ledger.site[[col.EPOCH, col.EPOCH_START]].tolist()
        # A new epoch forgets that those of earlier ones wait.
        still = [epoch == 0 or entry.arrival > start for entry in site.learner.registry.entries()]
        assert waiting + trained == sum(still)


def assert_nothing_open(*sites: Site) -> None:
    assert_nothing_leaks(*sites)
    assert [dict(site.pending()) for site in sites] == [{} for _ in sites]


def until(site: Site, phase: Phase, arm: str | None = None, most: int = 300) -> tuple[Decision, dict[str, float]]:
    """Feed labelled items until the site decides in this way, and leave that decision waiting."""
    for item in items(most, seed=7):
        decision = site.classify(item)
        if decision.phase is phase and arm in (None, decision.arm):
            return decision, item
        site.learn(decision.id, high(item))
    raise AssertionError(f"{site.name} never came to {phase} {arm}")


class Numbers(NamedTuple):
    """All counts of a site whose contexts share one cell."""

    arrivals: int = 0
    taught: int = 0
    received: Mapping[str, int] = MappingProxyType({})
    trained: int = 0


def numbers(site: Site) -> Numbers:
    cell = site.learner.cells().get(0)
    if cell is None:
        return Numbers(received=dict.fromkeys(site.learner.arms.names, 0))
    received = {arm: known.reward_count for arm, known in cell.estimates.items()}
    trained = sum(known.training_count for arm, known in cell.estimates.items() if arm in site.peers)
    return Numbers(cell.labelled.arrivals, cell.labelled.taught, received, trained)


@pytest.mark.parametrize("share_labels", ["training", "always"])
def test_who_learns_what(share_labels: Any) -> None:
    """SPEC 2: own: only lab. Training: hq learns, lab only counts it. Explore/exploit of hq: lab, and hq if shared."""
    policy = CoS(slices=1, exploration_exponent=0.3, share_labels=share_labels)
    lab, hq = pair(lab={"poor": always(0)}, policy=policy)
    kinds: set[tuple[Phase, bool]] = set()
    for item in items(300):
        lab_was, hq_was = numbers(lab), numbers(hq)
        decision = lab.classify(item)
        label_goes_on = decision.arm == "hq" and (decision.phase is Phase.TRAIN or share_labels == "always")
        assert len(hq.pending()) == int(label_goes_on)
        assert numbers(hq).received == hq_was.received
        lab.learn(decision.id, high(item))
        lab_is, hq_is = numbers(lab), numbers(hq)
        gained = {arm: lab_is.received[arm] - lab_was.received[arm] for arm in lab_is.received}
        training = decision.phase is Phase.TRAIN
        assert lab_is.arrivals == lab_was.arrivals + 1
        assert gained == {arm: int(arm == decision.arm and not training) for arm in gained}
        assert lab_is.trained >= lab_was.trained + training
        assert hq_is.arrivals == 0
        assert hq_is.taught == hq_was.taught + label_goes_on
        assert sum(hq_is.received.values()) == sum(hq_was.received.values()) + label_goes_on
        assert lab_is.taught == 0
        kinds.add((decision.phase, decision.arm == "hq"))
    explored = {(Phase.EXPLORE, False), (Phase.EXPLORE, True)}
    assert kinds == {(Phase.TRAIN, True), (Phase.EXPLOIT, True)} | explored


@given(st.permutations(range(12)), st.sampled_from([ONE_CELL, TRAINING_FIRST, CellKLUCB(), CoS(slices=3)]))
def test_the_order_of_late_labels_does_not_matter(order: list[int], policy: Policy) -> None:
    straight, mixed = pair(policy=policy), pair(policy=policy)
    stream = items(12)
    for lab, turns in ((straight[0], list(range(12))), (mixed[0], order)):
        made = lab.classify_many(stream)
        for n in turns:
            lab.learn(made[n].id, high(stream[n]))
    assert everything(*straight) == everything(*mixed)
    assert_nothing_open(*mixed)


@pytest.mark.parametrize("unknown", [0, -1, 99, "1", None, 1.5, [1]])
def test_an_unknown_id_is_refused_and_changes_nothing(unknown: Any) -> None:
    lab, hq = pair()
    lab.classify({"x": 0.2})
    before = everything(lab, hq)
    with pytest.raises(UnknownDecision, match=r"'lab' never made a decision .*: ids run from 1 to 1"):
        lab.learn(unknown, 1)
    assert everything(lab, hq) == before


def test_the_id_of_an_answer_to_a_peer_is_refused_and_changes_nothing() -> None:
    lab, hq = pair(policy=TRAINING_FIRST)
    decision = lab.classify({"x": 0.2})
    (ticket,) = hq.pending()
    before = everything(lab, hq)
    with pytest.raises(UnknownDecision):
        hq.learn(ticket, 0)
    assert everything(lab, hq) == before
    lab.learn(decision.id, 0)
    assert_nothing_open(lab, hq)


def test_realised_costs_are_learnt_in_place_of_the_known_cost() -> None:
    site = Site(
        "lab", classifiers={"one": always(1)}, costs={"one": 0.25}, context=Feature("x", range=(0, 1)), policy=ONE_CELL
    )
    first, second = site.classify_many(items(2))
    site.learn(first.id, 1, cost=0.75)
    assert site.learner.cells()[0].estimates["one"].mean_reward == 0.25
    site.learn_many([second.id], [0], costs=[None])
    assert site.learner.cells()[0].estimates["one"].mean_reward == (0.25 - 0.25) / 2
    with pytest.raises(RewardError, match=r"cost must be a number in \[0, 1\], got 1.5"):
        site.learn(site.classify({"x": 0}).id, 1, cost=1.5)


def test_a_reward_function_makes_real_valued_labels_learnable() -> None:
    models = {"far": always(10.0), "near": lambda item: 4 * item["x"]}
    site = Site(
        "lab",
        classifiers=models,
        context=Feature("x", range=(0, 1)),
        policy=ONE_CELL,
        reward=lambda label, truth: max(0.0, 1 - abs(label - truth) / 10),
    )
    for item in items(100):
        site.learn(site.classify(item).id, 5 * item["x"])
    known = site.learner.cells()[0].estimates
    assert 0.8 < known["near"].mean_reward < 1.0
    assert 0.0 < known["far"].mean_reward < 0.5
    assert known["near"].reward_count > known["far"].reward_count


@pytest.mark.parametrize("gain", [1.5, -0.1, float("nan"), None, "1"])
def test_a_reward_function_that_leaves_0_to_1_is_refused_and_changes_nothing(gain: Any) -> None:
    lab, hq = pair(policy=TRAINING_FIRST, reward=lambda _, truth: gain if truth == "bad" else 1.0)
    made = lab.classify_many(items(2))
    before = everything(lab, hq)
    with pytest.raises(RewardError, match=r"gain must be a number in \[0, 1\], got .* decision 2 of site 'lab'"):
        lab.learn_many([made[0].id, made[1].id], [1, "bad"])
    assert everything(lab, hq) == before


POLICIES = [
    ONE_CELL,
    TRAINING_FIRST,
    CoS(),
    CellKLUCB(),
    CoS(horizon=50, order="random"),
    CoS(slices=2, share_labels="always", exploration_exponent=0.05),
]
PATIENCE = [None, Patience(wait_limit=3), Patience(max_pending=4, overdue=0.5)]


@pytest.mark.parametrize("patience", PATIENCE)
@pytest.mark.parametrize("policy", POLICIES)
def test_batches_are_the_same_as_one_by_one(policy: Policy, patience: Patience | None) -> None:
    """Classify many and learn many, at both sites in turn: the whole state of both sites is the same."""
    axes = [Feature("x", scale="rank", window=5), PreviousLabel(0, 1), Time(60)]
    many, single = (pair(policy=policy, patience=patience, context=axes) for _ in range(2))
    stream = iter(items(1000, seed=3))
    for turn in range(24):
        batch = [next(stream) for _ in range(1 + turn % 6)]
        truths = [high(item) for item in batch]
        made = many[turn % 2].classify_many(batch)
        assert [single[turn % 2].classify(item) for item in batch] == made
        known = [n for n, decision in enumerate(made) if decision.id in many[turn % 2].pending() and n % 4 != 3]
        many[turn % 2].learn_many([made[n].id for n in known], [truths[n] for n in known])
        for n in known:
            single[turn % 2].learn(made[n].id, truths[n])
        assert everything(*many) == everything(*single)
        assert_nothing_leaks(*many)


def test_batches_of_unequal_length_are_refused_and_change_nothing() -> None:
    lab, hq = pair()
    made = lab.classify_many(items(2))
    before = everything(lab, hq)
    with pytest.raises(SettingError, match=r"truths must be as many as decisions \(2\), got 1"):
        lab.learn_many([decision.id for decision in made], [1])
    with pytest.raises(SettingError, match=r"costs must be as many as decisions \(2\)"):
        lab.learn_many([decision.id for decision in made], [1, 1], [0.5])
    assert everything(lab, hq) == before
