"""Random calls of the service against a simple model of it, restarts and kills among them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cosend import CoS, Patience
from cosend.engine.events import Labelled
from cosend.runtime.running_site import RunningSite
from tests.node.sites import LONGEST_S, Majority, crash, events_of, everything, folded, lessons, old, setup_of, young
from tests.server.services import Caller

pytestmark = pytest.mark.filterwarnings("ignore")  # labels that no arm can give are given here on purpose

MOST_PENDING = 6  # decisions that may wait for their labels
NAMES = st.sampled_from([None, None, "a", "b", "c d", "é", "a/b", "1", "7", "x\0y", "01", "d-x"])
AGES = st.sampled_from([0, 12.5, 50, 80.25, 100])
LABELS = st.sampled_from(["ill", "well", "odd", None, True, 3, 2.5])
BAD_LABELS = st.sampled_from([2**70, [1], {"a": 1}, -(2**64)])
BAD_ITEMS = st.sampled_from([{}, {"age": "x"}, {"age": 101}, {"age": None}, {"age": 5, "big": 2**70}])
ARMS = ("young", "old", "learns")


class Model(RuleBasedStateMachine):
    """The service, and what should be true of it."""

    score_local = "used"  # models are run when they are chosen
    arms: Sequence[str] = ARMS

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.loop = asyncio.new_event_loop()
        self.decided: dict[str, dict[str, Any]] = {}  # by id
        self.named: set[str] = set()
        self.labelled: dict[str, Any] = {}
        self.waiting: list[str] = []  # oldest first
        self.paused: set[str] = set()
        self.costs = dict.fromkeys(self.arms, 0.0)
        self.observer: str | None = None
        self.start()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, LONGEST_S))

    def start(self) -> None:
        setup = setup_of(
            {"young": young, "old": old, "learns": Majority()},
            policy=CoS(slices=2),
            patience=Patience(max_pending=MOST_PENDING),
            score_local=self.score_local,
        )
        self.node = RunningSite(setup, self.folder)
        self.wait(self.node.start())
        self.http = Caller(self.node)

    def teardown(self) -> None:
        self.wait(self.node.stop())
        self.loop.close()
        shutil.rmtree(self.folder)

    @property
    def nobody_left(self) -> bool:
        """Whether no arm may be chosen."""
        return len(self.paused) == len(self.costs)

    def post(self, path: str, body: Any) -> httpx.Response:
        response: httpx.Response = self.wait(self.http.post(path, json=body))
        return response

    # Calls

    @rule(asked=st.lists(st.tuples(NAMES, AGES), min_size=1, max_size=4))
    def classify(self, asked: list[tuple[str | None, float]]) -> None:
        items = [{"features": {"age": age}, **({} if name is None else {"id": name})} for name, age in asked]
        response = self.post("/v1/classify", {"items": items})
        while self.node.running.in_flight or self.node.engine.shown_early:  # an observer answers before the arms do
            self.wait(asyncio.sleep(0.001))
        self.wait(self.node.commits.done())
        fresh = list(dict.fromkeys(name for name, _ in asked if name is not None and name not in self.named))
        assert not {*fresh} & {*self.decided}
        unnamed = sum(name is None for name, _ in asked)
        if self.nobody_left and len(fresh) + unnamed > 0 and self.observer is None:
            assert response.status_code == 503 or any(name in self.decided for name, _ in asked)
            return
        assert response.status_code == 200, response.text
        told = response.json()["decisions"]
        assert len(told) == len(asked)
        for (name, _), decision in zip(asked, told, strict=True):
            self.note(name, decision)

    def note(self, name: str | None, decision: dict[str, Any]) -> None:
        found = decision["id"]
        assert name is None or name == found
        if found in self.decided:
            assert name is not None, "a number was given out twice"
            assert decision == self.decided[found]
            return
        self.decided[found] = decision
        if name is not None:
            self.named.add(name)
        assert decision["arm"] not in self.paused or (decision["arm"] == self.observer and self.nobody_left)
        assert decision["cost"] == self.costs[decision["arm"]]
        assert decision.get("answered_by") == self.observer
        self.waiting = [*self.waiting, found][-MOST_PENDING:]

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def label(self, data: Any) -> None:
        names = st.sampled_from([*self.decided, "nobody", "999999", "d-999999", "d-00"])
        given = data.draw(st.lists(st.tuples(names, LABELS), min_size=1, max_size=4))
        expected: dict[str, list[str]] = {"learnt": [], "duplicate": [], "unknown": [], "expired": [], "missing": []}
        for name, label in given:
            if name in self.labelled:
                expected["duplicate"].append(name)
            elif name in self.waiting and label is None:
                expected["missing"].append(name)
            elif name in self.waiting:
                expected["learnt"].append(name)
                self.labelled[name] = label
                self.waiting.remove(name)
            else:
                expected["expired" if name in self.decided else "unknown"].append(name)
        response = self.post("/v1/labels", {"labels": [{"id": name, "label": label} for name, label in given]})
        assert response.json() == expected

    @precondition(lambda self: self.waiting)
    @rule(bad=BAD_LABELS)
    def label_badly(self, bad: Any) -> None:
        name = self.waiting[-1]
        labels = [{"id": name, "label": "well"}, {"id": self.waiting[0], "label": bad}]
        response = self.post("/v1/labels", {"labels": labels})
        assert response.status_code == 422, response.text

    @rule(bad=BAD_ITEMS)
    def classify_badly(self, bad: Any) -> None:
        body = {"items": [{"features": {"age": 5}, "id": "never"}, {"features": bad}]}
        response = self.post("/v1/classify", body)
        assert response.status_code == 422, response.text

    @rule(data=st.data(), cost=st.sampled_from([None, 0, 0.25, 1]), paused=st.sampled_from([None, True, False]))
    def change_arm(self, data: Any, cost: float | None, paused: bool | None) -> None:
        arm = data.draw(st.sampled_from(self.arms))
        told = self.post(f"/v1/arms/{arm}", {"cost": cost, "paused": paused}).json()
        if cost is not None:
            self.costs[arm] = cost
        if paused is not None:
            (self.paused.add if paused else self.paused.discard)(arm)
        assert (told["cost"], told["paused"]) == (self.costs[arm], arm in self.paused)

    @rule(arm=st.none() | st.sampled_from(ARMS))
    def change_mode(self, arm: str | None) -> None:
        body = {"mode": "apply"} if arm is None else {"mode": "observe", "classifier": arm}
        assert self.post("/v1/mode", body).json()["answered_by"] == arm
        self.observer = arm

    @rule()
    def snapshot(self) -> None:
        self.wait(self.node.snapshot())

    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        self.wait(crash(self.node) if kill else self.node.stop())
        self.start()

    # What is always true

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def look(self, data: Any) -> None:
        name = data.draw(st.sampled_from([*self.decided]))
        path = name.replace("\0", "%00")
        found = self.wait(self.http.get(f"/v1/decisions/{path}")).json()
        told = self.decided[name]
        assert {key: found[key] for key in told} == told
        assert (found["labelled"], found["truth"]) == (name in self.labelled, self.labelled.get(name))
        assert found["pending"] == (name in self.waiting)

    @invariant()
    def nothing_else_waits(self) -> None:
        assert self.node.is_ready
        assert self.node.state.learner.pending_count == len(self.waiting)
        assert (self.node.running.in_flight, self.node.running.requests.by_name) == (0, {})

    @rule()
    def the_log_leads_to_the_state(self) -> None:
        assert folded(self.node) == everything(self.node.state)
        numbers = [number for event in events_of(self.node) if isinstance(event, Labelled) for number in event.ids]
        assert len(numbers) == len({*numbers}) == len(self.labelled)
        assert len(lessons(self.node)) == len(self.labelled)


class ScoresAll(Model):
    """The same, where models that cost nothing are run before the choice, and the site learns arms itself."""

    score_local = "all"
    arms = (*ARMS, "grown", "stack")


TestService = Model.TestCase
TestService.settings = settings(max_examples=6, stateful_step_count=30)
TestScoresAll = ScoresAll.TestCase
TestScoresAll.settings = settings(max_examples=6, stateful_step_count=30)


@pytest.mark.claims
class TestServiceForLong(Model.TestCase):  # type: ignore[valid-type, misc]
    settings = settings(max_examples=50, stateful_step_count=40)


@pytest.mark.claims
class TestScoresAllForLong(ScoresAll.TestCase):  # type: ignore[valid-type, misc]
    settings = settings(max_examples=200, stateful_step_count=60)
