"""A small world in which anything may happen at any time: sites as bare rules, items in flight, and links between them.

A task is an item, or an answer for a peer, on its way. It pauses at every `yield`, and meanwhile anything may happen. A
link carries what one site sends another in its order: reports and calls may get lost, a post always arrives, perhaps
twice. Replies come back in any order, late or never.

It drives the rules by five rules of its own, which every driver that works on many items at once must follow:

- the calls of a step are sent before its forwards, and a link keeps their order: else a peer hears that no label will
  come before it is asked, and waits for ever;
- a call is served when it comes, and again right after a classifier has failed, for the same reason;
- an answer that `fail` does not know any more is not tried again: nobody wants it;
- a call that comes twice comes twice in a row;
- what a task holds when it is cancelled is withdrawn.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from cosend.core.kernel.bookkeeping import TRAIN
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import LabelledData, ScoreLocal
from cosend.core.policy.parts import Policy
from cosend.errors import ArmError
from cosend.site.context import Axis, read_columns
from cosend.site.events import Event
from cosend.site.messages import Forward, Question, Reply
from cosend.site.rewards import a_label, other_gains, right_or_wrong
from cosend.site.rules import Rules

Item = dict[str, Any]
Steps = Generator[None, None, None]
Message = Callable[[], None]
ATTEMPTS: Final = 3  # for an item; the last among local classifiers only


@dataclass(frozen=True, kw_only=True)
class Weather:
    """How rough it is: the chances that something goes wrong."""

    lost: float = 0.0  # a report, a call, a reply
    twice: float = 0.0  # a call, a post
    broken: float = 0.0  # a classifier, for one item
    hurry: float = 0.0  # giving up, at each look for a reply that has not come
    kept: float = 0.0  # an item, because its classifier learns


CALM: Final = Weather()


@dataclass(eq=False)
class Node:
    """A site: its rules, its journal, and what was given out."""

    rules: Rules
    log: list[Event]
    ids: list[int] = field(default_factory=list)
    answered: dict[int, Item] = field(default_factory=dict)  # decisions whose label may come
    made: list[tuple[Any, ...]] = field(default_factory=list)  # all decisions: id, label, arm, kind, cell, propensity

    @property
    def name(self) -> str:
        return self.rules.name


@dataclass(eq=False)
class Slot:
    """Where a reply is awaited."""

    node: Node
    ticket: int = 0  # 0: a report
    value: Any = None
    left: bool = False  # nobody looks any more


@dataclass(eq=False)
class Task:
    """Something on its way at a site, and the ids that it would leave behind."""

    node: Node
    held: list[int]
    is_own: bool
    steps: Steps = field(init=False)


class Use(NamedTuple):
    """An arm that was chosen for an item, and how it went before."""

    id: int
    arm: str
    kind: int
    cell: int
    propensity: float
    failed: frozenset[str]


def predicted(classifier: str, item: Item) -> int:
    """Return what a classifier says: each is right for some items and wrong for others."""
    return (int(item["x"] * 8) + ord(classifier[-1])) % 2


def truth_of(item: Item) -> int:
    return int(item["x"] * 4) % 2


def drawn_item(draw: random.Random) -> Item:
    return {"x": draw.random(), "y": 100 * draw.random(), "kind": draw.choice(["tcp", "udp", 7, True])}


def said_beside(rules: Rules, arm: str, item: Item) -> list[Item]:
    """Return what local classifiers say beside an arm, as a site has them run where labels score them all."""
    if rules.learner.score_local != "all":
        return []
    arms = rules.learner.arms
    beside = [name for name, cost in arms.own.items() if not cost and name != arm and name not in arms.paused]
    return [{name: predicted(name, item) for name in beside}]


def new_node(
    name: str,
    axes: Sequence[Axis],
    policy: Policy,
    patience: Patience | None,
    seed: int,
    *,
    local: int = 2,
    score_local: ScoreLocal = "used",
) -> Node:
    log: list[Event] = []
    costs = {f"{name}-{letter}": cost for letter, cost in zip("abc"[:local], (0.0, 0.05, 0.0), strict=False)}
    options: dict[str, Any] = {"policy": policy, "patience": patience, "seed": seed, "score_local": score_local}
    return Node(Rules(name, local=costs, axes=axes, journal=log.append, **options), log)


class World:
    """The sites, what is on its way between them, and the tasks."""

    def __init__(self, nodes: Sequence[Node], weather: Weather, seed: int) -> None:
        self.draw, self.weather = random.Random(seed), weather
        self.nodes = {node.name: node for node in nodes}
        self.links: dict[tuple[str, str], deque[Message]] = {}
        self.replies: list[tuple[Slot, Any]] = []
        self.tasks: list[Task] = []
        self.seen: Counter[str] = Counter()  # how often something happened
        for n, node in enumerate(nodes):
            for other in nodes[:n]:
                other.rules.add_peer(node.name, 0.05, functions=len(node.rules.learner.arms.own))
                node.rules.add_peer(other.name, 0.05, functions=len(other.rules.learner.arms.own))

    def happens(self, chance: float) -> bool:
        return chance > 0.0 and self.draw.random() < chance

    # What travels

    def send(self, link: tuple[str, str], message: Message) -> None:
        self.links.setdefault(link, deque()).append(message)

    def request(self, link: tuple[str, str], message: Message) -> None:
        """Send what may get lost."""
        if self.happens(self.weather.lost):
            self.seen["lost"] += 1
            return
        for _ in range(2 if self.happens(self.weather.twice) else 1):
            self.send(link, message)

    def post(self, sender: str, forwards: Sequence[Forward]) -> None:
        """Send what always arrives; what comes twice comes behind everything that is on its way."""
        for forward in forwards:
            link, message = (sender, forward.peer), partial(self._take_post, forward)
            self.send(link, message)
            if self.happens(self.weather.twice):
                self.send(link, partial(self.send, link, message))

    def deliver(self, link: tuple[str, str]) -> None:
        self.links[link].popleft()()

    def reply(self, slot: Slot, value: Any) -> None:
        if self.happens(self.weather.lost):
            self.seen["reply lost"] += 1
        else:
            self.replies.append((slot, value))

    def deliver_reply(self, number: int) -> None:
        """Let a reply arrive. Where nobody waits for it any more, it is entered all the same: that must not matter."""
        slot, value = self.replies.pop(number)
        if slot.left and isinstance(value, Reply) and value.failed is None:
            self.seen["late"] += 1
            slot.node.rules.complete([slot.ticket], [value.label])
        slot.value = value

    def _take_post(self, forward: Forward) -> None:
        """Take a post as a site does: one that is not awaited changes nothing."""
        node = self.nodes[forward.peer]
        ticket = node.rules.served.ticket(forward.caller, forward.request)
        if ticket is None:
            self.seen["taught for nothing"] += 1
            return
        note = node.rules.learner.registry.notes.get(ticket)
        if forward.withdrawn or note is None:
            self.seen["withdrawn by a peer" if forward.withdrawn else "taught too early"] += 1
            self.post(node.name, node.rules.withdraw([ticket]))
            return
        self.seen["taught"] += 1
        gain, truths = float(note[0] == forward.truth), [forward.truth]
        others = other_gains(right_or_wrong, node.rules.others_of([ticket]), truths, a_label)
        node.rules.teach(forward.caller, [forward.request], truths, [gain], others)

    # Tasks

    def start(self, node: Node, held: list[int], steps: Callable[[Task], Steps], *, is_own: bool = True) -> None:
        task = Task(node, held, is_own)
        task.steps = steps(task)
        self.tasks.append(task)

    def advance(self, task: Task) -> None:
        try:
            next(task.steps)
        except StopIteration:
            self.tasks.remove(task)

    def cancel(self, task: Task) -> None:
        task.steps.close()
        self.tasks.remove(task)
        self.post(task.node.name, task.node.rules.withdraw(task.held))

    def come(self, node: Node, items: Sequence[Item]) -> None:
        """Let items come to a site, together."""
        self.start(node, [], partial(self._coming, items))

    def _coming(self, items: Sequence[Item], task: Task) -> Steps:
        points = task.node.rules.place(read_columns(task.node.rules.axes, items))
        yield
        yield from self._choosing(task.node, items, points, frozenset(), [])

    def _choosing(
        self, node: Node, items: Sequence[Item], points: Floats, failed: frozenset[str], again: Sequence[int]
    ) -> Steps:
        """Choose for items, and start a task for each choice."""
        told: dict[str, LabelledData] = {}
        last, silent = len(failed) + 1 >= ATTEMPTS, frozenset[str]()
        while items:
            arms = node.rules.learner.arms
            without = (failed | silent | frozenset(arms.peers if last else ())) & set(arms.names)
            told = {peer: data for peer, data in told.items() if peer in arms.peers}
            try:
                step = node.rules.choose(points, told=told, without=without, again=again)
            except ArmError:
                self.seen["no arm"] += 1
                return
            ids = range(step.first, step.first + len(step.arms))
            node.ids += ids
            rows = zip(ids, step.arms, step.kinds, step.cells, step.propensities, strict=True)
            for item, point, (ticket, arm, kind, cell, propensity) in zip(items, points, rows, strict=False):
                self._use(node, item, point, Use(ticket, arm, kind, cell, propensity, failed))
            self.post(node.name, step.forwards)
            done = len(step.arms)
            items, points, again, told = items[done:], points[done:], again[done:], {} if done else told
            if step.ask is not None:
                report = yield from self._report(node, step.ask.peer, step.ask.context)
                told.update({step.ask.peer: report} if report else {})
                silent |= frozenset() if report else {step.ask.peer}

    def _report(self, node: Node, peer: str, context: tuple[Any, ...]) -> Generator[None, None, LabelledData | None]:
        """Ask a peer how much labelled data it has; None if it does not say in time."""
        slot = Slot(node)
        self.request((node.name, peer), lambda: self.reply(slot, self.nodes[peer].rules.report(context)))
        report: LabelledData | None = yield from self._awaited(slot)
        if report is None:
            self.seen["no report"] += 1
            node.rules.fail([], peer, "it did not say")
        return report

    def _awaited(self, slot: Slot) -> Generator[None, None, Any]:
        """Wait for a reply; None if it does not come in time."""
        try:
            while slot.value is None:
                yield
                if slot.value is None and self.happens(self.weather.hurry):
                    break
            return slot.value
        finally:
            slot.left = True

    def _use(self, node: Node, item: Item, point: Floats, use: Use) -> None:
        slot = None
        if use.arm in node.rules.learner.arms.peers:
            slot = Slot(node, use.id)
            training = use.kind == TRAIN
            labelled = training or node.rules.learner.policy.share_labels == "always"
            question = Question(use.id, item, node.rules.spell(point), training, labelled)
            self.request((node.name, use.arm), partial(self._called, node.name, use.arm, question, slot))
        self.start(node, [use.id], partial(self._labelling, item, point, use, slot))

    def _labelling(self, item: Item, point: Floats, use: Use, slot: Slot | None, task: Task) -> Steps:
        """Have an arm label an item; if it fails, choose again without it."""
        node = task.node
        yield
        if slot is None:
            reply = Reply(predicted(use.arm, item), "broken" if self.happens(self.weather.broken) else None)
        else:
            reply = (yield from self._awaited(slot)) or Reply(None, "it did not answer")
        task.held.clear()
        if reply.failed is None:
            kept = [item] if self.happens(self.weather.kept) else []
            node.rules.complete([use.id], [reply.label], kept, said_beside(node.rules, use.arm, item))
            node.answered[use.id] = item
            node.made.append((use.id, reply.label, use.arm, use.kind, use.cell, repr(use.propensity)))
            return
        self.seen["failed"] += 1
        arrivals, forwards = node.rules.fail([use.id], use.arm, reply.failed)
        self.post(node.name, forwards)
        if len(use.failed) + 1 < ATTEMPTS and use.id in arrivals:
            yield
            yield from self._choosing(node, [item], point[None], use.failed | {use.arm}, [arrivals[use.id]])

    # Being a peer

    def _called(self, caller: str, peer: str, question: Question, slot: Slot) -> None:
        node, held = self.nodes[peer], list[int]()
        function = self._serve(node, caller, question, held, frozenset())
        if function is None:
            self.reply(slot, Reply(None, "no classifier"))
        else:
            steps = partial(self._answering, caller, question, slot, function)
            self.start(node, held, steps, is_own=False)

    def _serve(
        self, node: Node, caller: str, question: Question, held: list[int], failed: frozenset[str]
    ) -> str | None:
        arms = node.rules.learner.arms
        try:
            serving = node.rules.serve(caller, [question], (failed | frozenset(arms.peers)) & set(arms.names))
        except ArmError:
            return None
        self.post(node.name, serving.forwards)
        held += [ticket for ticket in serving.tickets if ticket]
        node.ids += held
        return serving.functions[0]

    def _answering(self, caller: str, question: Question, slot: Slot, function: str | None, task: Task) -> Steps:
        """Have local classifiers label an item for a peer, one after another as they fail."""
        rules, failed = task.node.rules, frozenset[str]()
        while function is not None:
            yield
            rules = task.node.rules
            if not self.happens(self.weather.broken):
                label, others = predicted(function, question.item), said_beside(rules, function, question.item)
                rules.complete(task.held, [label] * len(task.held), [], others * len(task.held))
                self.reply(slot, Reply(label))
                task.held.clear()
                return
            self.seen["failed for a peer"] += 1
            known, _ = rules.fail(task.held, function, "broken")
            unwanted = len(known) < len(task.held)
            task.held.clear()
            failed |= {function}
            function = None if unwanted else self._serve(task.node, caller, question, task.held, failed)
        self.reply(slot, Reply(None, "no classifier"))
