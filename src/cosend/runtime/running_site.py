"""A running site: it decides, learns, stores what it knows in its folder, and restarts from there.

All of it happens in the thread of one event loop, which alone touches the engine; models and the disk have their own
threads. An answer is given once it is on the disk.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from cosend.algorithm.layout import Ints
from cosend.algorithm.pending import Registry, ids_among, not_among
from cosend.algorithm.values import LabelledData
from cosend.axes import EVERY_FEATURE, read_columns
from cosend.engine.arm_health import IN_SECONDS, Breakers
from cosend.engine.budget import Budget, in_words
from cosend.engine.engine import Engine
from cosend.engine.events import ModeChanged
from cosend.engine.money import as_cost
from cosend.engine.needs import Call, Forward
from cosend.engine.sharing import Sharing
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import Freezing
from cosend.errors import ArmError, CosendError, StateError, Unavailable, in_one_line
from cosend.models.adapters import RunsElsewhere, all_known_labels, all_say_free_text
from cosend.models.endpoints import Endpoint
from cosend.runtime.chronicle import Chronicle
from cosend.runtime.client_requests import Result
from cosend.runtime.driver import Driver
from cosend.runtime.endpoint_calls import Calling
from cosend.runtime.gossip import traffic_of, written
from cosend.runtime.label_history import RunningCounts
from cosend.runtime.label_intake import Given, Heard, Labelling
from cosend.runtime.log_writer import Commits
from cosend.runtime.model_threads import Lane, Worker
from cosend.runtime.past_decisions import Naming
from cosend.runtime.peer_calls import ASK_SHARE
from cosend.runtime.peers import Peers
from cosend.runtime.remote_workers import Elsewhere, classifier_of
from cosend.runtime.site_setup import LIMIT_S, THREADS, Setup
from cosend.runtime.site_store import FILE, FromFile, LastRun, Recovered, Store, pickled, taken_over
from cosend.runtime.watchdog import STUCK_S, Pulse, Standstill
from cosend.store.log_index import FORGET_LABELS, FORGET_NAMES, LABEL, SET, LogIndex
from cosend.store.recovery import check_snapshot
from cosend.transport.codec import Announcement, Answered, Context
from cosend.transport.link import Change, Link

LOG: Final = logging.getLogger("cosend.runtime")
TICK_S: Final = 0.02
TIDY_S: Final = 1.0
SNAPSHOT_EVERY: Final = 20_000  # events, which are folded in a second or less at a start
SNAPSHOT_EVERY_S: Final = 300.0  # events are removed only behind a snapshot
STOP_S: Final = 5.0  # for each thing that a site waits for when it stops, but for
LAST_SNAPSHOT_S: Final = 60.0  # its snapshot, which can be a large one
PRUNE_EVERY_S: Final = 60.0
AT_ONCE: Final = 1_000  # names that are forgotten in one commit
FIRST_REST_S, LONGEST_REST_S = 0.5, 30.0  # between attempts to rebuild it from the log
Mode = Literal["apply", "observe"]


class RunningSite:
    """One running site.

    folder   where it keeps what it knows
    durable  wait for the disk before answering; else a crash of the machine can lose the newest
    link     the way to its peers and from them, which starts and ends with the site; None if it has none
    workers  the way to its workers, which starts and ends with it too
    """

    def __init__(
        self, setup: Setup, folder: Path, *, durable: bool = True, link: Link | None = None, workers: Link | None = None
    ) -> None:
        self.setup, self.folder, self._durable, self.link = setup, folder, durable, link
        self.counts, self.started_at = RunningCounts(), time.time()
        self._chronicle = Chronicle(self)
        self.breakers = Breakers(IN_SECONDS)
        self.lane, self.pulse = Lane(), Pulse()
        self._elsewhere = workers
        self.driver: Driver | None = None  # none before it has started
        self._not_ready: str | None = "it is starting"
        self._tasks: set[asyncio.Task[Any]] = set()
        self._snapshots = [0, 0]  # the positions of the last two: the older is there if the newer is damaged
        self._one_snapshot = asyncio.Lock()
        self._last_snapshot = self._last_pruned = time.monotonic()
        if link is not None:
            link.listen(self._heard)
        if workers is not None:
            workers.listen(self._worker_heard)
        self._rebuilding = self._stopping = self._hurried = False
        self._decisions, self._writes = Standstill(), Standstill()
        self.took_over: list[str] = []  # at the start: what is not as it was, or not as the file says

    # Starting and stopping

    async def start(self) -> None:
        self.pulse.begin()
        self.store = await asyncio.to_thread(Store, self.folder, self.setup, durable=self._durable)
        try:
            await asyncio.to_thread(self.setup.warm_up)
            self._begin(await asyncio.to_thread(self.store.recover))
            await self.commits.done()
        except BaseException:
            self.store.close()
            raise
        gc.collect()
        gc.freeze()  # what is here stays: a collection need not look at it again
        self._go_on()
        for each in self.took_over:
            LOG.warning(each)
        LOG.info("ready", extra={"events": self.commits.position, "items": self.state.learner.arrivals})
        self._do(self._every(TICK_S, self._give_up_late))
        self._do(self._every(TICK_S, self._make_room))
        self._do(self._every(TIDY_S, self._tidy))
        self._do(self._every(TIDY_S, self._look_for_standstill))
        self._do(self._every(TIDY_S, self._note))
        if self._elsewhere is not None:
            await self._elsewhere.start()
        if self.link is not None:
            await self._join(self.link)

    async def _join(self, link: Link) -> None:
        """Let peers find this site, and find them."""
        setup, told = self.setup, self.engine.told_axes
        await link.start()
        context = setup.context if told is None else told
        await link.serve(Announcement(setup.name, context, len(setup.local), setup.call_cost), self)

    def _go_on(self) -> None:
        """Answer from now on, and look for peers: until now, their announcements were ignored."""
        self._not_ready = None
        self.peers.begin()

    def _heard(self, change: Change) -> None:
        if self.is_ready:
            with self.running.whole_changes():
                self.peers.heard(change)

    def _worker_heard(self, change: Change) -> None:
        told = change.announcement
        if told is not None and change.kind != "gone":
            self.breakers.worked(classifier_of(self.setup.name, told.site))

    @property
    def running(self) -> Driver:
        """The driver of its engine; raises if it has not started."""
        if self.driver is None:
            raise Unavailable(f"site {self.setup.name!r} is starting")
        return self.driver

    @property
    def engine(self) -> Engine:
        return self.running.engine

    @property
    def state(self) -> SiteState:
        return self.running.engine.state

    def _begin(self, recovered: Recovered) -> None:
        setup, state = self.setup, recovered.state
        self.breakers.forget_probes()
        self.commits = Commits(self.store.log, self._broken)
        is_new = not self.commits.position
        if is_new:
            state = setup.new_state(self.commits.event)
        else:
            state.journal = self.commits.event
            if setup.learnt is None:  # the folder may have been made with another policy than today's default
                setup = self.setup = replace(setup, learnt=state.learner.score_local == "all")
        self.workers = {arm: self._worker(arm, model) for arm, model in recovered.classifiers.items()}
        self.lane.begin()
        for worker in self.workers.values():
            worker.begin()
        engine = self._engine(state, recovered)
        self.driver = Driver(setup, engine, self.commits, self.workers, self.link, self._do, self.counts.notable)
        self.peers = Peers(setup, engine, self.link, self.driver.posting)
        self.labelling = Labelling(self.driver, self.store.index, self.counts)
        self.naming = Naming(setup, self.driver, self.labelling, self.store)
        self._snapshots = [0, recovered.covered]
        last = self.store.last_run(recovered)
        self._tidy_up_after(last)
        if not is_new and not self._rebuilding:
            self.took_over = [*taken_over(last, setup, state.learner.arms, self.observer)]

    def _engine(self, state: SiteState, recovered: Recovered) -> Engine:
        setup, models = self.setup, recovered.classifiers
        engine = Engine(
            state,
            reward=setup.reward,
            retries=setup.retries,
            learns_from=setup.learns_from,
            learning=[name for name, model in models.items() if model.learns],
            known_labels=all_known_labels(models.values()),
            free_text=all_say_free_text(models.values()),
            strict_labels=setup.strict_labels,
            back_off=IN_SECONDS,
            in_order=False,
            report_limit=setup.deadline_s * ASK_SHARE,
            counts=self.counts,
            sharing=Sharing(setup.shares, setup.withholds),
        )
        engine.breakers, engine.observer, engine.now = self.breakers, recovered.observer, time.monotonic()
        return engine

    def _worker(self, arm: str, model: Any) -> Worker:
        limit_s = self.setup.limits_s.get(arm, model.limit_s if isinstance(model, Endpoint) else LIMIT_S)
        if isinstance(model, Endpoint):
            return Calling(arm, model, limit_s, start=self._do)
        if isinstance(model, RunsElsewhere):
            return Elsewhere(arm, model, limit_s, site=self.setup.name, link=self._elsewhere, start=self._do)
        return Worker(arm, model, limit_s, 1 if model.learns else self.setup.threads.get(arm, THREADS), self.lane)

    def _tidy_up_after(self, last: LastRun) -> None:
        """Withdraw what was never answered, and follow the file where it has changed since the last start."""
        state, setup = self.state, self.setup
        own = state.learner.arms.own
        was, wanted = dict(state.learnt.kinds), setup.learnt_arms
        for arm in [arm for arm in own if arm not in setup.local or was.get(arm, "") != wanted.get(arm, "")]:
            state.remove(arm)
        for arm in [arm for arm in setup.local if arm not in state.learner.arms.own]:
            if arm in state.learner.arms.peers:  # it was discovered, and now there is a model of its name
                self.peers.remove(arm)
            state.add_model(arm, setup.cost(arm), wanted.get(arm, ""))
        self.peers.follow_file()
        file = FromFile.of(setup)
        for arm, cost in file.costs.items():
            if last.file.costs.get(arm, cost) != cost:
                state.set_cost(arm, cost)
        if file.budget != last.file.budget:
            state.set_budget(setup.budget_in_costs)
        if file != last.file:
            self.commits.also(SET, [(FILE, msgspec.msgpack.encode(file))])
        answered = state.learner.registry.notes
        state.withdraw([id_ for id_ in state.learner.registry.ids() if id_ not in answered])
        if self.observer is not None and self.observer not in self.workers:
            self._set_mode("apply", "")
        self.running.run()

    def hurry(self) -> None:
        """Do not wait for anything when the site stops."""
        self._hurried = True

    async def stop(self, patience_s: float = STOP_S) -> None:
        """Answer what is on its way, as far as that is possible in time, and leave a snapshot."""
        if self.driver is None:  # it never started
            self.pulse.end()
            return
        self._not_ready, self._stopping = "it is stopping", True
        until = time.monotonic() + patience_s
        while self.driver.in_flight and time.monotonic() < until and not self._hurried:
            await asyncio.sleep(0.01)
        with suppress(CosendError, TimeoutError):  # who is answered waits for the disk
            await asyncio.wait_for(self.commits.done(), patience_s)
        if self.link is not None:
            await self.link.close()
        for task in self._tasks:
            task.cancel()
        if self._elsewhere is not None:
            await self._elsewhere.close()
        self.driver.close("it is stopping")
        try:
            await asyncio.wait_for(self.commits.done(), patience_s)
            await self._leave_snapshot(patience_s)
        except (CosendError, TimeoutError) as error:
            LOG.warning("no snapshot was saved: the next start takes longer", extra={"reason": str(error)})
        for worker in self.workers.values():
            worker.close()
        self.lane.close()
        await asyncio.to_thread(self.commits.close)
        self.store.close()
        self.pulse.end()

    async def _leave_snapshot(self, patience_s: float) -> None:
        """Take the last snapshot, which takes a while if a million decisions are pending."""
        saving, begun = asyncio.ensure_future(self.snapshot()), time.monotonic()
        while not (await asyncio.wait([saving], timeout=0.1))[0]:
            if time.monotonic() - begun > (patience_s if self._hurried else LAST_SNAPSHOT_S):
                saving.cancel()
                raise TimeoutError("it took too long")
        saving.result()

    def _do(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception) and not isinstance(error, Unavailable):  # else the site has given up already
            self.running.fail(error)

    # Calls of clients

    @property
    def is_ready(self) -> bool:
        return self._not_ready is None

    def check_ready(self) -> None:
        if self._not_ready is not None:
            raise Unavailable(f"site {self.setup.name!r} cannot answer now: {self._not_ready}")

    @property
    def why_not_ready(self) -> str:
        return self._not_ready or ""

    def check_started(self) -> None:
        """Raise if there is nothing to look at yet."""
        self.running  # noqa: B018 - raises if it has not started

    async def classify(self, items: Sequence[Any], names: Sequence[str | None] | None = None) -> list[Result]:
        """Label items; `names` are their client's own ids, None where it gave none.

        One that was decided before under its name gets the same answer again.
        """
        self.check_ready()
        if not items:
            return []
        begun = time.perf_counter()
        if names is None or names.count(None) == len(names):
            results = await self.running.take(items, None).done
        else:
            results = await self.naming.classify(items, names)
        self.counts.history.answered(time.perf_counter() - begun)
        return results

    async def label(self, given: Sequence[Given], *, wait_for_peers: bool = False) -> Heard:
        """Learn true labels; they may come in any order, again and late.

        Peers are told soon after; `wait_for_peers` waits for that, but at most ten seconds.
        """
        self.check_ready()
        heard = await self.labelling.take(given)
        if wait_for_peers:
            await self.running.posting.told()
        return heard

    # Knowledge from before

    async def begin_with(self, items: Sequence[Any], truths: Sequence[Any]) -> int:
        """Learn labelled rows of a recording, on which all free local models are run; returns how many were learnt."""
        self.check_ready()
        batch = await self.running.take_recorded(items)
        self.check_ready()
        rows = [row for row, id_ in enumerate(batch.ids) if id_ and row not in batch.errors]
        rows = [row for row in rows if batch.ids[row] in self.state.learner.registry.notes]
        if rows:
            with self.running.whole_changes():
                learnt = [batch.ids[row] for row in rows]
                self.engine.learn(learnt, [truths[row] for row in rows], counted=False)
                self._note_labels(learnt)
        await self.commits.done()
        return len(rows)

    async def begin_with_log(self, items: Sequence[Any], arms: Sequence[str], scores: Sequence[float]) -> None:
        """Learn rows of another system's log: which local arm it used, and what that gained."""
        self.check_ready()
        columns, first = read_columns(self.setup.axes, items), self.state.learner.last_id + 1
        with self.running.whole_changes():
            self.engine.enter_log(items, columns, arms, scores)
            self._note_labels(range(first, self.state.learner.last_id + 1))
        await self.commits.done()

    def _note_labels(self, ids: Sequence[int]) -> None:
        event = self.commits.position - 1
        self.commits.also(LABEL, [(id_, event) for id_ in ids])
        self.running.run()

    # Calls of an operator

    async def change_arm(
        self, arm: str, *, cost: float | None = None, price: float | None = None, paused: bool | None = None
    ) -> None:
        self.check_ready()
        self.state.learner.arms.number(arm)  # raises if there is none
        cost = as_cost(self.setup.money, cost, price, f"arm {arm!r}")
        with self.running.whole_changes():
            if cost is not None:
                self.state.set_cost(arm, cost)
            if paused is not None:
                (self.state.pause if paused else self.state.resume)(arm)
        await self.commits.done()

    async def set_budget(self, budget: Budget | None) -> None:
        """Keep to another budget from now on, or to none."""
        self.check_ready()
        if budget is not None:
            for arm in (*budget.calls, *budget.at_most_per_second):
                self.state.learner.arms.number(arm)  # raises if there is none
            budget = budget.in_costs(self.setup.money)
        with self.running.whole_changes():
            self.state.set_budget(budget)
        await self.commits.done()
        LOG.info("budget changed", extra={"budget": in_words(budget, self.setup.money)})

    async def set_mode(self, mode: Mode, classifier: str = "") -> None:
        """Apply decisions, or only observe them while a classifier answers."""
        self.check_ready()
        if mode == "observe" and classifier not in self.setup.models:
            has = ", ".join(self.setup.models)
            raise ArmError(f"site {self.setup.name!r} has no classifier {classifier!r} that could answer: it has {has}")
        self._set_mode(mode, classifier if mode == "observe" else "")
        await self.commits.done()

    def _set_mode(self, mode: Mode, classifier: str) -> None:
        self.engine.observer = classifier or None
        self.commits.event(ModeChanged(mode, classifier))

    @property
    def observer(self) -> str | None:
        """The classifier that answers while decisions are only observed."""
        return None if self.driver is None else self.engine.observer

    # Calls of peers

    async def call(self, call: Call) -> Answered:
        """Answer the questions of a peer; what will be taught is on the disk before this returns."""
        self.check_ready()
        driver = self.running
        batch = await driver.answer(call)
        try:
            if not driver.is_open:  # the disk has failed meanwhile
                raise Unavailable(f"site {self.setup.name!r} is being rebuilt from its log")
            reports = []
            if any(training for training, _ in batch.flags) and not batch.errors:
                reports = [self.state.report(context) for context in batch.contexts]
            if any(batch.ids):
                await self.commits.done()
        except BaseException:
            driver.abandon(batch)
            raise
        return Answered(batch.replies(), reports)

    async def report(self, caller: str, contexts: Sequence[Context]) -> list[LabelledData]:
        """Report how much labelled data there is around contexts, on the axes that the caller announces."""
        self.check_ready()
        told = None if self.link is None else self.link.peers().get(caller)
        axes = self.state.encoder.names if told is None else told.context
        axes = axes[:-1] if axes and axes[-1].startswith(EVERY_FEATURE) else axes
        return [self.state.report_on(None, context, axes) for context in contexts]

    async def post(self, caller: str, forwards: Sequence[Forward]) -> None:
        """Take labels from a peer, and store them."""
        self.check_ready()
        self.running.take_labels(caller, forwards)
        await self.commits.done()

    # From time to time

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # the next time may be better
                LOG.error("tidying up failed", extra={"reason": in_one_line(error)})
                await asyncio.sleep(TIDY_S)

    async def _give_up_late(self) -> None:
        self.lane.look()
        for worker in self.workers.values():
            worker.give_up_late()
        self.running.tick()

    async def _look_for_standstill(self) -> None:
        """Give up if nothing moves though a client waits, or if a change was not finished."""
        if not self.is_ready:
            return
        setup, driver, commits = self.setup, self.running, self.commits
        longest_s = max(setup.deadline_s, LIMIT_S, *(worker.limit_s for worker in self.workers.values()))
        decisions_s = self._decisions.seconds(driver.engine.moves, awaited=driver.in_flight > 0)
        writes_s = self._writes.seconds(commits.written, awaited=commits.is_busy)
        if self.state.is_behind:
            driver.fail(StateError("a change of the state was not finished"))
        elif decisions_s > STUCK_S + longest_s:
            driver.fail(StateError(f"items wait, and no model or peer has answered for {decisions_s:.0f} s"))
        elif writes_s > STUCK_S:
            driver.fail(StateError(f"the disk has not written a transaction for {writes_s:.0f} s"))

    async def _make_room(self) -> None:
        """Grow the table of pending decisions in another thread before it is full."""
        registry = self.state.learner.registry
        if registry.is_filling_up:
            await asyncio.to_thread(registry.make_room)

    async def _tidy(self) -> None:
        """Take a snapshot if one is due, remove what is too old, and publish traffic."""
        if self.is_ready and self._snapshot_is_due():
            await self.snapshot()
        if self.is_ready and time.monotonic() - self._last_pruned > min(PRUNE_EVERY_S, self.setup.keep_s / 4):
            self._last_pruned = time.monotonic()
            await self.prune()
        if self.is_ready and self.link is not None:
            self.link.tell(written(traffic_of(self)))

    async def _note(self) -> None:
        """Note what people who look at the site want to see over time."""
        if self.is_ready:
            self._chronicle.look()

    def _snapshot_is_due(self) -> bool:
        new = self.commits.position - self._snapshots[1]
        old_s = time.monotonic() - self._last_snapshot
        return new >= SNAPSHOT_EVERY or (new > 0 and old_s > min(SNAPSHOT_EVERY_S, self.setup.keep_s / 4))

    async def snapshot(self) -> None:
        async with self._one_snapshot:
            while not await self._take_snapshot():
                pass

    async def _take_snapshot(self) -> bool:
        """Take a snapshot of one moment, most of which was copied before; returns False if something got in the way."""
        state, commits = self.state, self.commits
        while state.learner.registry.narrow:
            state.learner.registry.widen_some()
            await asyncio.sleep(0)
        freezing = await asyncio.to_thread(Freezing, state)
        for _ in freezing.copy_notes():
            await asyncio.sleep(0)
        if state is not self.state or not freezing.freeze():
            return False
        position, facts = commits.position, {"observer": self.observer}
        learning = {arm: worker for arm, worker in self.workers.items() if worker.classifier.learns}
        pickles = [self._pickled(worker) for worker in learning.values()]
        is_whole = freezing.add(await asyncio.to_thread(freezing.missing))
        await commits.done()
        patience_s = STOP_S if self._stopping else None  # a model may hang, and even then the site must end
        models = dict(zip(learning, await asyncio.wait_for(asyncio.gather(*pickles), patience_s), strict=True))
        if is_whole:
            await asyncio.to_thread(self.store.write_snapshot, freezing.finish, models, facts, position)
            self._snapshots, self._last_snapshot = [self._snapshots[1], position], time.monotonic()
        return is_whole

    def _pickled(self, worker: Worker) -> asyncio.Future[bytes]:
        """Let the thread of a model pickle it, after all that it was taught before and nothing later."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()

        def done(result: Any) -> None:
            give = future.set_exception if isinstance(result, Exception) else future.set_result
            with suppress(RuntimeError):  # the loop is closed: no client waits
                loop.call_soon_threadsafe(lambda: future.done() or give(result))

        worker.do(lambda: pickled(worker.name, worker.classifier), done)
        return future

    async def prune(self) -> None:
        """Remove old events, and the ids and labels of decisions that have no events left."""
        await asyncio.to_thread(self._remove_events)
        oldest = self.store.index.oldest_decision() or self.state.learner.last_id + 1
        registry = self.state.learner.registry  # what waits for its label is still found by its name
        gone = await self.store.look(_names_to_forget, oldest, registry)
        for start in range(0, len(gone), AT_ONCE):
            some = gone[start : start + AT_ONCE].tolist()
            self.commits.also(FORGET_NAMES, [(number,) for number in some if number not in registry])
            await self.commits.done()
        while self.store.index.has_labels_before(oldest):
            self.commits.also(FORGET_LABELS, [(oldest,)])
            await self.commits.done()

    def _remove_events(self) -> None:
        index, now = LogIndex(self.store.log.reader()), time.time()
        try:
            before = min(index.first_kept(now - self.setup.keep_s, now), self._snapshots[0])
        finally:
            index.close()
        if before > max(1, self.store.log.oldest):
            check_snapshot(self.store.log, self._snapshots[1])  # this site has written or read it itself
            self.store.log.remove(before)

    # After a failed commit or an unexpected error

    def _broken(self, reason: str) -> None:
        """Stop answering, because memory is ahead of the log, and rebuild the site from the log."""
        self._not_ready = f"{reason}; it is being rebuilt from its log"
        LOG.error("the site cannot continue, and is rebuilt from its log", extra={"reason": reason})
        if self.driver is not None:
            self.driver.close(self._not_ready)
        if not self._rebuilding and not self._stopping:
            self._rebuilding = True
            self._do(self._rebuild())

    async def _rebuild(self) -> None:
        rest_s = FIRST_REST_S
        while True:
            await asyncio.sleep(rest_s)
            rest_s = min(LONGEST_REST_S, 2 * rest_s)
            try:
                await asyncio.to_thread(self.commits.close)  # the events that it writes belong to the log
                await asyncio.to_thread(self.store.log.probe)
                recovered = await asyncio.to_thread(self.store.recover)
                for worker in self.workers.values():
                    worker.close()
                self._begin(recovered)
                await self.commits.done()
            except Exception as error:  # retried until it works
                LOG.error("the site could not be rebuilt from its log", extra={"reason": in_one_line(error)})
                self.commits.fail("the site could not be rebuilt")  # what a half rebuilt site says is not written
                continue
            self.counts.rebuilt += 1
            self._rebuilding = False
            self._go_on()
            LOG.info("the site is rebuilt from its log")
            return


def _names_to_forget(index: LogIndex, oldest: int, registry: Registry) -> Ints:
    """Return decisions with a client's id, no events and, as far as another thread can tell, no pending label."""
    return not_among(index.names_before(oldest), ids_among(registry.table.entries, oldest))
