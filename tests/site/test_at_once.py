"""Several threads may use one site, one network and one learner, with all verbs at once."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cosend import Learner, Network, Site
from cosend.axes import Feature
from tests.site.at_once import THREADS, Nobody, a_site

ROOT = Path(__file__).parents[2]

# What drives a site from inside, one turn at a time, and what only looks something up that was given.
INSIDE = {
    "site": {"axis_names", "learner", "score_local"},
    "network": set(),
    "learner": {"arrivals", "check_answers", "check_different", "check_told", "decide", "enter", "enter_answers"}
    | {"enter_question", "enter_told", "find", "forget_notes", "from_state", "last_id", "ledger", "look_up"}
    | {"no_label_wanted", "patience", "settle", "still_pending", "unchanged", "pending_count"},
}
KINDS: dict[str, type] = {"site": Site, "network": Network, "learner": Learner}


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["site", "network", "learner"])
def test_eight_threads_use_every_verb(kind: str, tmp_path: Path) -> None:
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(  # noqa: S603 - a script of these tests
        [sys.executable, "-m", "tests.site.at_once", kind, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **paths},
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]  # it ended with a crash before sites had a lock
    told: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    assert told["errors"] == []
    assert told["made"] == told["ids"] == told["items"]
    public = {name for name in dir(KINDS[kind]) if not name.startswith("_")}
    assert public - {*told["used"]} == INSIDE[kind]
    if kind == "site":
        assert told["labels"] == told["made"]
    if kind == "learner":
        assert told["pending"] == 0
        assert told["dimensions"] == 1 + THREADS


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


def test_sites_that_call_each_other_do_not_wait_for_each_other() -> None:
    """With a lock for each site, two threads that call one another's site would hang."""
    network = Network([a_site("north"), a_site("south")])
    sites = [*network.sites.values()]

    def work(me: int) -> None:
        for n in range(100):
            sites[me].learn(sites[me].classify({"x": n % 10 / 10}), bool(me))

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


def test_a_copy_of_a_site_has_a_lock_of_its_own_unless_it_has_peers() -> None:
    learner = Learner("here", own={"a": 0.0})
    assert pickle.loads(pickle.dumps(learner)).alone is not learner.alone  # noqa: S301 - made here
    network = Network([a_site("north"), a_site("south")])
    one = deepcopy(network).sites["north"]
    assert one is not network.sites["north"]
    assert one.alone is network.sites["north"].alone
    alone = a_site()
    assert deepcopy(alone).alone is not alone.alone
