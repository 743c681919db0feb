"""A network of learners and the same network of slow twins, driven side by side and compared at every step."""

from __future__ import annotations

import math

import pytest

from cosend.core.learner.values import Answer, AskPeer, Choice, LabelledData
from cosend.errors import ArmError, SettledDecision
from tests.oracle.comparison import compare_ledgers, where_is
from tests.oracle.mixed_twin import MixedTwin
from tests.oracle.networks import Due, Failure, Network, build
from tests.oracle.trouble import is_left, pause_or_resume, some_out, some_silent

__all__ = ["Network", "agree", "arrive", "build", "change", "compare_ledgers", "deliver", "learn", "play"]
__all__ += ["train_all"]

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
    """Deliver what is due, and let an item arrive at every site."""
    deliver(network, slot)
    if changes and network.draw.random() < network.chance_of_change:
        change(network, network.draw.choice(list(network.learners)))
    for site in network.learners:
        if network.has_trouble:
            pause_or_resume(network, site)
        arrive(network, slot, site, some_context(network), max_delay)


def some_context(network: Network) -> tuple[float, ...]:
    """Draw a context. Coarse ones hit edges of cells, 0 and 1 too."""
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
    for site, learner in network.learners.items():
        twin = network.twins[site]
        assert isinstance(twin, MixedTwin)
        learner.add_axes(count, same, places)
        twin.add_axes(count, same, places)


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
    if network.has_trouble and not is_left(network, site):
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
    forward = None
    if choice.arm in network.learners:
        answer = call(network, site, choice, context)
        if answer is None:
            try_again(network, slot, Failure(slot, site, choice.id, failed | {choice.arm}, context, None), max_delay)
            return
        forward = (choice.arm, answer.ticket) if answer.ticket is not None else None
    if network.has_trouble and draw.random() < 0.2:
        later = slot + draw.randint(0, max_delay)
        network.failing.append(Failure(later, site, choice.id, failed | {choice.arm}, context, forward))
    elif draw.random() < 0.95:
        cost = draw.choice([None, None, None, draw.random()])
        gain = reward_of(network, slot, choice.arm, context)
        network.due.append(Due(slot + draw.randint(0, max_delay), site, choice.id, gain, cost, forward))


def call(network: Network, site: str, choice: Choice, context: tuple[float, ...]) -> Answer | None:
    """Let a peer answer; None if it has no function left for it."""
    training = choice.phase.name == "TRAIN"
    labelled = training or network.twins[choice.arm].shares_all()
    return answer_both(network, choice.arm, site, choice.id, context, training, labelled)


def answer_both(
    network: Network,
    site: str,
    caller: str,
    request: int,
    context: tuple[float, ...],
    training: bool,
    labelled: bool,
) -> Answer | None:
    """Let both answer, and compare what they answered."""
    learner, out = network.learners[site], NO_ARMS
    if network.has_trouble:
        if all(name in learner.arms.paused for name in learner.arms.own):
            with pytest.raises(ArmError, match="left"):
                learner.answer(context, caller=caller, request=request, training=training, labelled=labelled)
            return None
        out = some_out(network, site, frozenset(learner.arms.peers))
    (answer,) = learner.answer_many(
        [context], caller=caller, requests=[request], flags=[(training, labelled)], without=out
    )
    expected = network.twins[site].answer(context, caller, request, training, out)
    assert (answer.function, answer.ticket) == (expected.function, expected.ticket)
    return answer


def try_again(network: Network, slot: int, failure: Failure, max_delay: int) -> None:
    """Take a choice back in both, and choose for its item again if an arm is left."""
    learner, twin = network.learners[failure.site], network.twins[failure.site]
    try:
        again = learner.fail(failure.decision)
    except SettledDecision:
        with pytest.raises(KeyError):
            twin.fail(failure.decision)
        return
    assert twin.fail(failure.decision) == again
    if failure.forward is not None:
        withdraw(network, *failure.forward)
    failed = failure.failed.intersection(learner.arms.names)  # some may have left
    if is_left(network, failure.site, failed):
        give(network, slot, failure.site, failure.context, max_delay, failed, again)


def withdraw(network: Network, site: str, ticket: int) -> None:
    """Take an answer back in both, if it still waits."""
    try:
        network.learners[site].withdraw(ticket)
    except SettledDecision:
        with pytest.raises(KeyError):
            network.twins[site].withdraw(ticket)
    else:
        network.twins[site].withdraw(ticket)


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
    """Let both choose, and compare what they chose, how likely it was and in which cell."""
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
    """Deliver the labels that are due, in an order of their own, and then the failures."""
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
    """Give a label to both; both must agree whether it is still wanted."""
    others = some_scores(network, site, decision)
    try:
        network.learners[site].learn(decision, gain, cost, others)
    except SettledDecision:
        settled = True
    else:
        settled = False
    try:
        network.twins[site].learn(decision, gain, cost, others)
    except KeyError:
        assert settled
    else:
        assert not settled


def some_scores(network: Network, site: str, decision: int) -> dict[str, float]:
    """Draw what a label says of own functions that were not used; some could not be run."""
    if not network.scores:
        return {}
    learner, draw = network.learners[site], network.draw
    ((used, _, _),) = learner.find([decision])
    names = [name for number, name in enumerate(learner.arms.own) if number != used]
    return {name: draw.choice([0.0, 1.0, 1.0, 0.4]) for name in names if draw.random() < 0.8}


def train_all(network: Network, requests: int) -> None:
    """Let a stranger train every site again and again; every third label never comes."""
    for request in range(1, requests):
        context = some_context(network)
        for site in network.learners:
            answer = answer_both(network, site, "stranger", request, context, training=True, labelled=True)
            if answer is not None and request % 3:
                assert answer.ticket is not None
                learn(network, site, answer.ticket, network.draw.choice([0.0, 1.0]), None)
    compare_ledgers(network)
