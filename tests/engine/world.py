"""A small world in which anything may happen at any time: engines of sites, and links between them.

Nothing here waits. What an engine needs is executed later, in any order: models answer in pieces, messages are lost,
come twice or late, sites are killed and go on from their logs. A link keeps the order of what it carries, except for
calls that take a longer way, which may be overtaken by everything else.
"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cosend.algorithm import layout as col
from cosend.algorithm.state import State
from cosend.axes import Axis, read_columns
from cosend.engine.budget import Budget
from cosend.engine.engine import Batch, Engine
from cosend.engine.events import Event, decode, encode
from cosend.engine.fold import apply, fold, verify
from cosend.engine.learnt_arms import grow
from cosend.engine.needs import (
    AskPeer,
    Call,
    CallPeer,
    Done,
    Failure,
    FitTrees,
    Forward,
    Need,
    RunModel,
    TellPeer,
    TrainModel,
)
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import restore, state_of
from cosend.errors import ArmError, SettledDecision, UnansweredDecision, UnknownDecision
from tests.oracle import spent_twin

Item = dict[str, Any]
Message = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Weather:
    """How rough it is: the chances that something goes wrong."""

    lost: float = 0.0  # a question, a call or a reply
    twice: float = 0.0  # a call or a post
    slow: float = 0.0  # a call that takes the longer way
    broken: float = 0.0  # a model, for one item
    silent: float = 0.0


CALM: Final = Weather()
BUDGETS: Final = [
    None,
    Budget(per_item=0.02),
    Budget(per_hour=2.0, calls={"lab-b": {"per_item": 0.3}}),
    Budget(total=0.5),
    Budget(per_item=0.05, total=2.0, calls={"lab-b": {"total": 5.0}}),
]


def drawn_item(draw: random.Random) -> Item:
    return {"x": draw.random(), "y": 100 * draw.random(), "kind": draw.choice(["tcp", "udp", 7, True])}


def predicted(model: str, item: Item) -> int:
    """Return what a model says: each is right for some items and wrong for others."""
    return (int(item["x"] * 8) + ord(model[-1])) % 2


def is_sure(model: str) -> bool:
    """Tell whether a model says how sure it is: by the first feature of an item."""
    return ord(model[-1]) % 2 == 1


def truth_of(item: Item) -> int:
    return int(item["x"] * 4) % 2


def whole(state: SiteState) -> tuple[str, dict[str, tuple[Any, str, bytes]]]:
    """Return the whole state, to the last bit, in a form that compares."""
    saved = state_of(state)
    arrays = {name: (array.shape, str(array.dtype), array.tobytes()) for name, array in saved.arrays.items()}
    return json.dumps(saved.facts, sort_keys=True), arrays


def spent_by(state: SiteState) -> dict[str, float]:
    """Return what arms have cost that have cost anything."""
    return {arm: spent for arm, spent in state.spent.by_arm().items() if spent}


def restored(state: SiteState) -> SiteState:
    """Return a new state from a saved one, which went through JSON; it writes to no journal yet."""
    arms, saved = state.learner.arms, state_of(state)
    again = SiteState(state.name, local=arms.own, learnt=state.learnt.kinds, axes=state.encoder.axes)
    for peer in arms.peers:
        again.add_peer(peer)
    restore(again, State(json.loads(json.dumps(saved.facts)), saved.arrays))()
    return again


class RunningSite:
    """A site: its engine, its log, and what was given out."""

    def __init__(
        self,
        name: str,
        axes: Sequence[Axis],
        *,
        local: int = 2,
        learnt: bool = False,
        learning: bool = False,
        in_order: bool = True,
        budget: Budget | None = None,
        **options: Any,
    ) -> None:
        self.name, self.axes, self.log = name, axes, list[Event]()
        costs = {f"{name}-{letter}": cost for letter, cost in zip("abc"[:local], (0.0, 0.05, 0.0), strict=False)}
        learns = {f"{name}-{kind}": kind for kind in ("grown", "stack")} if learnt else {}
        costs |= dict.fromkeys(learns, 0.0)
        self.options: dict[str, Any] = {"in_order": in_order, "learning": {f"{name}-a"} if learning else set()}
        state = SiteState(name, local=costs, learnt=learns, axes=axes, journal=self.log.append, **options)
        state.set_budget(budget)
        self.lives = 0
        self.made: dict[int, Item] = {}  # decisions that clients know, whose label may come
        self.decisions: list[Any] = []
        self.begin(state)

    def begin(self, state: SiteState) -> None:
        """Go on with a state; whatever was in flight is forgotten."""
        self.lives += 1
        self.engine = Engine(state, **self.options)
        self.batches: list[Batch] = []  # in flight, own ones and those of peers
        self.posting: set[tuple[str, int]] = set()  # peers that are being told something, and how often they joined

    @property
    def state(self) -> SiteState:
        return self.engine.state


class World:
    """The sites, what is on its way between them, and what models are doing."""

    def __init__(self, nodes: Sequence[RunningSite], weather: Weather, seed: int) -> None:
        self.draw, self.weather = random.Random(seed), weather
        self.nodes = {node.name: node for node in nodes}
        self.links: dict[tuple[str, str], deque[Message]] = {}
        self.slow: list[tuple[str, Message]] = []  # to whom, and what
        self.replies: list[Message] = []
        self.deadlines: list[Message] = []
        self.running: list[tuple[RunningSite, int, RunModel, int]] = []  # node, its life, need, items that are done
        self.fits: list[tuple[RunningSite, int, FitTrees]] = []
        self.joined: Counter[tuple[str, str]] = Counter()  # how often a peer has joined
        self.seen: Counter[str] = Counter()  # how often something happened
        for n, node in enumerate(nodes):
            for other in nodes[:n]:
                other.state.add_peer(node.name, 0.05, functions=len(node.state.learner.arms.own))
                node.state.add_peer(other.name, 0.05, functions=len(other.state.learner.arms.own))

    def happens(self, chance: float) -> bool:
        return chance > 0.0 and self.draw.random() < chance

    # What engines need

    def run(self, node: RunningSite) -> None:
        for need in node.engine.take():
            self._execute(node, need)

    def _execute(self, node: RunningSite, need: Need) -> None:
        match need:
            case RunModel():
                self.running.append((node, node.lives, need, 0))
            case CallPeer():
                cut = self.draw.randint(0, len(need.rows))
                for start, end in ((0, cut), (cut, len(need.rows))):
                    if start < end:
                        self._call(node, need, start, end)
            case AskPeer():
                self._ask(node, need)
            case TellPeer():
                self._tell(node, need.peer)
            case TrainModel():
                self.seen["trained"] += 1
            case FitTrees():
                self.fits.append((node, node.lives, need))
            case Done():
                self._done(node, need)

    def _done(self, node: RunningSite, need: Done) -> None:
        batch = need.batch
        if batch.caller is None:
            for row in need.rows:
                assert batch.done[row]
                if row in batch.errors:
                    self.seen["no answer"] += 1
                    continue
                node.decisions.append(batch.decision(row))
                self.seen["shown"] += row in batch.answered_by
                if batch.ids[row] in node.state.learner.registry:
                    node.made[batch.ids[row]] = batch.items[row]
        if not batch.left and batch in node.batches:
            node.batches.remove(batch)
            if batch.caller is not None:
                batch.owner(batch)

    def a_model_answers(self, place: int) -> None:
        node, life, need, start = self.running.pop(place)
        end = self.draw.randint(start + 1, len(need.items))
        if life != node.lives:
            return
        if end < len(need.items):
            self.running.append((node, life, need, end))
        answers = [self._answer(need.model, item) for item in need.items[start:end]]
        if need.model not in node.state.learner.arms.own:
            self.seen["answered by one that left"] += 1
        if need.is_opinion:
            sure = [item["x"] for item in need.items[start:end]] if is_sure(need.model) else None
            node.engine.heard(need, start, answers, sure)
        else:
            node.engine.answered(need, start, answers)
        self.run(node)

    def trees_are_fitted(self, place: int) -> None:
        node, life, need = self.fits.pop(place)
        if life != node.lives:
            return  # the site began the fit again
        node.engine.fitted(need, None if self.happens(self.weather.broken) else grow(need.window))
        self.seen["fitted"] += 1
        self.run(node)

    def _answer(self, model: str, item: Item) -> Any:
        if self.happens(self.weather.broken):
            self.seen["failed"] += 1
            return Failure("broken", self.draw.choice(["error", "time", "item"]))
        return None if self.happens(self.weather.silent) else predicted(model, item)

    # What travels

    def send(self, link: tuple[str, str], message: Message) -> None:
        self.links.setdefault(link, deque()).append(message)

    def _request(self, node: RunningSite, peer: str, message: Message, too_late: Message) -> None:
        """Send what may get lost; sooner or later nobody waits for an answer any more."""
        self.deadlines.append(too_late)
        if self.happens(self.weather.lost):
            self.seen["lost"] += 1
        elif self.happens(self.weather.slow):
            self.slow.append((peer, message))
        else:
            self.send((node.name, peer), message)

    def _once(self, node: RunningSite, take: Callable[..., None]) -> Callable[..., None]:
        """Return what takes the first answer to something, if the site still lives."""
        life, waits = node.lives, [True]

        def answer(*answers: Any) -> None:
            if waits[0] and life == node.lives:
                waits[0] = False
                take(*answers)
                self.run(node)

        return answer

    def _reply(self, answer: Callable[..., None], *answers: Any) -> None:
        if self.happens(self.weather.lost):
            self.seen["reply lost"] += 1
        else:
            self.replies.append(partial(answer, *answers))

    def _call(self, node: RunningSite, need: CallPeer, start: int, end: int) -> None:
        answer = self._once(node, partial(node.engine.answered, need, start))
        call = need.call._replace(questions=need.call.questions[start:end])
        too_late = [Failure("too late", "time")] * (end - start)
        self._request(node, need.peer, partial(self._called, call, answer), partial(answer, too_late))

    def _called(self, call: Call, answer: Callable[..., None]) -> None:
        node = self.nodes[call.peer]
        for _ in range(2 if self.happens(self.weather.twice) else 1):
            node.batches.append(node.engine.asked(call, partial(self._answered, node, answer)))
            self.run(node)

    def _answered(self, node: RunningSite, answer: Callable[..., None], batch: Batch) -> None:
        self.seen["withdrawn too early"] += any("wants no answer" in str(error) for error in batch.errors.values())
        answers = [Failure(reply.failed) if reply.failed else reply.label for reply in batch.replies()]
        reports = [node.state.report(each) for each in batch.contexts] if self.draw.random() < 0.5 else []
        self._reply(answer, answers, reports)

    def _ask(self, node: RunningSite, need: AskPeer) -> None:
        answer = self._once(node, partial(node.engine.reported, need))
        self._request(node, need.peer, partial(self._asked, need, answer), partial(answer, Failure("too late", "time")))

    def _asked(self, need: AskPeer, answer: Callable[..., None]) -> None:
        state = self.nodes[need.peer].state
        self._reply(answer, [state.report_on(None, context, need.axes) for context in need.contexts])

    def _tell(self, node: RunningSite, peer: str) -> None:
        """Tell a peer something that is queued for it, unless that is on its way."""
        busy, forwards = (peer, self.joined[node.name, peer]), node.state.forwards(peer, self.draw.randint(1, 5))
        if busy in node.posting or not forwards:
            return
        node.posting.add(busy)
        taken = self._once(node, partial(self._taken, node, busy, len(forwards)))
        self.send((node.name, peer), partial(self._taught, node.name, peer, forwards, taken))

    def _taken(self, node: RunningSite, busy: tuple[str, int], count: int) -> None:
        node.posting.discard(busy)
        peer, joined = busy
        if joined == self.joined[node.name, peer]:
            node.state.peer_told(peer, count)
            self._tell(node, peer)

    def _taught(self, caller: str, peer: str, forwards: list[Forward], taken: Message) -> None:
        node = self.nodes[peer]
        assert node.engine.taught(caller, forwards) == []
        self.seen["taught"] += not any(forward.withdrawn for forward in forwards)
        self.run(node)
        if self.happens(self.weather.twice):  # that it was taken is not heard: it is told again
            self.send((caller, peer), partial(self._taught, caller, peer, forwards, taken))
        else:
            taken()

    def goodbye(self, node: RunningSite, peer: str, forwards: list[Forward]) -> None:
        """Tell a peer that was removed what it should still know."""
        self.joined[node.name, peer] += 1
        if forwards:
            self.send((node.name, peer), partial(self._taught, node.name, peer, forwards, lambda: None))

    def restart(self, node: RunningSite, state: SiteState) -> None:
        """Kill a site; it goes on with a state, and takes back what it had not answered. Its connections are gone."""
        self.slow = [(peer, message) for peer, message in self.slow if peer != node.name]
        state.journal = node.log.append
        node.begin(state)
        state.withdraw([id_ for id_ in state.learner.registry.ids() if id_ not in state.learner.registry.notes])
        for peer in [*state.outbox]:
            self._tell(node, peer)
        self.run(node)


class Mishaps:
    """Draws what happens next in a world."""

    def __init__(self, world: World, in_flight: int) -> None:
        self.world, self.in_flight, self.draw, self.seen = world, in_flight, world.draw, world.seen
        self.new = 0
        self.actions = [
            (self.items_come, 12 if in_flight < 128 else 50),
            (self.a_model_answers, 60),
            (self.trees_are_fitted, 4),
            (self.something_arrives, 40),
            (self.a_reply_arrives, 15),
            (self.a_deadline_passes, 3),
            (self.time_passes, 3),
            (self.labels_come, 8),
            (self.something_is_abandoned, 2),
            (self.an_arm_changes, 3),
            (self.the_mode_changes, 1),
            (self.a_label_is_refused, 1),
            (self.a_site_restarts, 0.4),
        ]

    def happen(self, count: int) -> None:
        actions, weights = zip(*self.actions, strict=True)
        for action in self.draw.choices(actions, weights, k=count):
            action(self.draw.choice([*self.world.nodes.values()]))

    def items_come(self, node: RunningSite) -> None:
        flying = sum(each.engine.in_flight for each in self.world.nodes.values())
        self.seen["128 in flight"] += flying >= 128
        if flying < self.in_flight:
            count = min(self.in_flight - flying, self.draw.choice([1, 1, 1, 2, 3, 9]))
            self.submit(node, [drawn_item(self.draw) for _ in range(count)])

    def submit(self, node: RunningSite, items: list[Item]) -> None:
        node.engine.now += 1
        node.engine.at = 60.0 * node.engine.now
        node.batches.append(node.engine.submit(items, read_columns(node.axes, items)))
        self.world.run(node)

    def a_model_answers(self, _: RunningSite) -> None:
        if self.world.running:
            self.world.a_model_answers(self.draw.randrange(len(self.world.running)))

    def trees_are_fitted(self, _: RunningSite) -> None:
        if self.world.fits:
            self.world.trees_are_fitted(self.draw.randrange(len(self.world.fits)))

    def something_arrives(self, _: RunningSite) -> None:
        links = [link for link, messages in self.world.links.items() if messages]
        if links and (not self.world.slow or self.draw.random() < 0.8):
            self.world.links[self.draw.choice(links)].popleft()()
        elif self.world.slow:
            self.world.slow.pop(self.draw.randrange(len(self.world.slow)))[1]()

    def a_reply_arrives(self, _: RunningSite) -> None:
        if self.world.replies:
            self.world.replies.pop(self.draw.randrange(len(self.world.replies)))()

    def a_deadline_passes(self, _: RunningSite) -> None:
        if self.world.deadlines:
            self.world.deadlines.pop(self.draw.randrange(len(self.world.deadlines)))()

    def time_passes(self, node: RunningSite) -> None:
        node.engine.now += self.draw.choice([0.1, 1.0, 5.0])
        node.engine.tick()
        self.world.run(node)

    def labels_come(self, node: RunningSite) -> None:
        count = min(len(node.made), self.draw.choice([1, 1, 2, 5]))
        self.label(node, self.draw.sample(sorted(node.made), count))

    def label(self, node: RunningSite, ids: list[int], *, costs: bool = True) -> None:
        """Let the labels of decisions come; for those that expired, or that only an observer has answered, too soon."""
        waiting = [id_ for id_ in ids if id_ in node.state.learner.registry.notes]
        for id_ in {*ids}.difference(waiting):
            error = UnansweredDecision if id_ in node.state.learner.registry else SettledDecision
            self.assert_refused(node, [*waiting, id_], error)
            if error is SettledDecision:
                self.seen["label too late"] += 1
                del node.made[id_]
        paid = [self.draw.choice([None, 0.1]) for _ in waiting] if costs and self.draw.random() < 0.3 else None
        truths = [truth_of(node.made.pop(id_)) for id_ in waiting]
        given = self._scores_of(node, waiting, truths) if costs and self.draw.random() < 0.3 else None
        learnt = node.engine.learn(waiting, truths, paid, given)
        self.seen["opinions scored"] += bool(learnt.scores)
        self.world.run(node)

    def _scores_of(self, node: RunningSite, ids: list[int], truths: list[Any]) -> list[Any]:
        """Return scores in place of some labels, which are taken out; by arm or only of the arm that was used."""
        given: list[Any] = []
        for n, (arm, _, _) in enumerate(node.state.learner.find(ids)):
            used, free = node.state.learner.arms.names[arm], [*node.state.learner.arms.own]
            by_arm = {name: self.draw.random() for name in (used, *self.draw.sample(free, 1))}
            given.append(self.draw.choice([None, by_arm[used], by_arm]))
            truths[n] = truths[n] if given[n] is None else None
            self.seen["scores"] += given[n] is not None
        return given

    def assert_refused(self, node: RunningSite, ids: list[int], error: type[Exception]) -> None:
        try:
            node.engine.learn(ids, [1] * len(ids))
        except error:
            return
        raise AssertionError(ids)

    def a_label_is_refused(self, node: RunningSite) -> None:
        """Let a label come for an id in flight, or for an answer to a peer: it is refused and changes nothing."""
        before = whole(node.state)
        for id_, entry in node.state.pending().items():
            if entry.caller is not None or not entry.answered:
                self.assert_refused(node, [id_], UnknownDecision if entry.caller else UnansweredDecision)
                self.seen["refused"] += 1
                break
        assert whole(node.state) == before

    def something_is_abandoned(self, node: RunningSite) -> None:
        if node.batches:
            batch = node.batches.pop(self.draw.randrange(len(node.batches)))
            node.engine.abandon(batch)
            for id_ in batch.ids:
                node.made.pop(id_, None)
            self.seen["abandoned"] += 1
            self.world.run(node)

    def an_arm_changes(self, node: RunningSite) -> None:
        state, arms = node.state, node.state.learner.arms
        arm = self.draw.choice(arms.names)
        change = self.draw.choice(["model", "peer", "remove", "pause", "resume", "resume", "cost", "budget"])
        away = sorted({*self.world.nodes} - {node.name, *arms.peers})
        self.seen[change] += 1
        if change == "model":
            self.new += 1
            learnt = self.draw.choice(["", "", "grown", "stack"])
            self.seen["learnt"] += bool(learnt)
            state.add_model(f"{node.name}-{self.new}", self.draw.choice([0.0, self.draw.random() / 2]), learnt)
        elif change == "peer" and away:
            state.add_peer(self.draw.choice(away), self.draw.random() / 2, functions=self.draw.randint(1, 3))
        elif change == "remove":
            self.remove(node, arm)
        elif change in ("pause", "resume"):
            getattr(state, change)(arm)
        elif change == "cost":
            state.set_cost(arm, self.draw.choice([0.0, self.draw.random() / 2]))
        elif change == "budget" and state.learner.policy.mixes:
            state.set_budget(self.draw.choice(BUDGETS))
        self.world.run(node)

    def remove(self, node: RunningSite, arm: str) -> None:
        is_peer = arm in node.state.learner.arms.peers
        if {*node.state.learner.arms.own} - {*node.state.learnt.kinds} == {arm} or node.engine.observer == arm:
            return  # a driver keeps the last model, and one that answers clients
        try:
            forwards = node.engine.remove(arm)
        except ArmError:
            assert [*node.state.learner.arms.own] == [arm]
            return
        if is_peer:
            self.world.goodbye(node, arm, forwards)

    def the_mode_changes(self, node: RunningSite) -> None:
        models = [name for name in node.state.learner.arms.own if name not in node.state.learnt.kinds]
        node.engine.observer = self.draw.choice([None, None, *models])

    def a_site_restarts(self, node: RunningSite) -> None:
        """Let a site go on from its log or from a saved state, whatever is in flight."""
        before = whole(node.state)
        state = self.draw.choice([restored(node.state), fold(node.log, axes=node.axes)])
        assert whole(state) == before
        self.world.restart(node, state)
        self.seen["restarted"] += 1

    def settle_down(self) -> None:
        """Let everything that is on its way arrive and be done; what got lost is given up in the end."""
        world, anybody = self.world, next(iter(self.world.nodes.values()))
        while True:
            while world.running or world.fits or world.replies or world.slow or any(world.links.values()):
                for happens in (
                    self.a_model_answers,
                    self.trees_are_fitted,
                    self.something_arrives,
                    self.a_reply_arrives,
                ):
                    happens(anybody)
            if not world.deadlines:
                return
            self.a_deadline_passes(anybody)

    def end(self) -> None:
        """Let everything be done; every decision that is left gets its label, or is taken back."""
        self.world.weather = CALM
        self.settle_down()
        for node in self.world.nodes.values():
            left = sorted(node.made)
            self.draw.shuffle(left)
            for id_ in left[: len(left) // 2]:
                self.label(node, [id_])
            node.state.withdraw(left[len(left) // 2 :])
            self.world.run(node)
        self.settle_down()


def assert_nothing_is_left(node: RunningSite) -> None:
    """Nothing waits, and no cell believes that something does; but a cube that was split has forgotten what did."""
    state, ledger = node.state, node.state.learner.ledger
    assert (state.pending(), state.learner.registry.notes, state.unanswered, state.outbox) == ({}, {}, {}, {})
    assert not state.answering
    assert state.answering.rows() == []
    assert (node.engine.in_flight, node.batches, node.engine.shown_early) == (0, [], set())
    assert state.learner.registry.take_overdue() == []
    rows = int(ledger.site[col.ROWS])
    waiting = ledger.counts[:rows][..., [col.PENDING, col.TRAINING_PENDING]]
    is_split = ledger.cells[:rows, col.CELL_LEVEL] < 0
    assert (waiting >= 0).all()
    assert not waiting[~is_split].any()


def assert_log_is_the_state(node: RunningSite, draw: random.Random) -> None:
    """Fold the log to the live state, at once and in two parts; deciding again finds no difference."""
    live = whole(node.state)
    log = [decode(encode(event)) for event in node.log]
    assert repr(log) == repr(node.log)
    assert whole(fold(log)) == live
    assert spent_by(node.state) == spent_twin.spent(log)
    half = draw.randrange(1, len(log) + 1)
    state = restored(fold(log[:half], axes=node.axes))
    for event in log[half:]:
        apply(event, state)
    assert whole(state) == live
    assert verify(log) == []
