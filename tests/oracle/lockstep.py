"""A network of learners and the same network of slow twins, driven side by side and compared at every step."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from cosend.core.kernel import columns as col
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import AskPeer, Cell, Choice, LabelledData
from cosend.core.policy.policies import POLICIES, ChangeAware, ContextSelection
from cosend.errors import SettledDecision
from tests.oracle.changes_twin import (
    ChangesThompsonTwin,
    ChangesTwin,
    ChangesZoomingIndexTwin,
    ChangesZoomingTwin,
    LooksTwin,
)
from tests.oracle.index_twin import IndexTwin, IndexTwinSettings
from tests.oracle.thompson_twin import ThompsonTwin
from tests.oracle.twin import Twin
from tests.oracle.twin_values import TwinArm, TwinCell, TwinSettings, net_mean
from tests.oracle.views_twin import Axes, ViewsTwin, candidates_of
from tests.oracle.zooming_twin import ZoomingIndexTwin, ZoomingIndexTwinSettings, ZoomingTwin

MAIN_ONLY = {"wait_limit", "max_waiting", "default_reward"}
TWINS: dict[str, tuple[type[Twin], type[Twin], type[TwinSettings]]] = {
    "CoS": (Twin, ChangesTwin, TwinSettings),
    "CellKLUCB": (IndexTwin, LooksTwin, IndexTwinSettings),
    "CellThompson": (ThompsonTwin, ChangesThompsonTwin, IndexTwinSettings),
    "Zooming": (ZoomingTwin, ChangesZoomingTwin, TwinSettings),
    "ZoomingKLUCB": (ZoomingIndexTwin, ChangesZoomingIndexTwin, ZoomingIndexTwinSettings),
}


class Around(NamedTuple):
    """What is around a policy: `ChangeAware` unless `rising` is None, `ContextSelection` unless there are no views."""

    rising: bool | None = None
    candidates: Literal["auto"] | tuple[Axes, ...] | None = None
    changes_outside: bool = False  # which of the two is around the other

    def wrap(self, policy: Any) -> Any:
        """Put both around a policy."""
        for is_changes in (not self.changes_outside, self.changes_outside):
            if is_changes and self.rising is not None:
                policy = ChangeAware(policy, rising=self.rising)
            elif not is_changes and self.candidates is not None:
                policy = ContextSelection(policy, candidates=self.candidates)
        return policy

    def twin(self, policy: str, told: dict[str, Any]) -> Twin | ViewsTwin:
        """Make the twin of a policy with both around it."""
        bare, changing, settings_class = TWINS[policy]
        inside = bare if self.rising is None else changing
        settings = settings_class(**told, rising=bool(self.rising))
        if self.candidates is None:
            return inside(settings)
        auto = candidates_of(settings.dimensions)
        return ViewsTwin(inside, settings, auto if self.candidates == "auto" else self.candidates)


ALONE = Around()


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
    twins: dict[str, Twin | ViewsTwin] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)
    history: list[tuple[str, Choice]] = field(default_factory=list)
    lasting: int | None = None  # slots until good arms become bad and bad ones good; None: never
    axis: int | None = None  # the axis whose upper half makes good arms bad and bad ones good; None: none does
    told: tuple[Any, ...] = ()  # for who reads a failing network
    chance_of_change: float = 0.5  # that an arm joins, leaves or costs something else, in a slot


def build(
    draw: random.Random,
    sizes: list[int],
    dimensions: int,
    options: dict[str, Any],
    policy: str = "CoS",
    around: Around = ALONE,
) -> Network:
    """Build learners and twins with the same settings: site i has sizes[i] functions."""
    names = [f"site{i}" for i in range(len(sizes))]
    network = Network(
        draw, {name: [f"{name}.f{j}" for j in range(size)] for name, size in zip(names, sizes, strict=True)}
    )
    seed = draw.randrange(2**40)
    network.told = (policy, options, around, dimensions)
    limits = {key: options[key] for key in MAIN_ONLY & options.keys()}
    rule = around.wrap(POLICIES[policy](**{key: value for key, value in options.items() if key not in MAIN_ONLY}))
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
        told = {"name": name, "seed": seed, "own": own, "peers": peers, "dimensions": dimensions, **options}
        network.twins[name] = around.twin(policy, told)
    return network


def play(network: Network, slots: int, max_delay: int, changes: bool = False) -> None:
    """Let an item arrive at every site in every slot, with labels that come late, in any order, or never."""
    dimensions = next(iter(network.learners.values())).dimensions
    for slot in range(slots):
        deliver(network, slot)
        if changes and network.draw.random() < network.chance_of_change:
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
            context,
            caller=site,
            request=choice.id,
            training=training,
            labelled=training or network.twins[choice.arm].shares_all(),
        )
        twin_answer = network.twins[choice.arm].answer(context, site, choice.id, training)
        assert (answer.function, answer.ticket) == (twin_answer.function, twin_answer.ticket)
        forward = (choice.arm, answer.ticket) if answer.ticket is not None else None
    if draw.random() < 0.95:
        cost = draw.choice([None, None, None, draw.random()])
        gain = reward_of(network, slot, choice.arm, context)
        network.due.append(Due(slot + draw.randint(0, max_delay), site, choice.id, gain, cost, forward))


def reward_of(network: Network, slot: int, arm: str, context: tuple[float, ...]) -> float:
    """Draw the reward of an arm: by chance, or from a mean that depends on the slot or on one axis."""
    draw = network.draw
    if network.lasting is None and network.axis is None:
        return draw.choice([0.0, 1.0, 1.0, draw.random()])
    flips = slot // network.lasting if network.lasting is not None else 0
    side = context[network.axis] >= 0.5 if network.axis is not None else 0
    is_good = (sum(arm.encode()) + flips + side) % 2 == 0
    return float(draw.random() < (0.95 if is_good else 0.05))


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
    assert (cell.view, cell.slices, cell.axes) == (expected.view, *expected.cell)
    return choice


def choose(network: Network, site: str, context: tuple[float, ...]) -> Choice:
    """Choose, asking peers as the rule wants."""
    told: dict[str, LabelledData] = {}
    while isinstance(need := network.learners[site].choose(context, told), AskPeer):
        assert need.peer not in told
        told[need.peer] = network.learners[need.peer].report(need.context)
    return need


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
        views = twin.views()
        overall = len(views)  # the view of the one cell that holds the rewards over all cells
        cells = [view.cells() for view in views]
        costs = {arm: twin.cost(arm) for arm in learner.arms.names}
        seen: list[tuple[int, int, tuple[int, ...]]] = []
        for row, cell in enumerate(learner.cells().values()):
            seen.append((cell.view, cell.slices, cell.axes))
            if cell.view == overall:
                compare_overall(learner, row, views)
            else:
                compare_cell(learner, row, cell, cells[cell.view][cell.slices, cell.axes], costs)
        expected = [(number, *key) for number in range(len(views)) for key in cells[number]]
        has_overall = isinstance(views[0], ThompsonTwin) and len(expected) > 0
        assert sorted(key for key in seen if key[0] < overall) == sorted(expected)
        assert sum(key[0] == overall for key in seen) == has_overall
        compare_views(learner, twin)


def compare_cell(learner: Learner, row: int, cell: Cell, expected: TwinCell, costs: dict[str, float]) -> None:
    """Compare one cell of a learner with that of the twin of its view."""
    assert cell.labelled == (expected.arrivals, expected.taught)
    assert not learner.ledger.site[col.ZOOMS] or learner.ledger.cells[row, col.CELL_LABELS] == expected.labels
    for number, arm in enumerate(learner.arms.names):
        numbers = expected.arms[arm]
        assert core_numbers(learner, row, number) == twin_numbers(numbers)
        if numbers.reward_count > 0:
            assert cell.estimates[arm].mean_reward == net_mean(numbers, costs[arm])


def compare_overall(learner: Learner, row: int, views: list[Twin]) -> None:
    """Compare the rewards over all cells, which are the same for every view."""
    for view in views:
        assert isinstance(view, ThompsonTwin)
        overall = view.overall()
        for number, arm in enumerate(learner.arms.names):
            assert core_numbers(learner, row, number)[:2] == twin_numbers(overall[arm])[:2]


def compare_views(learner: Learner, twin: Twin | ViewsTwin) -> None:
    """Compare which view is trusted, and how much."""
    if not isinstance(twin, ViewsTwin):
        return
    assert [view.axes for view in learner.views()] == twin.axes()
    for number, view in enumerate(learner.views()):
        assert (view.trusted, view.decided) == (number == twin.trusted, twin.decided[number])
        assert math.isclose(view.share, twin.share(number), rel_tol=0, abs_tol=1e-9)


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
