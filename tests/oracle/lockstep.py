"""A network of learners and the same network of slow twins, driven side by side and compared at every step."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cosend.core.learner import Learner
from cosend.core.policy import POLICIES
from cosend.core.values import AskPeer, Choice, LabelledData
from cosend.core.waiting import Patience
from cosend.errors import SettledDecision
from tests.oracle.index_twin import IndexTwin, IndexTwinSettings
from tests.oracle.thompson_twin import ThompsonTwin
from tests.oracle.twin import Twin
from tests.oracle.twin_values import TwinArm, TwinSettings, net_mean
from tests.oracle.zooming_twin import ZoomingIndexTwin, ZoomingIndexTwinSettings, ZoomingTwin

MAIN_ONLY = {"wait_limit", "max_waiting", "default_reward"}
TWINS: dict[str, tuple[type[Twin], type[TwinSettings]]] = {
    "CoS": (Twin, TwinSettings),
    "CellKLUCB": (IndexTwin, IndexTwinSettings),
    "CellThompson": (ThompsonTwin, IndexTwinSettings),
    "Zooming": (ZoomingTwin, TwinSettings),
    "ZoomingKLUCB": (ZoomingIndexTwin, ZoomingIndexTwinSettings),
}
OVERALL = 1  # the view of the one cell that holds the rewards over all cells


class Due(NamedTuple):
    """A label that is on its way."""

    slot: int
    site: str
    decision: int
    gain: float
    cost: float | None
    forward: tuple[str, int] | None  # the peer that was called, and its ticket


@dataclass
class Network:
    """What a scenario has made so far."""

    draw: random.Random
    functions: dict[str, list[str]]
    learners: dict[str, Learner] = field(default_factory=dict)
    twins: dict[str, Twin] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)
    history: list[tuple[str, Choice]] = field(default_factory=list)


def build(
    draw: random.Random, sizes: list[int], dimensions: int, options: dict[str, Any], policy: str = "CoS"
) -> Network:
    """Build learners and twins with the same settings: site i has sizes[i] functions."""
    twin_class, settings_class = TWINS[policy]
    names = [f"site{i}" for i in range(len(sizes))]
    network = Network(
        draw, {name: [f"{name}.f{j}" for j in range(size)] for name, size in zip(names, sizes, strict=True)}
    )
    seed = draw.randrange(2**40)
    limits = {key: options[key] for key in MAIN_ONLY & options.keys()}
    rule = POLICIES[policy](**{key: value for key, value in options.items() if key not in MAIN_ONLY})
    for name in names:
        own = {function: draw.choice([0.0, 0.0, 0.1, 0.25]) for function in network.functions[name]}
        peers = {peer: draw.choice([0.0, 0.05, 0.5]) for peer in names if peer != name}
        patience = Patience(
            wait_limit=limits.get("wait_limit"),
            max_waiting=limits.get("max_waiting", 1_000_000),
            overdue="drop" if limits.get("default_reward") is None else limits["default_reward"],
        )
        network.learners[name] = Learner(
            name, own=own, peers=peers, dimensions=dimensions, policy=rule, patience=patience, seed=seed
        )
        network.twins[name] = twin_class(
            settings_class(name=name, seed=seed, own=own, peers=peers, dimensions=dimensions, **options)
        )
    return network


def play(network: Network, slots: int, max_delay: int, changes: bool = False) -> None:
    """Let an item arrive at every site in every slot, with labels that come late, in any order, or never."""
    dimensions = next(iter(network.learners.values())).dimensions
    for slot in range(slots):
        deliver(network, slot)
        if changes and network.draw.random() < 0.5:
            change(network, network.draw.choice(list(network.learners)))
        for site in network.learners:
            # Coarse contexts hit edges of cells, 0 and 1 too.
            context = tuple(
                network.draw.choice([network.draw.random(), network.draw.randrange(9) / 8]) for _ in range(dimensions)
            )
            arrive(network, slot, site, context, max_delay)
    deliver(network, slots + max_delay + 1)
    compare_ledgers(network)


def change(network: Network, site: str) -> None:
    """Change the cost of an arm, or let an arm leave or join."""
    draw, learner, twin = network.draw, network.learners[site], network.twins[site]
    kind = draw.choice(["cost", "leave", "join"])
    arm = draw.choice(learner.arms.names)
    absent = [peer for peer in network.learners if peer != site and peer not in learner.arms.peers]
    cost = draw.choice([0.0, 0.1, 0.3])
    if kind == "cost":
        learner.set_cost(arm, cost)
        twin.set_cost(arm, cost)
    elif kind == "leave" and (arm in learner.arms.peers or len(learner.arms.own) > 1):
        learner.remove(arm)
        twin.remove(arm)
    elif kind == "join" and absent:
        functions = draw.randint(1, 4)
        learner.add_peer(absent[0], cost, functions)
        twin.add_peer(absent[0], cost, functions)
    elif kind == "join":
        name = f"{site}.g{draw.randrange(10**9)}"
        learner.add_own(name, cost)
        twin.add_own(name, cost)


def arrive(network: Network, slot: int, site: str, context: tuple[float, ...], max_delay: int) -> None:
    """Let one item arrive at both networks and compare what is decided."""
    draw = network.draw
    choice = agree(network, site, context)
    network.history.append((site, choice))
    forward = None
    if choice.arm in network.learners:
        training = choice.phase.name == "TRAIN"
        answer = network.learners[choice.arm].answer(
            context, caller=site, request=choice.id, training=training, labelled=training or shares_all(network, site)
        )
        twin_answer = network.twins[choice.arm].answer(context, site, choice.id, training)
        assert (answer.function, answer.ticket) == (twin_answer.function, twin_answer.ticket)
        forward = (choice.arm, answer.ticket) if answer.ticket is not None else None
    if draw.random() < 0.95:
        cost = draw.choice([None, None, None, draw.random()])
        gain = draw.choice([0.0, 1.0, 1.0, draw.random()])
        network.due.append(Due(slot + draw.randint(0, max_delay), site, choice.id, gain, cost, forward))


def agree(network: Network, site: str, context: tuple[float, ...]) -> Choice:
    """Let both choose, and compare what they chose, how likely it was and in which cell."""
    choice = choose(network, site, context)
    expected = network.twins[site].choose(context, lambda peer: network.twins[peer].report(context))
    assert (choice.id, choice.phase.name.lower(), choice.arm) == (expected.id, expected.phase, expected.arm)
    if expected.candidates is None:
        assert math.isnan(choice.propensity)
    else:
        assert choice.propensity == 1.0 / expected.candidates
    cell = network.learners[site].cells()[choice.cell]
    assert (cell.view, cell.slices, cell.axes) == (0, *expected.cell)
    return choice


def choose(network: Network, site: str, context: tuple[float, ...]) -> Choice:
    """Choose, asking peers as the rule wants."""
    told: dict[str, LabelledData] = {}
    while isinstance(need := network.learners[site].choose(context, told), AskPeer):
        assert need.peer not in told
        told[need.peer] = network.learners[need.peer].report(need.context)
    return need


def shares_all(network: Network, site: str) -> bool:
    """Tell whether a site passes the label on after every call."""
    return network.learners[site].policy.share_labels == "always"


def deliver(network: Network, slot: int) -> None:
    """Deliver the labels that are due, in an order of their own."""
    now = [due for due in network.due if due.slot <= slot]
    network.due = [due for due in network.due if due.slot > slot]
    network.draw.shuffle(now)
    for due in now:
        learn(network, due.site, due.decision, due.gain, due.cost)
        if due.forward is not None:
            learn(network, *due.forward, due.gain, None)


def learn(network: Network, site: str, decision: int, gain: float, cost: float | None) -> None:
    """Give a label to both; both must agree whether it is still wanted."""
    try:
        network.learners[site].learn(decision, gain, cost)
    except SettledDecision:
        settled = True
    else:
        settled = False
    try:
        network.twins[site].learn(decision, gain, cost)
    except KeyError:
        assert settled
    else:
        assert not settled


def train_all(network: Network, requests: int) -> None:
    """Let a stranger train every site again and again; every third label never comes."""
    dimensions = next(iter(network.learners.values())).dimensions
    for request in range(1, requests):
        context = tuple(network.draw.random() for _ in range(dimensions))
        for site, learner in network.learners.items():
            answer = learner.answer(context, caller="stranger", request=request, training=True, labelled=True)
            expected = network.twins[site].answer(context, "stranger", request, True)
            assert (answer.function, answer.ticket) == (expected.function, expected.ticket)
            assert answer.ticket is not None
            if request % 3:
                learn(network, site, answer.ticket, network.draw.choice([0.0, 1.0]), None)
    compare_ledgers(network)


def compare_ledgers(network: Network) -> None:
    """Compare everything that was learnt, number by number."""
    for site, learner in network.learners.items():
        twin = network.twins[site]
        expected = twin.cells()
        seen, overall_row = set(), None
        for row, cell in enumerate(learner.cells().values()):
            if cell.view == OVERALL:
                assert overall_row is None
                overall_row = row
                continue
            key = (cell.slices, cell.axes)
            seen.add(key)
            assert cell.labelled == (expected[key].arrivals, expected[key].taught)
            for number, arm in enumerate(learner.arms.names):
                numbers = expected[key].arms[arm]
                assert core_numbers(learner, row, number) == twin_numbers(numbers)
                if numbers.reward_count > 0:
                    assert cell.estimates[arm].mean_reward == net_mean(numbers, twin.cost(arm))
        assert seen == expected.keys()
        assert (overall_row is not None) == (isinstance(twin, ThompsonTwin) and len(expected) > 0)
        if overall_row is not None and isinstance(twin, ThompsonTwin):
            for number, arm in enumerate(learner.arms.names):
                assert core_numbers(learner, overall_row, number)[:2] == twin_numbers(twin.overall()[arm])[:2]


def core_numbers(learner: Learner, row: int, number: int) -> list[float]:
    """Return what a learner keeps of one arm in one cell."""
    return [*learner.ledger.rewards[row, number, :2].tolist(), *learner.ledger.counts[row, number].tolist()]


def twin_numbers(arm: TwinArm) -> list[float]:
    """Return the same of a twin, in the same order."""
    return [
        arm.reward_sum,
        arm.reward_count,
        arm.waiting_count,
        arm.training_count,
        arm.my_training_count,
        arm.training_waiting_count,
    ]
