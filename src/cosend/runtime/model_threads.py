"""Where the models of a site run: each in threads of its own, so that a slow one keeps no other waiting.

A model that learns has one thread: it is asked and taught in the order in which that was written down. A model that
takes longer than its limit has failed that call. Its thread cannot be ended, so another takes its place, except for a
model that learns, which no other thread may touch before it returns. The first thread of a model is started before
anything is asked. While the system cannot start more, those that there are do the work; if all of them hang, what waits
is failed after the time limit of the model.

Quick models share one thread (`Lane`): to wake a thread takes longer than such a model needs for hundreds of items.

Threads are daemons: a model that hangs does not keep the process from ending, as those of `concurrent.futures` would.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from cosend.engine.needs import Failure
from cosend.errors import ClassifierError, CosendError, in_one_line
from cosend.models.adapters import Classifier, teach
from cosend.site import answers_of

SHARE_OF_LIMIT: Final = 0.25  # of its time limit that a call should take: this decides how many items it gets at once
MOST_ITEMS: Final = 4_096
FIRST_ITEMS: Final = 16  # before it is known how fast a model is: many together could take a good one over its limit
QUICK_S: Final = 0.002  # of work: no second thread is woken for less, because waking one takes longer
MOST_STUCK: Final = 8  # threads that a model may leave hanging before it is given no more


class TooSlow(CosendError):
    """A model that took longer than its limit."""


Answers = list[Any]  # labels, or failures in their places


@dataclass(slots=True, eq=False)
class Job:
    """Something that a model does in its thread, and who hears of it: items are predicted, if there are any."""

    work: Callable[[], Any]
    done: Callable[[Any], None]  # called in the thread
    items: Sequence[Any] = ()
    started: float = 0.0
    is_over: bool = False  # it was given up, or has ended; who sets it calls `done`
    by_visit: bool = False  # not in a thread of the model's own

    @property
    def count(self) -> int:
        return len(self.items)


@dataclass(eq=False)
class Worker:
    """The threads of one model."""

    name: str
    classifier: Classifier
    limit_s: float
    threads: int
    lane: Lane | None = None  # for what is done in no time, if several threads may ask the model
    seconds_per_item: float = 0.0
    _jobs: deque[Job] = field(default_factory=deque)
    _running: set[Job] = field(default_factory=set)
    _changed: threading.Lock = field(default_factory=threading.Lock)
    _wakes: SimpleQueue[None] = field(default_factory=SimpleQueue)  # for idle threads: cheaper than a condition
    _items: int = 0  # that wait
    _idle: int = 0
    _woken: int = 0  # of the idle ones, those that were told to work and have not begun
    _expected: int = 0  # visits that have not begun
    _started: int = 0
    _stuck: int = 0
    _missing: int = 0  # threads that were to replace others, and could not be started
    _threadless_since: float = 0.0  # when a thread could not be started, 0 if the last one could
    _closed: bool = False

    def begin(self) -> None:
        """Start the first thread; raises if that is not possible."""
        with self._changed:
            if self.threads and not self._started and not self._start():
                raise CosendError(f"classifier {self.name!r} cannot be run: the system starts no more threads")

    def predict(self, items: Sequence[Any], done: Callable[[int, int, Answers], None]) -> None:
        """Let the model label items; `done` hears of it for some of them at a time.

        It gets the places of the first and after the last of these, and their labels, or a reply for each if the model
        has failed on any.
        """
        size = self._call_size()
        for start in range(0, len(items), size):
            part = items[start : start + size]
            self._put(Job(self._prediction(part), _told_from(done, start, len(part)), part))

    def _prediction(self, items: Sequence[Any]) -> Callable[[], Answers]:
        return partial(answers_of, self.name, self.classifier, items)

    def do(self, work: Callable[[], Any], done: Callable[[Any], None] = lambda _: None) -> None:
        """Let the thread of the model do something else, in its turn; `done` gets the result or the error."""
        self._put(Job(work, done))

    def _call_size(self) -> int:
        if not self.seconds_per_item:
            return FIRST_ITEMS
        return max(1, min(MOST_ITEMS, int(SHARE_OF_LIMIT * self.limit_s / self.seconds_per_item)))

    def _put(self, job: Job) -> None:
        with self._changed:
            self._jobs.append(job)
            self._items += job.count
            if not self._is_quick:
                self._wake()
            elif not self._is_attended:
                self._wake_any()

    @property
    def _is_quick(self) -> bool:
        """Whether one thread can do all that waits or runs in next to no time."""
        count = self._items + sum(job.count for job in self._running)
        return 0 < self.seconds_per_item * count < QUICK_S

    @property
    def _is_attended(self) -> bool:
        """Whether a thread works on it, or is about to, and does not hang."""
        if self._woken or self._expected:
            return True
        since = time.monotonic() - STALLED_S if self._running else 0.0
        return any(job.started > since for job in self._running)

    def _wake_any(self) -> None:
        """Use the thread that quick models share, if it does not hang."""
        if self.lane is not None and self.threads > 1 and not self.lane.is_stalled:
            self._expected += 1
            if self.lane.visit(self._visit):
                return
            self._expected -= 1
        self._wake()

    def _visit(self) -> None:
        """Do all that waits, in a thread that is not the model's own."""
        with self._changed:
            self._expected -= 1
        while (job := self._next_now()) is not None:
            if not self._do(job):
                return

    def _next_now(self) -> Job | None:
        with self._changed:
            if not self._jobs:
                return None
            job = self._begin()
            job.by_visit = True
            return job

    def _wake(self) -> None:
        if not self._idle and self._started < self.threads + self._missing and self._start():
            self._missing = max(0, self._missing - 1)
        if self._idle > self._woken:
            self._woken += 1
            self._wakes.put(None)

    def _start(self) -> bool:
        """Start a thread; returns whether that was possible. If not, `give_up_late` tries it again soon."""
        self._started += 1
        if started(threading.Thread(target=self._run, name=f"model {self.name}", daemon=True)):
            self._threadless_since = 0.0
            return True
        self._started -= 1
        self._threadless_since = self._threadless_since or time.monotonic()
        return False

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if not self._do(job) and not self._learns:  # the one thread of a model that learns was not replaced
                with self._changed:
                    if not self._missing:
                        self._started -= 1
                        return
                    self._missing -= 1  # this one was not replaced either

    def _do(self, job: Job) -> bool:
        """Do a job, and tell who waits; returns whether it was not given up meanwhile."""
        try:
            result = job.work()
        except CosendError as error:
            result = error
        except BaseException as error:  # a user's model may raise anything, SystemExit too
            result = CosendError(f"classifier {self.name!r} failed: {in_one_line(error)}")
        return self._ended(job, result)

    def _next(self) -> Job | None:
        while True:
            with self._changed:
                if self._jobs:
                    return self._begin()
                if self._closed:
                    return None
                self._idle += 1
            self._wakes.get()
            with self._changed:
                self._idle -= 1
                self._woken -= 1

    def _begin(self) -> Job:
        job = self._jobs.popleft()
        self._items -= job.count
        job.started = time.monotonic()
        self._running.add(job)
        if self._jobs and not self._is_quick:
            self._wake()
        return job

    def _ended(self, job: Job, result: Any) -> bool:
        with self._changed:
            self._running.discard(job)
            late, job.is_over = job.is_over, True
            self._stuck -= late
            if job.count:
                spent = (time.monotonic() - job.started) / job.count
                self.seconds_per_item = spent if not self.seconds_per_item else (self.seconds_per_item + spent) / 2
        if not late:
            job.done(result)
        return not late

    @property
    def _learns(self) -> bool:
        return self.classifier.learns

    def give_up_late(self) -> None:
        """Fail the predictions that take longer than the limit, and what waits behind them if no thread is left."""
        now, given_up, threadless = time.monotonic(), list[Job](), list[Job]()
        with self._changed:
            if self._jobs:  # the thread that should have done it hangs
                self._wake()
            for job in self._running:
                if not job.is_over and job.count and now - job.started > self.limit_s:
                    job.is_over = True
                    given_up.append(job)
                    self._stuck += 1
                    if not self._learns and not job.by_visit and self._stuck <= MOST_STUCK:
                        self._missing += not self._start()
            if self._learns and any(now - job.started > self.limit_s for job in self._running):
                given_up += self._take_waiting()  # also behind a lesson, which continues
            elif self._stuck > MOST_STUCK:
                given_up += self._take_waiting()
            elif self._threadless_since and now - self._threadless_since > self.limit_s and not self._has_threads:
                threadless = self._take_waiting()
        for job in given_up:
            job.done(TooSlow(f"classifier {self.name!r} took longer than {self.limit_s:g} s"))
        for job in threadless:
            job.done(CosendError(f"classifier {self.name!r} could not be asked: no thread can be started"))

    @property
    def _has_threads(self) -> bool:
        """Whether any thread of its own does not hang."""
        return self._started > sum(job.is_over and not job.by_visit for job in self._running)

    def _take_waiting(self) -> list[Job]:
        """Take all predictions off the queue; lessons stay, they must not be lost."""
        waiting = [job for job in self._jobs if job.count]
        self._jobs, self._items = deque(job for job in self._jobs if not job.count), 0
        for job in waiting:
            job.is_over = True
        return waiting

    def close(self) -> None:
        """Let the threads end when they have nothing left to do."""
        with self._changed:
            self._closed = True
            while self._idle > self._woken:
                self._wake()


def _told_from(done: Callable[[int, int, Answers], None], start: int, count: int) -> Callable[[Any], None]:
    """Return what tells the answers of a part; an error is a failed reply for every item of it."""

    def tell(result: Any) -> None:
        answers = result
        if isinstance(result, Exception):
            answers = [Failure(str(result), "time" if isinstance(result, TooSlow) else "error")] * count
        done(start, start + count, answers)

    return tell


def teach_all(name: str, classifier: Classifier, examples: Iterable[tuple[Any, Any]]) -> CosendError | None:
    """Let a model learn from items and their true labels, all of them, and return what went wrong.

    A model may raise SystemExit or KeyboardInterrupt too. In the thread of a model these must not end what else is to
    be taught, and at a start not the process: a label that a model cannot bear is in the log for good.
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


STALLED_S: Final = 0.01  # of one visit: then another thread takes over the rest


class Lane:
    """A thread that visits models; it is replaced if it does not come back from one."""

    def __init__(self) -> None:
        self._visits: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._since = 0.0  # when the current visit began, 0 between visits

    def begin(self) -> None:
        """Start the thread; raises if that is not possible."""
        if self._thread is None and not self._start():
            raise CosendError("models cannot be run: the system starts no more threads")

    def visit(self, visit: Callable[[], None]) -> bool:
        """Have a visit made soon, in the thread; returns whether there is a thread."""
        if (self._thread is None or not self._thread.is_alive()) and not self._start():
            return False
        self._visits.put(visit)
        return True

    @property
    def is_stalled(self) -> bool:
        """Whether a visit takes so long that others should not wait for it."""
        since = self._since
        return bool(since) and time.monotonic() - since > STALLED_S

    def look(self) -> None:
        """Replace the thread if it does not return from a visit."""
        if self.is_stalled:
            since, self._since = self._since, 0.0
            if not self._start():
                self._since = since  # the next time, unless it comes back before
        elif not self._visits.empty() and self._thread is not None and not self._thread.is_alive():
            self._start()

    def _start(self) -> bool:
        """Replace the thread; returns whether the system could start one."""
        before = self._thread
        self._thread = threading.Thread(target=self._run, name="quick models", daemon=True)
        if not started(self._thread):
            self._thread = before
            return False
        return True

    def _run(self) -> None:
        while (visit := self._visits.get()) is not None:
            self._since = time.monotonic()
            visit()
            if threading.current_thread() is not self._thread:
                return
            self._since = 0.0

    def close(self) -> None:
        """Let the thread end when it has nothing left to do."""
        if self._thread is not None:
            self._visits.put(None)


def started(thread: threading.Thread) -> bool:
    """Start a thread; returns whether there is one, because systems have limits."""
    try:
        thread.start()
    except RuntimeError:  # "can't start new thread": later there may be room for it
        return False
    return True
