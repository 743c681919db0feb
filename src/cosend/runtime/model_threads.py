"""The threads in which the models of a site run.

A model that learns has one, and is asked and taught there in the order in which things happen. Any other has several,
so that a call that hangs does not hold up the rest. A call that takes too long is given up and another thread takes its
place; too many at once and the model is given nothing until some come back. How many items go in one call follows from
how fast the model was before: a slow one must not be given more than it can do in time, and a fast one is called once
for hundreds of items.

Threads are daemons: a model that hangs does not keep the process from ending, as those of `concurrent.futures` would.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from cosend.engine.needs import Failure
from cosend.errors import ClassifierError, CosendError, in_one_line
from cosend.models.adapters import Classifier, Predicted, answers_of, teach
from cosend.runtime.durations import Durations

SHARE_OF_LIMIT: Final = 0.25  # of its time limit that a call should take: this decides how many items it gets at once
MOST_ITEMS: Final = 4_096
FIRST_ITEMS: Final = 16  # before it is known how fast a model is: many together could take a good one over its limit
QUICK_S: Final = 0.002  # a call that takes less is made in the thread that models share: waking another takes longer
STALLED_S: Final = 0.01  # of one call in that thread: then others do not wait for it
LOWEST_PRIORITY: Final = 19
MOST_STUCK: Final = 8  # threads that a model may leave hanging before it is given no more


class TooSlow(CosendError):
    """A model that took longer than its limit."""


@dataclass(slots=True, eq=False)
class Job:
    """Something that a model does in its thread, and who hears of it."""

    work: Callable[[], Any]
    done: Callable[[Any], None]  # called in the thread, with the result or the error
    count: int = 0  # of items that are predicted; 0: it is something else, and is never given up
    started: float = 0.0
    is_over: bool = False  # it was given up: who did that has called `done`
    is_shared: bool = False  # it is done in the lane, and not in a thread of the model's own


class Worker:
    """The threads of one model."""

    def __init__(
        self, name: str, classifier: Classifier, limit_s: float, threads: int, lane: Lane | None = None
    ) -> None:
        self.name, self.classifier, self.limit_s, self.threads = name, classifier, limit_s, threads
        self._lane = lane if threads > 1 else None
        self.seconds_per_item = 0.0  # lately, 0 if it is not known
        self.took = Durations()  # of calls, until they were back or given up
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: it is closed
        self._changed = threading.Lock()
        self._left = 0  # jobs that wait or run
        self._running: set[Job] = set()
        self._started = 0  # threads, without those that hang
        self._stuck = 0  # that hang

    def begin(self) -> None:
        """Start the first thread; raises if that is not possible."""
        with self._changed:
            if self.threads and not self._started and not self._start():
                raise CosendError(f"classifier {self.name!r} cannot be run: the system starts no more threads")

    def predict(self, items: Sequence[Any], done: Callable[[int, int, Predicted], None]) -> None:
        """Let the model label items; `done` hears of it for some of them at a time.

        It gets the places of the first and after the last of these, and their labels, or a failure for each.
        """
        size = self._call_size()
        for start in range(0, len(items), size):
            part = items[start : start + size]
            work = partial(answers_of, self.name, self.classifier, part)
            self._put(Job(work, _told_from(done, start, len(part)), len(part)))

    def do(self, work: Callable[[], Any], done: Callable[[Any], None] = lambda _: None) -> None:
        """Let the thread of the model do something else, in its turn; `done` gets the result or the error."""
        self._put(Job(work, done))

    def _call_size(self) -> int:
        if not self.seconds_per_item:
            return FIRST_ITEMS
        return max(1, min(MOST_ITEMS, int(SHARE_OF_LIMIT * self.limit_s / self.seconds_per_item)))

    def _put(self, job: Job) -> None:
        with self._changed:
            self._left += 1
        lane, expected_s = self._lane, self.seconds_per_item * job.count
        if lane is None or not 0 < expected_s < QUICK_S or lane.is_stalled:
            self.queue(job)
        else:
            job.is_shared = True
            lane.put(self, job)

    def queue(self, job: Job) -> None:
        """Have a job done in a separate thread."""
        with self._changed:
            job.is_shared = False
            self._jobs.put(job)
            if self._started < min(self.threads, self._left - self._stuck):
                self._start()

    def _start(self) -> bool:
        """Start a thread; returns whether that was possible. If not, `give_up_late` retries it soon."""
        has_one = started(threading.Thread(target=self._run, name=f"model {self.name}", daemon=True))
        self._started += has_one
        return has_one

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self.work(job):
                return
        self._jobs.put(None)  # for the next thread

    def work(self, job: Job) -> bool:
        """Do a job in this thread, and tell the waiting caller; returns whether a separate thread continues."""
        with self._changed:
            job.started = time.monotonic()
            self._running.add(job)
        try:
            result = job.work()
        except CosendError as error:
            result = error
        except BaseException as error:  # a user's model may raise anything, SystemExit too
            result = CosendError(f"classifier {self.name!r} failed: {in_one_line(error)}")
        with self._changed:
            self._left -= 1
            self._running.discard(job)
            if job.count:
                spent_s = time.monotonic() - job.started
                self.seconds_per_item = smoothed(self.seconds_per_item, spent_s / job.count)
                if not job.is_over:
                    self.took.add(spent_s)
            goes_on = True
            if job.is_over:
                self._stuck -= 1
            if job.is_over and not self._learns and not job.is_shared:
                goes_on = self._started < self.threads  # else another has taken its place
                self._started += goes_on
        if not job.is_over:
            job.done(result)
        return goes_on

    @property
    def _learns(self) -> bool:
        return self.classifier.learns

    def give_up_late(self) -> None:
        """Fail the predictions that take longer than the limit, and what waits behind them if no thread is left."""
        now, threadless = time.monotonic(), list[Job]()
        with self._changed:
            late = [job for job in self._running if now - job.started > self.limit_s]
            given_up = [job for job in late if job.count and not job.is_over]
            for job in given_up:
                job.is_over = True
                self.took.add(now - job.started)
            self._stuck += len(given_up)
            if self._learns:  # its one thread is not replaced; what waits is given up behind a lesson too
                hangs = bool(late)
            else:
                self._started -= sum(not job.is_shared for job in given_up)
                hangs = self._stuck > MOST_STUCK
                while not hangs and self._started < min(self.threads, self._left - self._stuck) and self._start():
                    pass
            if hangs:
                given_up += self._take_waiting()
            elif self.threads and not self._started:
                threadless = self._take_waiting()
        for job in given_up:
            job.done(TooSlow(f"classifier {self.name!r} took longer than {self.limit_s:g} s"))
        for job in threadless:
            job.done(CosendError(f"classifier {self.name!r} could not be asked: no thread can be started"))

    def _take_waiting(self) -> list[Job]:
        """Take all predictions off the queue; lessons stay, they must not be lost."""
        waiting, others = list[Job](), list[Job | None]()
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                waiting.append(job) if job is not None and job.count else others.append(job)
        for job in others:
            self._jobs.put(job)
        self._left -= len(waiting)
        return waiting

    def close(self) -> None:
        """Let the threads end when they have nothing left to do."""
        self._jobs.put(None)


class Lane:
    """A thread that quick models share; it is replaced if one of them turns out not to be quick."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Worker, Job] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._since = 0.0  # when the current job began, 0 between jobs

    def begin(self) -> None:
        """Start the thread; raises if that is not possible."""
        if self._thread is None and not self._start():
            raise CosendError("models cannot be run: the system starts no more threads")

    def put(self, worker: Worker, job: Job) -> None:
        self._jobs.put((worker, job))

    @property
    def is_stalled(self) -> bool:
        """Whether a job takes so long that others should not wait for it."""
        since = self._since
        return bool(since) and time.monotonic() - since > STALLED_S

    def look(self) -> None:
        """Replace the thread if it does not return from a job; what waits behind that goes to the models' own."""
        if self.is_stalled:
            with suppress(Empty):
                while (waiting := self._jobs.get_nowait()) is not None:
                    worker, job = waiting
                    worker.queue(job)
            self._start()

    def _start(self) -> bool:
        before = self._thread
        self._thread = threading.Thread(target=self._run, name="quick models", daemon=True)
        if not started(self._thread):
            self._thread = before
            return False
        self._since = 0.0
        return True

    def _run(self) -> None:
        while (waiting := self._jobs.get()) is not None:
            self._since = time.monotonic()
            worker, job = waiting
            worker.work(job)
            if threading.current_thread() is not self._thread:
                return
            self._since = 0.0

    def close(self) -> None:
        """Let the thread end when it has nothing left to do."""
        self._jobs.put(None)


def started(thread: threading.Thread) -> bool:
    """Start a thread; returns whether there is one, because systems have limits."""
    try:
        thread.start()
    except RuntimeError:  # "can't start new thread": later there may be room for it
        return False
    return True


def fit_beside(work: Callable[[], object]) -> None:
    """Do work in a separate thread that gets the processor only when no other wants it, where that is possible."""

    def run() -> None:
        with suppress(OSError, AttributeError):  # other systems than Linux know no priority of a thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        work()

    if not started(threading.Thread(target=run, name="fit", daemon=True)):
        work()


def _told_from(done: Callable[[int, int, Predicted], None], start: int, count: int) -> Callable[[Any], None]:
    """Return what tells the answers of a part; an error is a failed reply for every item of it."""

    def tell(result: Any) -> None:
        answers = result
        if isinstance(result, Exception):
            answers = Predicted([Failure(str(result), "time" if isinstance(result, TooSlow) else "error")] * count)
        done(start, start + count, answers)

    return tell


def smoothed(before: float, now: float) -> float:
    """Return the mean of what was measured before, 0 if nothing was, and now."""
    return (before + now) / 2 if before else now


def teach_all(name: str, classifier: Classifier, examples: Iterable[tuple[Any, Any]]) -> CosendError | None:
    """Let a model learn from items and their true labels, all of them, and return what went wrong.

    A model may raise SystemExit or KeyboardInterrupt too. In the thread of a model these must not end what else is to
    be taught, and at a start not the process: a label that breaks a model stays in the log.
    """
    wrong: CosendError | None = None
    for item, truth in examples:
        try:
            teach(name, classifier, item, truth)
        except CosendError as error:
            wrong = error
        except BaseException as error:
            wrong = ClassifierError(f"classifier {name!r} failed to learn: {in_one_line(error)}")
    return wrong
