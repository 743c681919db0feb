"""Several threads may use one site, one network and one learner."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from cosend import Learner, Network, Site
from cosend.algorithm.values import LabelledData
from cosend.axes import Feature
from cosend.engine.needs import Call, Forward

THREADS = 8
ROUNDS = 40

# What takes no lock: it only looks something up that was given, calls what does, or drives a learner from inside.
UNGUARDED = {
    Site: {"add_peer", "axis_names", "learn", "learner", "save", "score_local"},
    Network: {"run"},
    Learner: {
        "arrivals",
        "check_answers",
        "check_different",
        "check_out",
        "check_points",
        "check_rewards",
        "check_told",
        "choose",
        "decide",
        "decide_at",
        "explore_freely",
        "enter",
        "enter_answers",
    }
    | {"enter_question", "enter_told", "find", "forget_notes", "last_id", "learn", "ledger", "look_up"}
    | {"no_label_wanted", "patience", "settle", "still_pending", "unchanged", "pending_count"},
}


class Nobody:
    """A peer that labels nothing."""

    def report(self, context: tuple[Any, ...]) -> LabelledData:
        return LabelledData(0, 0)

    def serve(self, call: Call) -> list[Any]:
        raise OSError("nobody is there")

    def teach(self, forward: Forward) -> None:
        raise OSError("nobody is there")


def a_site(name: str = "here") -> Site:
    models = {"yes": lambda item: True, "no": lambda item: False}
    return Site(name, classifiers=models, context=Feature("x", range=(0, 1)))


def all_at_once(work: Callable[[int], None]) -> None:
    """Let threads work at the same time, and raise what went wrong in any of them."""
    errors: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []


@pytest.fixture
def hurried() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("kind", UNGUARDED, ids=lambda kind: str(kind.__name__))
def test_every_verb_takes_the_lock(kind: type) -> None:
    public = {name: verb for name, verb in vars(kind).items() if not name.startswith("_")}
    assert {name for name, verb in public.items() if not hasattr(verb, "__wrapped__")} == UNGUARDED[kind]


@pytest.mark.compiled
@pytest.mark.usefixtures("hurried")
def test_threads_that_use_one_site_lose_and_double_nothing() -> None:
    site, made = a_site(), list[int]()

    def work(me: int) -> None:
        for n in range(ROUNDS):
            decisions = site.classify_many([{"x": (me + n) % 10 / 10}] * 3)
            made.extend(each.id for each in decisions)
            lasting = [each for each in decisions if each.arm in ("yes", "no")]  # others leave with what is pending
            assert {each.id for each in lasting} <= {*site.pending()}
            for decision in lasting[:1]:
                site.learn(decision, True)
            site.learn_many(lasting[1:], [True] * len(lasting[1:]))
            site.state(), site.summary(), site.weights(), site.best_model([{"x": 0.5}])
            if n % 10 == 0:
                site.add_classifier(f"new {me}", lambda item: True)
                site.add_peer(f"peer {me}", Nobody())
                site.remove(f"peer {me}")
                site.remove(f"new {me}")

    all_at_once(work)
    assert len(made) == len({*made}) == site.learner.arrivals == 3 * THREADS * ROUNDS


@pytest.mark.compiled
@pytest.mark.usefixtures("hurried")
def test_threads_that_use_one_network_do_not_wait_for_each_other() -> None:
    """With a lock for each site, two threads that call one another's site would hang."""
    network = Network([a_site("north"), a_site("south"), a_site("east")])

    def work(me: int) -> None:
        rows = [({"x": n % 10 / 10}, bool(me % 2)) for n in range(ROUNDS // 4)]
        for _ in network.run({("north", "south", "east")[me % 3]: rows}):
            network.summary()
        network.add(a_site(f"new-{me}"))
        network.remove(f"new-{me}")

    all_at_once(work)
    assert sum(site.learner.arrivals for site in network.sites.values()) == THREADS * (ROUNDS // 4)


def test_a_site_that_gets_peers_takes_those_along_who_wait_for_it() -> None:
    site, done = a_site(), threading.Event()

    def look() -> None:
        site.summary()
        done.set()

    with site.alone.lock:
        thread = threading.Thread(target=look)
        thread.start()
        assert not done.wait(0.2)
        site.add_peer("peer", Nobody())
        assert site.alone is site.learner.alone
        assert site.alone is Network([a_site("a"), a_site("b")]).sites["a"].alone
    thread.join(60)
    assert done.is_set()


def test_a_model_may_ask_its_own_site() -> None:
    sites: list[Site] = []
    models = {"one": lambda _: sites[0].summary().items}
    sites.append(Site("here", classifiers=models, context=Feature("x", range=(0, 1))))
    assert sites[0].classify({"x": 0.5}).label == 0  # it is asked before the item is entered


def test_a_copy_of_a_site_has_a_lock_of_its_own_unless_it_has_peers() -> None:
    learner = Learner("here", own={"a": 0.0})
    assert pickle.loads(pickle.dumps(learner)).alone is not learner.alone  # noqa: S301 - made here
    network = Network([a_site("north"), a_site("south")])
    one = deepcopy(network).sites["north"]
    assert one is not network.sites["north"]
    assert one.alone is network.sites["north"].alone
    alone = a_site()
    assert deepcopy(alone).alone is not alone.alone
