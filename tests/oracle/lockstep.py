"""A network of learners and the same network of slow twins, driven side by side and compared at every step."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from cosend.algorithm import layout as col
from cosend.algorithm.learner import Learner
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import POLICIES
from cosend.algorithm.readout import place_of
from cosend.algorithm.values import Answer, AskPeer, Cell, Choice, LabelledData
from cosend.errors import ArmError, SettledDecision
from tests.oracle.cell_twins import (
    IndexTwin,
    IndexTwinSettings,
    ZoomingIndexTwin,
    ZoomingIndexTwinSettings,
    ZoomingTwin,
)
from tests.oracle.mixed_twin import MixedTwin
from tests.oracle.twin import Context, Twin, TwinCell, TwinSettings, net_mean

MAIN_ONLY = {"wait_limit", "max_pending", "default_reward"}
TWINS: dict[str, tuple[type[Twin], type[TwinSettings]]] = {
    "CoS": (Twin, TwinSettings),
    "CellKLUCB": (IndexTwin, IndexTwinSettings),
    "Zooming": (ZoomingTwin, TwinSettings),
    "ZoomingKLUCB": (ZoomingIndexTwin, ZoomingIndexTwinSettings),
    "MixedViews": (MixedTwin, IndexTwinSettings),
}


class Due(NamedTuple):
    """A label that is on its way."""

    slot: int
    site: str
    decision: int
    gain: float
    cost: float | None
    forward: tuple[str, int] | None  # the peer that was called, and its ticket


class Failure(NamedTuple):
    """A choice whose arm will turn out to have failed."""

    slot: int
    site: str
    decision: int
    failed: frozenset[str]  # that arm, and those that have failed for the same item before
    context: Context
    forward: tuple[str, int] | None


@dataclass
class Network:
    """What a scenario has made so far."""

    draw: random.Random
    functions: dict[str, list[str]]
    learners: dict[str, Learner] = field(default_factory=dict)
    twins: dict[str, Twin] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)
    failing: list[Failure] = field(default_factory=list)
    history: list[tuple[str, Choice]] = field(default_factory=list)
    lasting: int | None = None  # slots until good arms become bad and bad ones good; None: never
    axis: int | None = None  # the axis whose upper half makes good arms bad and bad ones good; None: none does
    categories: frozenset[int] = frozenset()  # the axes that have codes
    has_trouble: bool = False  # arms are paused, left out and resumed, and some fail
    scores: bool = False  # labels score own functions that were not used
    lacks: float = 0.0  # how likely a context lacks a number


def build(
    draw: random.Random,
    sizes: list[int],
    dimensions: int,
    options: dict[str, Any],
    policy: str = "CoS",
    categories: frozenset[int] = frozenset(),
    scores: bool = False,
) -> Network:
    """Build learners and twins with the same settings: site i has sizes[i] functions."""
    functions = {f"site{i}": [f"site{i}.f{j}" for j in range(size)] for i, size in enumerate(sizes)}
    network = Network(draw, functions, categories=categories, scores=scores)
    seed, (twin, settings) = draw.randrange(2**40), TWINS[policy]
    rule = POLICIES[policy](**{key: value for key, value in options.items() if key not in MAIN_ONLY})
    default = options.get("default_reward")
    patience = Patience(
        wait_limit=options.get("wait_limit"),
        max_pending=options.get("max_pending", 1_000_000),
        overdue="drop" if default is None else default,
    )
    for name, own in functions.items():
        told: dict[str, Any] = {
            "own": {function: draw.choice([0.0, 0.0, 0.1, 0.25]) for function in own},
            "peers": {peer: draw.choice([0.0, 0.05, 0.5]) for peer in functions if peer != name},
            "dimensions": dimensions,
            "categories": categories,
            "seed": seed,
        }
        if policy == "MixedViews":
            told["improving"] = frozenset(function for function in own if draw.random() < 0.3)
        scored: Any = "all" if scores else "used"
        network.learners[name] = Learner(name, policy=rule, patience=patience, score_local=scored, **told)
        network.twins[name] = twin(settings(name=name, scores=scores, **told, **options))
    return network


def both(network: Network, site: str, verb: str, *given: Any, **options: Any) -> Any:
    """Do something to a learner and its twin; returns what both say, or SettledDecision if it waits no longer."""
    try:
        said = getattr(network.learners[site], verb)(*given, **options)
    except SettledDecision:
        with pytest.raises(KeyError):
            getattr(network.twins[site], verb)(*given, **options)
        return SettledDecision
    expected = getattr(network.twins[site], verb)(*given, **options)
    assert verb not in {"fail", "report"} or said == expected
    return said


# Playing


NO_ARMS: frozenset[str] = frozenset()


def play(network: Network, slots: int, max_delay: int, changes: bool = False) -> None:
    """Let an item arrive at every site in every slot, with labels that come late, in any order, or never."""
    for slot in range(slots):
        play_slot(network, slot, max_delay, changes)
    while network.due or network.failing:  # what is chosen again at the end has a label too
        slots += max_delay + 1
        deliver(network, slots)
    compare_ledgers(network)


def play_slot(network: Network, slot: int, max_delay: int, changes: bool = False) -> None:
    deliver(network, slot)
    if changes and network.draw.random() < 0.5:
        change(network, network.draw.choice(list(network.learners)))
    for site in network.learners:
        if network.has_trouble:
            pause_or_resume(network, site)
        arrive(network, slot, site, some_context(network), max_delay)


def some_context(network: Network) -> tuple[float, ...]:
    draw, dimensions = network.draw, next(iter(network.learners.values())).dimensions
    return tuple(
        math.nan
        if network.lacks and draw.random() < network.lacks
        else float(draw.choice([0, 0, 1, 2, 4095]))
        if axis in network.categories
        else draw.choice([draw.random(), draw.randrange(9) / 8])
        for axis in range(dimensions)
    )


def grow(network: Network, count: int, same: int = 0, places: tuple[float, ...] = ()) -> None:
    """Let so many features get axes, at every site; `same` get none yet, `places` are of those that had none."""
    for site in network.learners:
        both(network, site, "add_axes", count, same, places)


def change(network: Network, site: str) -> None:
    """Change the cost of an arm, or let an arm leave or join."""
    draw, arms = network.draw, network.learners[site].arms
    kind = draw.choice(["cost", "leave", "join"])
    arm = draw.choice(arms.names)
    absent = [peer for peer in network.learners if peer != site and peer not in arms.peers]
    cost = draw.choice([0.0, 0.1, 0.3])
    if kind == "cost":
        both(network, site, "set_cost", arm, cost)
    elif kind == "leave" and (arm in arms.peers or len(arms.own) > 1):
        both(network, site, "remove", arm)
    elif kind == "join" and absent:
        both(network, site, "add_peer", absent[0], cost, draw.randint(1, 4))
    elif kind == "join":
        name, improves = f"{site}.g{draw.randrange(10**9)}", draw.random() < 0.3
        both(network, site, "add_own", name, cost, improves=improves)


def arrive(network: Network, slot: int, site: str, context: tuple[float, ...], max_delay: int) -> None:
    if network.has_trouble and not free(network, site):
        with pytest.raises(ArmError, match="has no arm left"):
            network.learners[site].choose(context)
        return
    give(network, slot, site, context, max_delay)


def give(
    network: Network,
    slot: int,
    site: str,
    context: tuple[float, ...],
    max_delay: int,
    failed: frozenset[str] = NO_ARMS,
    again: int = 0,
) -> None:
    """Choose for an item, call the peer that it goes to, and let its label, or a failure, come in a later slot."""
    draw = network.draw
    choice = agree(network, site, context, some_out(network, site, failed), again)
    network.history.append((site, choice))
    forward, failed = None, failed | {choice.arm}
    if choice.arm in network.learners:
        training = choice.phase.name == "TRAIN"
        labelled = training or network.twins[choice.arm].shares_all()
        answer = answer_both(network, choice.arm, site, choice.id, context, training, labelled)
        if answer is None:
            try_again(network, slot, Failure(slot, site, choice.id, failed, context, None), max_delay)
            return
        forward = (choice.arm, answer.ticket) if answer.ticket is not None else None
    if network.has_trouble and draw.random() < 0.2:
        later = slot + draw.randint(0, max_delay)
        network.failing.append(Failure(later, site, choice.id, failed, context, forward))
    elif draw.random() < 0.95:
        cost = draw.choice([None, None, None, draw.random()])
        gain = reward_of(network, slot, choice.arm, context)
        network.due.append(Due(slot + draw.randint(0, max_delay), site, choice.id, gain, cost, forward))


def answer_both(
    network: Network,
    site: str,
    caller: str,
    request: int,
    context: tuple[float, ...],
    training: bool,
    labelled: bool,
) -> Answer | None:
    learner, out = network.learners[site], NO_ARMS
    asked: dict[str, Any] = {"caller": caller, "requests": [request], "flags": [(training, labelled)]}
    if network.has_trouble:
        if all(name in learner.arms.paused for name in learner.arms.own):
            with pytest.raises(ArmError, match="left"):
                learner.answer_many([context], **asked)
            return None
        out = some_out(network, site, frozenset(learner.arms.peers))
    (answer,) = learner.answer_many([context], **asked, without=out)
    expected = network.twins[site].answer(context, caller, request, training, out)
    assert (answer.function, answer.ticket) == (expected.function, expected.ticket)
    return answer


def try_again(network: Network, slot: int, failure: Failure, max_delay: int) -> None:
    """Take a choice back in both, and choose for its item again if an arm is left."""
    again = both(network, failure.site, "fail", failure.decision)
    if again is SettledDecision:
        return
    if failure.forward is not None:
        site, ticket = failure.forward
        both(network, site, "withdraw", ticket)
    failed = failure.failed.intersection(network.learners[failure.site].arms.names)  # some may have left
    if free(network, failure.site, failed):
        give(network, slot, failure.site, failure.context, max_delay, failed, again)


def reward_of(network: Network, slot: int, arm: str, context: tuple[float, ...]) -> float:
    """Draw the reward of an arm: by chance, or from a mean that depends on the slot or on one axis."""
    draw = network.draw
    if network.lasting is None and network.axis is None:
        return draw.choice([0.0, 1.0, 1.0, draw.random()])
    flips = slot // network.lasting if network.lasting is not None else 0
    side = context[network.axis] >= 0.5 if network.axis is not None else 0
    is_good = (sum(arm.encode()) + flips + side) % 2 == 0
    return float(draw.random() < (0.95 if is_good else 0.05))


def agree(
    network: Network, site: str, context: tuple[float, ...], out: frozenset[str] = NO_ARMS, again: int = 0
) -> Choice:
    silent = some_silent(network, site, out)
    choice = choose(network, site, context, out, silent, again)
    expected = network.twins[site].choose(
        context, lambda peer: None if peer in silent else network.twins[peer].report(context), out, again
    )
    assert (choice.id, choice.phase.name.lower(), choice.arm) == (expected.id, expected.phase, expected.arm)
    assert choice.propensity == 1.0 / expected.candidates
    assert where_is(network.learners[site], choice.cell) == (expected.view, *expected.cell)
    return choice


def choose(
    network: Network, site: str, context: tuple[float, ...], out: frozenset[str], silent: frozenset[str], again: int
) -> Choice:
    """Choose, asking peers as the rule wants; one that is silent is left out from then on."""
    told: dict[str, LabelledData] = {}
    while isinstance(need := network.learners[site].choose(context, told, without=out, again=again), AskPeer):
        assert need.peer not in {*told, *out}
        if need.peer in silent:
            out |= {need.peer}
        else:
            told[need.peer] = network.learners[need.peer].report(need.context)
    return need


def deliver(network: Network, slot: int) -> None:
    now = [due for due in network.due if due.slot <= slot]
    network.due = [due for due in network.due if due.slot > slot]
    network.draw.shuffle(now)
    for due in now:
        learn(network, due.site, due.decision, due.gain, due.cost)
        if due.forward is not None:
            learn(network, *due.forward, due.gain, None)
    failing = [failure for failure in network.failing if failure.slot <= slot]
    network.failing = [failure for failure in network.failing if failure.slot > slot]
    for failure in failing:
        try_again(network, slot, failure, max_delay=2)


def learn(network: Network, site: str, decision: int, gain: float, cost: float | None) -> None:
    others, learner, draw = {}, network.learners[site], network.draw
    if network.scores:
        ((used, _, _),) = learner.find([decision])
        names = [name for number, name in enumerate(learner.arms.own) if number != used]
        others = {name: draw.choice([0.0, 1.0, 1.0, 0.4]) for name in names if draw.random() < 0.8}
    both(network, site, "learn", decision, gain, cost, others)


def train_all(network: Network, requests: int) -> None:
    for request in range(1, requests):
        context = some_context(network)
        for site in network.learners:
            answer = answer_both(network, site, "stranger", request, context, training=True, labelled=True)
            if answer is not None and request % 3:
                assert answer.ticket is not None
                learn(network, site, answer.ticket, network.draw.choice([0.0, 1.0]), None)
    compare_ledgers(network)


# Arms that are paused, left out, silent or resumed


def free(network: Network, site: str, failed: frozenset[str] = NO_ARMS) -> list[str]:
    arms = network.learners[site].arms
    return [name for name in arms.names if name not in arms.paused and name not in failed]


def some_out(network: Network, site: str, failed: frozenset[str]) -> frozenset[str]:
    """Return those that have failed and, now and then, others to be left out of a choice; one arm stays."""
    if not network.has_trouble or network.draw.random() < 0.6:
        return failed
    stays = network.draw.choice(free(network, site, failed))
    others = [name for name in network.learners[site].arms.names if name != stays and network.draw.random() < 0.5]
    return failed.union(others)


def some_silent(network: Network, site: str, out: frozenset[str]) -> frozenset[str]:
    """Return peers that will not tell how much labelled data they have; an arm stays that need not be asked."""
    if not network.has_trouble:
        return NO_ARMS
    silent = frozenset(peer for peer in network.learners[site].arms.peers if network.draw.random() < 0.3)
    return silent if free(network, site, out | silent) else NO_ARMS


def pause_or_resume(network: Network, site: str) -> None:
    """Pause an arm of a site now and then, or let one be used again."""
    arms = network.learners[site].arms
    if network.draw.random() < 0.2:
        arm = network.draw.choice(arms.names)
        both(network, site, "resume" if arm in arms.paused or not free(network, site) else "pause", arm)


# Comparing what was learnt, number by number


def compare_ledgers(network: Network) -> None:
    for site, learner in network.learners.items():
        twin = network.twins[site]
        if isinstance(twin, MixedTwin):
            compare_mixed(learner, twin)
            continue
        costs = {arm: twin.cost(arm) for arm in learner.arms.names}
        seen = learner.cells().values()
        assert sorted((cell.slices, cell.axes) for cell in seen) == sorted(twin.cells)
        for row, cell in enumerate(seen):
            compare_cell(learner, row, cell, twin.cells[cell.slices, cell.axes], costs)
        compare_waiting(learner, twin)


def compare_mixed(learner: Learner, twin: MixedTwin) -> None:
    ledger = learner.ledger
    assert [view.share for view in learner.views()] == twin.weights
    assert [view.axes for view in learner.views()] == [view.axes for view in twin.mixed]
    assert (ledger.site[col.PATTERN], ledger.site[col.NEWEST]) == (twin.pattern, twin.newest)
    cells = learner.cells()
    assert len(cells) == sum(map(len, twin.rows))
    costs = {arm: twin.cost(arm) for arm in learner.arms.names}
    for row, cell in enumerate(cells.values()):
        expected = twin.rows[cell.view][cell.axes]
        assert ledger.cells[row, col.CELL_LABELS] == expected.labels
        compare_cell(learner, row, cell, expected, costs)
        evidence = [expected.arms[arm].evidence for arm in learner.arms.names]
        assert ledger.rewards[row, : len(evidence), col.EVIDENCE].tolist() == evidence
    compare_waiting(learner, twin)


def where_is(learner: Learner, key: int) -> tuple[int, int, tuple[int, ...]]:
    """Return the view, the slices and the indices of one cell, without reading all the others for it."""
    ledger = learner.ledger
    (row,) = np.flatnonzero(ledger.cells[: ledger.site[col.ROWS], col.CELL_KEY] == key)
    view, axes, slices = place_of(ledger, int(row))
    return view, slices, axes


def compare_waiting(learner: Learner, twin: Twin) -> None:
    """Compare what waits for a label, with the arrival number of each, and how many items have come."""
    waiting = {entry.id: entry.arrival for entry in learner.registry.entries()}
    assert waiting == {id: waited.arrival for id, waited in twin.waiting.items()}
    assert learner.arrivals == twin.arrivals


def compare_cell(learner: Learner, row: int, cell: Cell, expected: TwinCell, costs: dict[str, float]) -> None:
    assert cell.labelled == (expected.arrivals, expected.taught)
    assert not learner.ledger.site[col.ZOOMS] or learner.ledger.cells[row, col.CELL_LABELS] == expected.labels
    for number, arm in enumerate(learner.arms.names):
        numbers = expected.arms[arm]
        rewards, counts = learner.ledger.rewards[row, number], learner.ledger.counts[row, number]
        assert rewards[:2].tolist() == [numbers.reward_sum, numbers.reward_count]
        waiting = [numbers.pending_count, numbers.training_count, numbers.my_training_count]
        assert counts.tolist() == [*waiting, numbers.training_waiting_count]
        if numbers.reward_count > 0:
            assert cell.estimates[arm].mean_reward == net_mean(numbers, costs[arm])
