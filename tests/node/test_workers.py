"""Workers: models in threads of their own, in order if they learn, given up when they take too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cosend.models.adapters import Predicted, as_classifier
from cosend.runtime.model_threads import MOST_STUCK, Lane, Worker
from tests.node.sites import is_busy

LIMIT_S = 0.1
LONGEST_S = 10.0


class Heard:
    """Collects what workers tell, from any thread."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.changed = threading.Condition()

    def __call__(self, start: int, end: int, answers: Predicted) -> None:
        with self.changed:
            self.answers.update(zip(range(start, end), answers.labels, strict=True))
            self.changed.notify()

    def wait(self, count: int) -> list[Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.answers) >= count, LONGEST_S)
            return [self.answers[place] for place in sorted(self.answers)]


@pytest.fixture
def make() -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def worker(model: Any, threads: int = 2) -> Worker:
        made.append(Worker("model", as_classifier(model), LIMIT_S, threads))
        return made[-1]

    yield worker
    for each in made:
        each.close()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_calls_that_hang_are_given_up_and_other_threads_take_their_place(make: Callable[..., Worker]) -> None:
    go_on = threading.Event()

    def model(item: str) -> str:
        if item == "hang":
            go_on.wait(LONGEST_S)
        return item

    worker, late, heard = make(model), Heard(), Heard()
    for _ in range(2):
        worker.predict(["hang"], late)
    until(lambda: len(worker._running) == 2)
    worker.predict(["good"], heard)
    time.sleep(1.1 * LIMIT_S)
    worker.give_up_late()
    assert heard.wait(1) == ["good"]
    assert "took longer than 0.1 s" in str(late.wait(1)[0].reason)
    go_on.set()
    until(lambda: worker._stuck == 0 and worker._started == 2)
    worker.predict(["again"], heard := Heard())
    assert heard.wait(1) == ["again"]


def test_a_model_that_leaves_too_many_threads_hanging_is_given_no_more(make: Callable[..., Worker]) -> None:
    go_on = threading.Event()
    worker = make(lambda _: go_on.wait(LONGEST_S), 1)
    heard = [Heard() for _ in range(MOST_STUCK + 5)]
    for each in heard:
        worker.predict([0], each)
    end = time.monotonic() + LONGEST_S
    while any(not each.answers for each in heard) and time.monotonic() < end:
        worker.give_up_late()
        time.sleep(0.02)
    assert all(each.answers[0].kind == "time" for each in heard)
    assert worker._stuck <= MOST_STUCK + 1
    go_on.set()
    until(lambda: worker._stuck == 0)


class Counting:
    """A model that knows in which threads it was asked."""

    learns = False

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.hang: threading.Event | None = None

    def predict(self, items: Any) -> list[Any]:
        self.threads.append(threading.current_thread().name)
        hang = self.hang
        if hang is not None:
            hang.wait(LONGEST_S)
        return list(items)

    def learn(self, item: Any, label: Any) -> None:
        pass


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane()
    lane.begin()
    yield lane
    lane.close()


def quick(lane: Lane, threads: int = 2) -> tuple[Counting, Worker]:
    """Return a model that is known to be quick, and its worker."""
    model = Counting()
    worker = Worker("model", model, LIMIT_S, threads, lane)
    worker.seconds_per_item = 1e-6
    return model, worker


def asked(worker: Worker, item: Any = 1) -> Heard:
    heard = Heard()
    worker.predict([item], heard)
    return heard


@pytest.mark.parametrize(
    ("threads", "seconds", "thread"), [(2, 1e-6, "quick models"), (1, 1e-6, "model model"), (2, 1.0, "model model")]
)
def test_quick_models_share_a_thread_unless_only_one_may_ask_them(
    threads: int, seconds: float, thread: str, lane: Lane
) -> None:
    both = quick(lane, threads), quick(lane, threads)
    for model, worker in both:
        worker.seconds_per_item = seconds
        assert asked(worker, "a").wait(1) == ["a"]
        worker.close()
        assert model.threads == [thread]


def test_a_quick_model_that_hangs_holds_up_others_only_until_somebody_looks(lane: Lane) -> None:
    (hangs, first), (other, second) = quick(lane), quick(lane)
    hangs.hang = threading.Event()
    late = asked(first)
    until(lambda: lane.is_stalled)
    behind = asked(first), asked(second)  # whoever comes now is asked in a thread of its own
    assert behind[1].wait(1) == [1]
    assert other.threads == ["model model"]
    lane.look()
    first.seconds_per_item = second.seconds_per_item = 1e-6
    assert asked(second).wait(1) == [1]
    assert other.threads[-1] == "quick models"
    hangs.hang.set()
    for heard in (late, behind[0]):
        assert heard.wait(1) == [1]
    for worker in (first, second):
        worker.close()


def test_a_visit_that_is_given_up_leaves_no_thread_behind(lane: Lane) -> None:
    model, worker = quick(lane)
    replaced: list[threading.Thread | None] = []
    for _ in range(3):
        model.hang = threading.Event()
        late = asked(worker)
        until(lambda: lane.is_stalled)
        replaced.append(lane._thread)
        time.sleep(LIMIT_S)
        lane.look()
        worker.give_up_late()
        assert "took longer" in str(late.wait(1)[0].reason)
        model.hang.set()
        model.hang = None
        until(lambda: not is_busy(worker))
        assert (worker._stuck, worker._started) == (0, 0)
        worker.seconds_per_item = 1e-6
    until(lambda: not any(each is not None and each.is_alive() for each in replaced))
    assert asked(worker).wait(1) == [1]
