"""The client against a service that runs: what is sent again is decided once, and errors say what is wrong."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from cosend import Budget, Money, Site, client
from cosend.client import AsyncClient, Client, LabelReceipt
from cosend.errors import CosendError, NoAnswer, ServiceError, SettingError, SomeUnanswered, Unreachable
from cosend.models.adapters import as_classifier
from cosend.server.auth import Tokens
from tests.server.services import Trouble, a_setup, served, young

Service = tuple[str, Trouble]


def broken_for_some(item: dict[str, Any]) -> str:
    if item.get("odd"):
        raise ValueError("too odd")
    return "well"


def slow(item: dict[str, Any]) -> str:
    time.sleep(0.5)
    return young(item)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with served(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.001)


def test_decisions_labels_and_what_the_site_knows_of_them(service: Service) -> None:
    with Client(service[0]) as site:
        assert site.ready()
        first, second = site.classify_many([{"age": 30}, {"age": np.float64(70.0)}], ids=["visit/1 ü?#", None])
        assert (first.id, first.label, first.answered_by) == ("visit/1 ü?#", "well", None)
        assert second.arm == "stack"  # no label has come: the models vote
        assert len(second.id) == 32
        assert site.learn(first, "well") == "learnt"
        assert site.learn(first.id, "well") == "duplicate"
        heard = site.learn_many([second, "nobody's"], ["ill", "ill"], [0.5, None])
        assert heard == LabelReceipt(learnt=[second.id], unknown=["nobody's"])
        record = site.decision(first.id)
        assert (record.label, record.truth, record.labelled, record.context) == ("well", "well", True, [0.3])
        assert site.classify({"age": 99}, first.id) == first  # the same id, the same decision
        for name in (".", "..", "a/../b"):  # which look like parts of a path
            assert site.decision(site.classify({"age": 30}, name).id).id == name


def test_scores_in_place_of_labels(service: Service) -> None:
    with Client(service[0]) as site:
        made = site.classify_many([{"age": age} for age in range(6)])
        assert site.learn(made[0], score=0.5) == "learnt"
        assert site.learn(made[0], score=0.5) == "duplicate"
        assert site.learn(made[1], score=math.nan) == "missing"
        assert site.learn(made[1], score={made[1].arm: None}) == "missing"
        assert site.learn(made[1], score={"young": 0.5, "any": np.float64(0.25), "grown": 0, "stack": 1}) == "learnt"
        assert site.decision(made[0].id).score == 0.5
        heard = site.learn_many(made[2:5], ["ill", None, None], scores=[None, 0.1, None])
        assert heard == LabelReceipt(learnt=[made[2].id, made[3].id], missing=[made[4].id])
        assert site.learn_many([made[4]], scores=[1]).learnt == [made[4].id]
        with pytest.raises(SettingError, match="the label 'ill' and a score"):
            site.learn(made[5], "ill", score=0.5)
        with pytest.raises(ServiceError, match=r"the price of decision .* what a correct answer is worth"):
            site.learn(made[5], score=0.5, price=0.1)
        with pytest.raises(SettingError, match="truths must be a list of labels, or scores"):
            site.learn_many([made[5]])
        with pytest.raises(SettingError, match="scores must be as many as decisions"):
            site.learn_many([made[5]], scores=[])
        with pytest.raises(SettingError, match="not finite"):
            site.learn(made[5], score=math.inf)
        with pytest.raises(ServiceError, match="from 0 to 1, got 7"):
            site.learn(made[5], score=7)


def test_what_the_site_shows_of_itself_and_what_an_operator_changes(service: Service) -> None:
    with Client(service[0]) as site:
        site.learn_many(site.classify_many([{"age": age} for age in range(100)]), ["well"] * 100)
        summary = site.summary()
        assert (summary.site, summary.mode, summary.ready) == ("north", "apply", True)
        assert [arm.name for arm in site.arms()] == ["young", "any", "grown", "stack"]
        assert len(site.cells()) == summary.cells
        assert site.change_arm("any", cost=0.25, paused=True).paused
        assert "any" not in {each.arm for each in site.classify_many([{"age": 1}] * 20)}
        assert site.change_arm("any", cost=0.0, paused=False).cost == 0.0
        with httpx.Client(base_url=service[0]) as http:  # the same words in HTTP
            assert http.post("/v1/arms/any", json={"paused": True}).json()["paused"] is True
            assert http.post("/v1/arms/any", json={"cost": 0.5}).json()["paused"] is True  # what is not named stays
        assert [arm.name for arm in site.arms() if arm.paused] == ["any"]
        site.change_arm("any", cost=0.0, paused=False)
        (limit,) = site.set_budget(Budget(total=5.0)).budget
        assert (limit.limit, limit.amount, limit.unit, str(limit)) == ("total", 5.0, "costs", "spent 0 of the 5 costs")
        with pytest.raises(SettingError, match="a Budget, for example"):
            site.set_budget(5.0)  # type: ignore[arg-type]
        with pytest.raises(ServiceError, match="has no arm 'nobody'"):
            site.set_budget(Budget(at_most_per_second={"nobody": 1.0}))
        assert site.set_budget(None).budget == []
        assert site.set_mode("observe", "any").answered_by == "any"
        assert site.classify({"age": 70}).answered_by == "any"
        assert site.set_mode("apply").mode == "apply"
        assert site.cells()[0].arms["any"].reward_count >= 0


def test_what_a_client_prints_of_a_site_is_a_table(tmp_path: Path) -> None:
    money, budget = Money(0.1, "EUR"), Budget(per_item=0.00003)
    setup = a_setup(money=money, budget=budget, costs={"any": 0.0006}, score_local="used")
    with served(tmp_path, setup) as (url, _), Client(url) as site:
        made = site.classify_many([{"age": age} for age in range(20)])
        site.learn_many(made, ["well"] * 20)
        site.change_arm("any", paused=True)
        summary, arms = site.summary(), site.arms()
    lines = str(summary).splitlines()
    assert lines[0].startswith("site north, cosend ")
    rows = dict(line.split(maxsplit=1) for line in lines[2:])
    assert rows["items"] == "20"
    assert rows["labels"] == "20 learnt, 0 expired, 0 unknown"
    assert rows["budget"].startswith("per item  spent 0.")
    assert rows["budget"].endswith(" of the 0.0006 EUR allowed so far")
    assert str(arms).splitlines()[1].split() == [
        "arm",
        "kind",
        "cost",
        *["price", "spent"],
        *["decisions", "labels", "mean", "gain", "state"],
    ]
    any_arm = next(line.split() for line in str(arms).splitlines() if line.startswith("any"))
    assert any_arm[:4] == ["any", "local", "0.0006", "0.00006"]
    spent = 0.00006 * sum(each.arm == "any" for each in made)
    assert float(any_arm[4]) == pytest.approx(spent)
    assert rows["spent"] == f"{any_arm[4]} EUR"
    assert any_arm[-1] == "paused"
    assert repr(arms) == str(arms)
    assert arms == [*arms]
    assert "<table>" in arms._repr_html_()
    assert "<table>" in summary._repr_html_()


def test_all_pages_are_followed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(service[0]) as site:
        site.classify_many([{"age": age} for age in range(100)])
        cells, events = site.cells(), list(site.events())
        assert [event["number"] for event in events] == list(range(site.summary().events))
        assert events[0]["event"] == "Started"
        monkeypatch.setattr(client, "PAGE", 1)
        assert site.cells() == cells
        assert [arm.name for arm in site.arms()] == ["young", "any", "grown", "stack"]
        assert list(site.events(len(events) - 3)) == events[-3:]


async def test_the_same_with_asyncio_and_replies_that_are_lost(tmp_path: Path) -> None:
    with served(tmp_path) as (url, trouble):
        async with AsyncClient(url) as site:
            assert await site.ready()
            trouble.losses = 6
            batches = await asyncio.gather(*(site.classify_many([{"age": age}] * 3) for age in range(20)))
            ids = [each.id for batch in batches for each in batch]
            assert len({*ids}) == (await site.summary()).items == 60
            assert (await site.learn_many(ids, ("well" for _ in ids))).learnt == ids
            one = await site.classify({"age": 5}, "mine")
            assert await site.learn("mine", "well", cost=0.1) == "learnt"
            assert (await site.decision("mine")).arm == one.arm
            assert len(await site.cells()) == (await site.summary()).cells
            assert len([event async for event in site.events(5)]) == (await site.summary()).events - 5
            with pytest.raises(ServiceError, match="age"):
                await site.classify_many([{"height": 3}])


def test_many_items_go_in_several_requests(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ITEMS", 10)
    url, trouble = service
    with Client(url) as site:
        trouble.requests.clear()
        decisions = site.classify_many([{"age": n} for n in range(25)], ids=[f"batch {n}" for n in range(25)])
        assert [each.id for each in decisions] == [f"batch {n}" for n in range(25)]
        assert trouble.requests == ["/v1/classify"] * 3
        assert len(site.learn_many(decisions, ["well"] * 25).learnt) == 25
        assert trouble.requests[3:] == ["/v1/labels"] * 3
        assert site.classify_many([]) == []
        assert site.learn_many([], []) == LabelReceipt()
        monkeypatch.setattr(client, "MAX_BYTES", 200)
        assert len(site.classify_many([{"age": n, "text": "x" * 50} for n in range(10)])) == 10
        assert len(trouble.requests) > 6 + 3
        with pytest.raises(ServiceError, match="age") as refused:
            site.classify_many([{"age": 1}] * 20 + [{}])
        assert len(refused.value.so_far) == 20


def test_what_may_pass_is_tried_again_and_nothing_else(service: Service) -> None:
    url, trouble = service
    with Client(url) as site:
        for status in (408, 429, 502, 503, 504):
            trouble.requests.clear()
            trouble.answers = [(status, {})] * 3
            assert site.classify({"age": 3}).label == "well"
            assert len(trouble.requests) == 4
        for status in (302, 400, 401, 404, 422, 500):
            trouble.requests.clear()
            trouble.answers = [(status, {})]
            with pytest.raises(ServiceError, match=f"trouble.*HTTP {status}") as refused:
                site.summary()
            assert (refused.value.status, len(trouble.requests)) == (status, 1)
        trouble.answers = [(200, {})]
        with pytest.raises(ServiceError, match="not the reply of a cosend site"):
            site.summary()


def test_after_its_retries_it_gives_up_and_pauses_grow_as_the_service_asks(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, trouble = service
    pauses = list[float]()
    monkeypatch.setattr(client, "time", SimpleNamespace(sleep=pauses.append, time=time.time))
    monkeypatch.setattr(random, "random", lambda: 0.0)

    def paused(answer: tuple[int, dict[str, str]], retries: int = 3) -> list[float]:
        pauses.clear()
        trouble.requests.clear()
        trouble.answers = [answer] * (retries + 1)
        with Client(url, retries=retries) as site, pytest.raises(ServiceError, match=f"HTTP {answer[0]}"):
            site.summary()
        assert len(trouble.requests) == len(pauses) + 1
        trouble.answers.clear()
        return [*pauses]

    growing = paused((503, {}))
    assert [after / before for before, after in pairwise(growing)] == [2.0, 2.0]
    assert paused((503, {"retry-after": "2"})) == [2.0 + pause for pause in growing]
    for odd in ("tomorrow", "Thu, 01 Jan 1970 00:00:00 GMT"):
        assert paused((503, {"retry-after": odd})) == growing
    for long in ("3600", "Thu, 01 Jan 2099 00:00:00 GMT"):
        assert paused((503, {"retry-after": long})) == []
    assert paused((503, {}), retries=0) == []


def test_a_reply_that_was_lost_is_asked_for_again_and_decided_once(tmp_path: Path) -> None:
    with served(tmp_path) as (url, trouble), Client(url) as site:
        trouble.losses = 2
        decisions = site.classify_many([{"age": n} for n in range(50)])
        assert site.summary().items == 50
        assert [site.classify({"age": 0}, each.id) for each in decisions] == decisions
        trouble.losses = 2
        receipt = site.learn_many(decisions, ["well"] * 50)
        assert receipt == LabelReceipt(duplicate=[each.id for each in decisions])  # learnt when nobody heard of it
        counts = site.summary().labels
        assert (counts.learnt, counts.duplicate) == (50, 100)
        assert trouble.requests.count("/v1/labels") == 3


def test_a_reply_that_takes_too_long_is_asked_for_again_while_the_item_is_still_being_decided(tmp_path: Path) -> None:
    setup = a_setup(classifiers={"slow": as_classifier(slow)})
    with served(tmp_path, setup) as (url, trouble), Client(url) as direct:
        with Client(url, timeout_s=0.1, retries=50) as site:
            decision = site.classify({"age": 3})
        assert trouble.requests.count("/v1/classify") > 1
        assert direct.summary().items == 1
        assert direct.decision(decision.id).label == "well"


def test_items_that_no_arm_could_label(tmp_path: Path) -> None:
    setup = a_setup(classifiers={"only": as_classifier(broken_for_some)})
    with served(tmp_path, setup) as (url, trouble), Client(url) as site:
        with pytest.raises(SomeUnanswered, match=r"1 of 2 items could not be labelled.*too odd") as some:
            site.classify_many([{"age": 1}, {"age": 2, "odd": True}])
        assert [each and each.label for each in some.value.decisions] == ["well", None]
        with pytest.raises(NoAnswer, match="too odd") as none:
            site.classify({"age": 2, "odd": True})
        assert not isinstance(none.value, SomeUnanswered)
        with pytest.raises(SomeUnanswered, match=r"3 of 3 items"):
            site.classify_many([{"age": 2, "odd": True}] * 3)
        assert len(trouble.requests) == 3  # to ask again would not help these items


def test_tokens(tmp_path: Path) -> None:
    known = "only-to-classify-with"
    with served(tmp_path, tokens=Tokens({known: frozenset(["classify"])})) as (url, _):
        with Client(url, token=known) as site:
            assert site.classify({"age": 3}).label == "well"
            with pytest.raises(ServiceError, match="lacks the scope read"):
                site.summary()
        with Client(url) as site, pytest.raises(ServiceError, match="a bearer token is needed"):
            site.classify({"age": 3})


def test_a_service_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Client(url, retries=1) as site:
        assert not site.ready()
        with pytest.raises(Unreachable, match=f"{url}: the service does not answer: ConnectError") as lost:
            site.classify_many([{"age": 1}])
        assert (lost.value.status, lost.value.so_far) == (None, [])


def test_options_that_are_not_allowed() -> None:
    wrong: list[tuple[str, Any]] = [("base_url", "localhost:80"), ("base_url", "ftp://x"), ("base_url", 3)]
    wrong += [("token", "tok\N{LATIN SMALL LETTER E WITH ACUTE}n"), ("token", "two\nlines")]
    wrong += [("retries", -1), ("timeout_s", 0), ("connect_s", math.inf)]
    for option, value in wrong:
        with pytest.raises(SettingError, match=option):
            Client(**{"base_url": "http://127.0.0.1:1", option: value})


def test_what_cannot_be_sent_is_refused_before_it_is_sent() -> None:
    with Client("http://127.0.0.1:1", retries=0) as site:
        with pytest.raises(SettingError, match=r"items.*object"):
            site.classify_many([{"age": object()}])
        with pytest.raises(SettingError, match="ids"):
            site.classify_many([{"age": 1}], ids=["a", "b"])
        with pytest.raises(SettingError, match="items"):
            site.classify_many({"age": 1})
        for truths, costs, wrong in (([], None, "truths"), (["ill"], [0.1, 0.2], "costs")):
            with pytest.raises(SettingError, match=f"{wrong}.*as many as decisions"):
                site.learn_many(["a"], truths, costs)
        for many in ([{"age": 1}, {"age": 2}], ({"age": 1},)):
            with pytest.raises(SettingError, match="one item; classify_many takes several"):
                site.classify(many)
        for label, cost in ((float("-inf"), None), (np.float32("inf"), None), ("ill", float("nan"))):
            with pytest.raises(SettingError, match="a label"):
                site.learn("a", label, cost=cost)
        with pytest.raises(SettingError, match="id"):
            site.decision(3)  # type: ignore[arg-type]


def test_without_httpx_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "cosend.client")
    with pytest.raises(CosendError, match=re.escape("needs httpx: pip install '.[client]' in a checkout of cosend")):
        importlib.import_module("cosend.client")


@pytest.mark.parametrize("verb", ["classify", "classify_many", "learn", "learn_many"])
def test_the_verbs_take_the_same_in_the_same_order(verb: str) -> None:
    ours = [*inspect.signature(getattr(Site, verb)).parameters]
    for kind in (Client, AsyncClient):
        assert [*inspect.signature(getattr(kind, verb)).parameters][: len(ours)] == ours
    assert inspect.signature(Client.learn).return_annotation == "LabelOutcome"
    assert "true label" in str(Client.learn.__doc__)


# Threads: msgspec crashes where several are the first to make a decoder of the same class

SCRIPT = """
import os, sys, threading
from cosend.client import Client
from cosend.server.schema import Decisions

FACTS = b'"id": "1", "label": "a", "arm": "x", "phase": "exploit", "cell": 0, "cost": 0.0, "propensity": null'

def read():
    together.wait()
    [client._decision(each) for each in client._read(b'{"decisions": [{%b}]}' % FACTS, Decisions).decisions]

sys.setswitchinterval(1e-6)  # threads take turns as often as they can
print(*sorted(name for name in sys.modules if "server" in name))
client, together, crashed = Client("http://127.0.0.1"), threading.Barrier(6), 0
for _ in range(20):
    child = os.fork()
    if not child:
        threads = [threading.Thread(target=read) for _ in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        os._exit(0)
    crashed += os.waitpid(child, 0)[1] != 0
print(crashed)
"""


def test_it_loads_only_the_schema_of_the_server_and_its_first_replies_may_come_to_several_threads() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.split() == ["cosend.server", "cosend.server.schema", "0"]
