"""Whatever may happen to a world of sites while items are in flight, and what must be true of it afterwards."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import pytest

from cosend.core.kernel import columns as col
from cosend.core.learner.state import State
from cosend.errors import ArmError, SettledDecision, UnansweredDecision, UnknownDecision
from cosend.site.fold import apply, fold, verify
from cosend.site.rewards import a_label, other_gains, right_or_wrong
from cosend.site.rules import Rules
from cosend.site.snapshot import restore_rules, rules_state
from tests.site.interleaving import Node, Weather, World, drawn_item, truth_of

LAST_LOOK: Final = Weather(hurry=0.5)  # nothing goes wrong any more, but what got lost is still lost


def whole(rules: Rules) -> tuple[str, dict[str, tuple[Any, str, bytes]]]:
    """Return the whole state, to the last bit, in a form that compares."""
    state = rules_state(rules)
    arrays = {name: (array.shape, str(array.dtype), array.tobytes()) for name, array in state.arrays.items()}
    return json.dumps(state.facts, sort_keys=True), arrays


def restored(rules: Rules) -> Rules:
    """Return new rules with a saved state, which went through JSON; they write to no journal yet."""
    arms, state = rules.learner.arms, rules_state(rules)
    again = Rules(rules.name, local=arms.own, axes=rules.axes)
    for peer in arms.peers:
        again.add_peer(peer)
    restore_rules(again, State(json.loads(json.dumps(state.facts)), state.arrays))()
    return again


class Mishaps:
    """Draws what happens next in a world."""

    def __init__(self, world: World, in_flight: int) -> None:
        self.world, self.in_flight, self.draw = world, in_flight, world.draw
        self.joined = self.most = 0  # arms that joined, tasks that were in flight at once
        self.actions = [
            (self.items_come, 12 if in_flight < 128 else 50),
            (self.something_advances, 40),
            (self.something_arrives, 30),
            (self.a_reply_arrives, 12),
            (self.labels_come, 8),
            (self.something_is_cancelled, 2),
            (self.an_arm_changes, 3),
            (self.a_label_is_refused, 1),
            (self.a_site_starts_anew, 0.4),
        ]

    def happen(self, count: int) -> None:
        actions, weights = zip(*self.actions, strict=True)
        for action in self.draw.choices(actions, weights, k=count):
            action(self.draw.choice(list(self.world.nodes.values())))

    def items_come(self, node: Node) -> None:
        flying = sum(task.is_own for task in self.world.tasks)
        self.most = max(self.most, flying)
        if flying < self.in_flight:
            count = min(self.in_flight - flying, self.draw.choice([1, 1, 1, 2, 3, 9]))
            self.world.come(node, [drawn_item(self.draw) for _ in range(count)])

    def something_advances(self, node: Node) -> None:
        if self.world.tasks:
            self.world.advance(self.draw.choice(self.world.tasks))

    def something_arrives(self, node: Node) -> None:
        links = [link for link, messages in self.world.links.items() if messages]
        if links:
            self.world.deliver(self.draw.choice(links))

    def a_reply_arrives(self, node: Node) -> None:
        if self.world.replies:
            self.world.deliver_reply(self.draw.randrange(len(self.world.replies)))

    def labels_come(self, node: Node) -> None:
        count = min(len(node.answered), self.draw.choice([1, 1, 2, 5]))
        self.label(node, self.draw.sample(sorted(node.answered), count))

    def label(self, node: Node, ids: list[int], *, costs: bool = True) -> None:
        """Let the labels of decisions come; for those that wait no longer, that is an error."""
        waiting = [ticket for ticket in ids if ticket in node.rules.learner.registry]
        for ticket in set(ids).difference(waiting):
            with pytest.raises(SettledDecision):
                node.rules.labels_of([*waiting, ticket])
            self.world.seen["label too late"] += 1
            del node.answered[ticket]
        labels = node.rules.labels_of(waiting)
        truths = [truth_of(node.answered.pop(ticket)) for ticket in waiting]
        gains = [float(label == truth) for label, truth in zip(labels, truths, strict=True)]
        paid = [self.draw.choice([None, 0.1]) for _ in waiting] if costs and self.draw.random() < 0.3 else None
        others = other_gains(right_or_wrong, node.rules.others_of(waiting), truths, a_label)
        self.world.seen["scored beside"] += any(others)
        self.world.post(node.name, node.rules.settle(waiting, truths, gains, paid, others).forwards)

    def something_is_cancelled(self, node: Node) -> None:
        if self.world.tasks:
            self.world.cancel(self.draw.choice(self.world.tasks))

    def an_arm_changes(self, node: Node) -> None:
        rules, arms = node.rules, node.rules.learner.arms
        arm = self.draw.choice(arms.names)
        change = self.draw.choice(["local", "peer", "remove", "pause", "resume", "resume", "cost"])
        away = sorted(set(self.world.nodes) - {node.name, *arms.peers})
        self.world.seen[change] += 1
        if change == "local":
            self.joined += 1
            rules.add_local(f"{node.name}-{self.joined}", self.draw.random() / 2)
        elif change == "peer" and away:
            rules.add_peer(self.draw.choice(away), self.draw.random() / 2, functions=self.draw.randint(1, 3))
        elif change == "remove":
            self.remove(node, arm)
        elif change in ("pause", "resume"):
            getattr(rules, change)(arm)
        elif change == "cost":
            rules.set_cost(arm, self.draw.random() / 2)

    def remove(self, node: Node, arm: str) -> None:
        try:
            self.world.post(node.name, node.rules.remove(arm))
        except ArmError:
            assert list(node.rules.learner.arms.own) == [arm]

    def a_label_is_refused(self, node: Node) -> None:
        """Let a label come for an id in flight, or for an answer to a peer: it is refused and changes nothing."""
        before = whole(node.rules)
        for ticket, entry in node.rules.open().items():
            if entry.caller is not None or not entry.answered:
                error = UnknownDecision if entry.caller else UnansweredDecision
                with pytest.raises(error):
                    node.rules.settle([ticket], [1], [1.0])
                self.world.seen["refused"] += 1
                break
        assert whole(node.rules) == before

    def a_site_starts_anew(self, node: Node) -> None:
        """Let a site go on from its log or from a saved state, whatever is in flight."""
        before = whole(node.rules)
        rules = self.draw.choice([restored(node.rules), fold(node.log, axes=node.rules.axes)])
        assert whole(rules) == before
        rules.journal = node.log.append
        node.rules = rules
        self.world.seen["anew"] += 1

    def settle_down(self) -> None:
        """Let everything that is on its way arrive and be done."""
        world, anybody = self.world, next(iter(self.world.nodes.values()))
        while world.tasks or world.replies or any(world.links.values()):
            for happens in (self.something_advances, self.something_arrives, self.a_reply_arrives):
                happens(anybody)

    def end(self) -> None:
        """Let everything be done; every decision that is left gets its label, or is taken back."""
        self.world.weather = LAST_LOOK
        self.settle_down()
        for node in self.world.nodes.values():
            left = sorted(node.answered)
            self.draw.shuffle(left)
            for ticket in left[: len(left) // 2]:
                self.label(node, [ticket])
            self.world.post(node.name, node.rules.withdraw(left[len(left) // 2 :]))
        self.settle_down()


def assert_nothing_is_left(node: Node) -> None:
    """Nothing waits, and no cell believes that something does; but a cube that was split has forgotten what did."""
    rules, ledger = node.rules, node.rules.learner.ledger
    assert rules.open() == {}
    assert rules.learner.registry.notes == {}
    assert rules.served.is_empty()
    assert rules.served.rows() == []
    assert rules.learner.registry.take_overdue() == []
    rows = int(ledger.site[col.ROWS])
    waiting = ledger.counts[:rows][..., [col.WAITING, col.TRAINING_WAITING]]
    is_split = ledger.cells[:rows, col.CELL_LEVEL] < 0
    assert (waiting >= 0).all()
    assert not waiting[~is_split].any()
    assert sorted(node.ids) == list(range(1, rules.learner.last_id + 1))


def assert_log_is_the_state(node: Node, draw: random.Random) -> None:
    """Fold the log to the live state, at once and in two parts; deciding again finds no difference."""
    live = whole(node.rules)
    assert whole(fold(node.log)) == live
    half = draw.randrange(1, len(node.log) + 1)
    rules = restored(fold(node.log[:half], axes=node.rules.axes))
    for event in node.log[half:]:
        apply(event, rules)
    assert whole(rules) == live
    assert verify(node.log) == []
