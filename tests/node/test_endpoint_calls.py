"""A running site calls endpoints in its event loop: many at once, each in time, and a bad one is only a bad arm."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosend.engine.events import Answered, Failed
from cosend.errors import LabelWarning
from cosend.models.adapters import all_say_free_text
from cosend.models.endpoints import Endpoint
from cosend.models.loading import load_model
from cosend.runtime.client_requests import Decided
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from tests.node.sites import check_folds, crash, decided, events_of, old, rebuilt, running, setup_of, started
from tests.tools.endpoints import TOKENS, Server, endpoints, young

LIMIT_S = 0.3
COST = 0.05
REPLY = {"label": "/result/0/label", "cost": "/result/0/cost"}


@pytest.fixture
def server() -> Iterator[Server]:
    with endpoints() as server:
        yield server


def endpoint(server: Server, what: str, **options: Any) -> Endpoint:
    return Endpoint(f"http:{server.url}/{what}/x", **{"reply": REPLY, "limit_s": LIMIT_S, **options})


def site(far: Any, near: Any = old, **options: Any) -> Setup:
    """Return a site with an arm that is asked only where it is used, and another one."""
    return setup_of({"far": far, "near": near}, **{"costs": {"far": COST, "near": COST}, **options})


def items(count: int) -> list[dict[str, float]]:
    return [{"age": 100.0 * n / count} for n in range(count)]


async def learnt(node: RunningSite, count: int) -> list[Decided]:
    """Let a site decide on items one by one, and tell it their labels."""
    found = []
    for item in items(count):
        (decision,) = await decided(node, item)
        await node.label([Given(decision.id, young(item))])
        found.append(decision)
    return found


async def test_hundreds_of_calls_go_out_at_once_without_a_thread_for_each(tmp_path: Path) -> None:
    with endpoints(takes_s=0.2) as server:
        far = endpoint(server, "right", in_flight=300, limit_s=20.0)
        async with running(setup_of({"far": far}, costs={"far": COST}), tmp_path) as node:
            before = threading.active_count()
            found = await decided(node, *items(300))
            assert server.most_at_once > 200
            assert threading.active_count() <= before + 1
            assert [each.label for each in found] == [young(item) for item in items(300)]
            arm = next(each for each in Inspection(node).arms() if each["name"] == "far")
            assert arm["seconds_per_item"] > 0.1


async def test_what_an_answer_costs_is_in_the_log_and_counts_with_its_label(server: Server, tmp_path: Path) -> None:
    far = endpoint(server, "right")  # it says 0.004
    async with running(setup_of({"far": far}, costs={"far": COST}), tmp_path) as node:
        found = await decided(node, *items(10))
        await node.label([Given(each.id, "well") for each in found[:4]])
        await node.label([Given(found[4].id, "well", 0.5)])
        assert node.counts.scores["far"].cost == pytest.approx(4 * 0.004 + 0.5)
        paid = [cost for event in events_of(node) if isinstance(event, Answered) for cost in event.paid]
        assert paid == [0.004] * 10
        await node.snapshot()
        await check_folds(node)
    async with running(setup_of({"far": far}, costs={"far": COST}), tmp_path) as node:
        await node.label([Given(each.id, "well") for each in found[5:]])
        assert node.counts.scores["far"].cost == pytest.approx(5 * 0.004)
        await check_folds(node)


async def test_tokens_and_prices_are_the_cost_of_a_language_model(server: Server, tmp_path: Path) -> None:
    model = f"openai:{server.url}/right/v1#gpt-x"
    far = Endpoint(model, labels=["ill", "well"], price_in=3.0, price_out=10.0)
    async with running(setup_of({"far": far}, costs={"far": COST}), tmp_path) as node:
        (found,) = await decided(node, {"age": 10.0})
        await node.label([Given(found.id, "ill")])
        spent = (3.0 * TOKENS["prompt_tokens"] + 10.0 * TOKENS["completion_tokens"]) / 1e6
        assert node.counts.scores["far"].cost == pytest.approx(spent)


async def test_a_label_for_a_language_model_that_answers_with_text_is_a_warning_and_is_learnt(
    server: Server, tmp_path: Path
) -> None:
    free = Endpoint(f"openai:{server.url}/right/v1#gpt-x")
    async with running(setup_of({"far": free}, costs={"far": COST}), tmp_path) as node:
        await node.classify([{"age": 10.0}] * 2, ["chat-1", "chat-2"])
        with pytest.warns(LabelWarning, match="'good' of decision 'chat-1' .*and its models answer with free text"):
            await node.label([Given("chat-1", "good")])
        assert (await node.label([Given("chat-2", "good")])).learnt == ["chat-2"]
    for options in ({"labels": ["ill", "well"]}, {"parse": "(.*)"}):
        assert not all_say_free_text([free, Endpoint(f"openai:{server.url}/right/v1#gpt-x", **options)])


BAD = ["hangs", "drips", "breaks", "closes", "garbage", "huge", "fails", "forbidden", "moved"]


@pytest.mark.parametrize("cost", [0.0, COST])
@pytest.mark.parametrize("what", BAD)
async def test_a_bad_endpoint_costs_its_items_another_arm(
    what: str, cost: float, server: Server, tmp_path: Path
) -> None:
    """A free one is asked for its opinion before the choice, one that costs something after it."""
    setup = site(endpoint(server, what), costs={"far": cost, "near": 2 * cost})
    async with running(setup, tmp_path) as node:
        for _ in range(3):
            found = await asyncio.gather(*(decided(node, item) for item in items(8)))
            assert {each.arm for (each,) in found} <= {"near", "grown", "stack"}
        assert node.counts.failures_of("far") > 0
        assert (node.counts.rebuilt, node.counts.unanswered, node.is_ready) == (0, 0, True)
        await check_folds(node)


def hangs(_: Any) -> str:
    time.sleep(10 * LIMIT_S)
    return "well"


def raises(_: Any) -> str:
    raise ValueError("dead")


async def spent(setup: Setup, folder: Path) -> tuple[float, int, int]:
    """Return how long the slowest of some items took, how often the arm failed, and how often its breaker opened."""
    async with running(setup, folder) as node:
        slowest = 0.0
        for item in items(12):
            begun = time.monotonic()
            (found,) = await decided(node, item)
            slowest = max(slowest, time.monotonic() - begun)
            assert found.arm == "near"
        return slowest, node.counts.failures_of("far"), node.counts.openings["far"]


@pytest.mark.parametrize(("what", "model"), [("hangs", hangs), ("fails", raises)])
async def test_a_dead_or_slow_endpoint_costs_what_a_dead_or_slow_model_does(
    what: str, model: Any, server: Server, tmp_path: Path
) -> None:
    there = await spent(site(endpoint(server, what), limits_s={"far": LIMIT_S}), tmp_path / "endpoint")
    here = await spent(site(model, limits_s={"far": LIMIT_S}), tmp_path / "model")
    assert there[0] < (LIMIT_S if what == "hangs" else 0.0) + 1.0
    assert there[1:] == here[1:] == (3, 1)


async def test_a_lying_endpoint_is_learnt_to_be_a_bad_arm(server: Server, tmp_path: Path) -> None:
    async with running(site(endpoint(server, "lies"), young), tmp_path) as node:
        await learnt(node, 60)
        assert {each.arm for each in await learnt(node, 20)} <= {"near", "grown", "stack"}
        assert node.counts.failures_of("far") == 0


async def test_what_waits_for_a_free_connection_is_given_up_in_time(server: Server, tmp_path: Path) -> None:
    async with running(site(endpoint(server, "hangs", in_flight=2)), tmp_path) as node:
        begun = time.monotonic()
        found = await decided(node, *items(40))
        assert time.monotonic() - begun < 10 * LIMIT_S  # and not 20 times the limit
        assert {each.arm for each in found} == {"near"}
        assert server.most_at_once <= 2


async def test_an_endpoint_that_says_when_to_come_back_backs_off_until_then(server: Server, tmp_path: Path) -> None:
    server.retry_after = "2"
    async with running(site(endpoint(server, "busy"), costs={"far": 0.01, "near": 0.9}), tmp_path) as node:
        begun = time.monotonic()
        while not server.counts["busy"]:
            assert {each.arm for each in await decided(node, *items(4))} == {"near"}  # at once
        assert time.monotonic() - begun < 1.5
        assert node.breakers.position("far", node.engine.now) == "open"
        arm = next(each for each in Inspection(node).arms() if each["name"] == "far")
        assert "429" in arm["last_failure"]
        asked = server.counts["busy"]
        while time.monotonic() - begun < 1.5:
            assert {each.arm for each in await decided(node, *items(4))} == {"near"}
        assert server.counts["busy"] == asked
        server.times_busy = 0  # from now on it answers
        await asyncio.sleep(max(0.0, begun + 4.0 - time.monotonic()))
        used = set[str]()
        for _ in range(50):
            used |= {each.arm for each in await decided(node, *items(4))}
        assert "far" in used
        assert [event.arm for event in events_of(node) if isinstance(event, Failed)].count("far") <= asked


async def test_a_site_stops_and_is_killed_and_rebuilt_while_calls_are_under_way(server: Server, tmp_path: Path) -> None:
    setup = site(endpoint(server, "hangs", limit_s=30.0), raises)
    node = await started(setup, tmp_path / "stopped")
    asked = [asyncio.create_task(node.classify([item])) for item in items(5)]
    await asyncio.sleep(0.3)
    await node.stop(patience_s=0.2)
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert all("stopping" in str(each) for each in told)
    setup = site(endpoint(server, "right"), raises)
    node = await started(setup, tmp_path / "killed")
    first = await decided(node, *items(4), names=list("abcd"))
    await rebuilt(node)
    assert await node.classify(items(4), list("abcd")) == first
    await decided(node, *items(4))
    await crash(node)
    async with running(setup, tmp_path / "killed") as node:
        assert await node.classify(items(4), list("abcd")) == first


async def test_an_arm_that_only_names_a_choice_is_scored_by_labels(tmp_path: Path) -> None:
    arms = {name: load_model(f"return:{name}", tmp_path) for name in ("large", "small")}
    async with running(setup_of(arms, learnt=False), tmp_path / "site") as node:
        found = await decided(node, *items(30))
        assert all(each.label == each.arm for each in found)
        await node.label([Given(each.id, "small") for each in found])
        again = await decided(node, *items(30))
        assert [each.label for each in again].count("small") > 25
