"""What a service replies to recorded requests it replies now: `cosend serve` as a process, one request at a time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fence.recordings import Recordings
from tests.fence.transcripts import Transcript, items, truth_of
from tests.tools.processes import JSON, NO_BROKER, Service, Services, broker, broker_program

MODELS = '''
def young(item):
    return "ill" if item["age"] < 30 else "well"


def old(item):
    return "ill" if item["age"] > 70 else "well"


def kinds(item):
    return "ill" if item["kind"] == "a" else "well"


def right(item):
    return "ill" if item["age"] < 30 or (item["age"] > 70 and item["kind"] != "b") else "well"


class Majority:
    """Says what it was taught most often, and nothing before."""

    def __init__(self):
        self.seen = {}

    def predict_one(self, item):
        return max(sorted(self.seen), key=self.seen.__getitem__) if self.seen else "well"

    def learn_one(self, item, label):
        self.seen[label] = self.seen.get(label, 0) + 1


class Bayes:
    """River's, which has no answer before its first label; here it begins with one."""

    def __init__(self):
        from river.naive_bayes import GaussianNB  # which takes long, and only one scene needs it

        self.model = GaussianNB()

    def predict_one(self, item):
        return self.model.predict_one({"age": item["age"]}) or "well"

    def learn_one(self, item, label):
        self.model.learn_one({"age": item["age"]}, label)
'''
AGE = """
[[context]]
feature = "age"
range = [0, 100]
"""
KIND = """
[[context]]
kind = "category"
feature = "kind"
"""
NORTH = '[[sites]]\nname = "north"\n'
NOTHING_LEARNT = "learnt = false\n"  # trees would be in force when a thread is ready, which is at no certain item


def model(name: str, source: str = "", **options: object) -> str:
    """Return a classifier of a network file; it may take long on a busy machine."""
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in options.items()]
    given = source or f"models:{name}"
    return "\n".join(["[[sites.classifiers]]", f'name = "{name}"', f'model = "{given}"', "limit_s = 30.0", *lines, ""])


def policy(name: str, **options: object) -> str:
    return "\n".join(["[policy]", f'name = "{name}"', *(f"{key} = {value}" for key, value in options.items()), ""])


Scene = Callable[[Transcript], None]
SCENES: dict[str, tuple[str, Scene]] = {}


def scene(network: str) -> Callable[[Scene], Scene]:
    """Make a function a scene that is played with the site north of a network file."""

    def register(play: Scene) -> Scene:
        SCENES[play.__name__] = network, play
        return play

    return register


LOOKS = ("/v1/summary", "/v1/arms")


@scene(NORTH + model("young") + model("old"))
def default_policy(say: Transcript) -> None:
    """Two free models, learnt arms, no context; late, double, unknown or missing labels; ids of clients."""
    say.get("/v1/cells", *LOOKS)
    say.play(items(60), late=3)
    say.get(*LOOKS)
    say.cells()
    decisions = say.classify(*items(4, seed=1), ids=["a", None, "visit/7", None])
    ids = [each["id"] for each in decisions]
    say.classify(*items(4, seed=1), ids=["a", None, "visit/7", None])  # two of them are asked again
    say.classify(items(1, seed=2)[0], ids=["a"])  # another item, the same id
    say.classify(*items(2, seed=3), ids=["twice", "twice"])
    say.get("/v1/decisions/a", "/v1/decisions/visit/7", f"/v1/decisions/{ids[1]}", "/v1/decisions/nobody")
    say.learn(("a", "ill"), (ids[1], "well"), ("nobody", "well"), ("999999", "well"), ("visit/7", None))
    say.learn(("a", "well"), (ids[1], "well"), ("visit/7", "well"), (ids[3], None))
    say.learn((ids[3], "ill"), (ids[3], "ill"))
    say.post("/v1/labels", {"labels": [{"id": "twice", "label": "ill", "cost": 0.25}]})
    say.get("/v1/decisions/a", "/v1/decisions/twice", *LOOKS)


@scene(NORTH + NOTHING_LEARNT + AGE + KIND + model("young") + model("old") + model("right", cost=0.2))
def priced_model(say: Transcript) -> None:
    """MixedViews with a context and a model that costs something; arms that are paused, costs that change."""
    say.play(items(60), late=2)
    say.get(*LOOKS)
    say.cells()
    say.post("/v1/arms/right", {"cost": 0.9})
    say.play(items(20, seed=1))
    say.post("/v1/arms/right", {"cost": 0.0})
    say.post("/v1/arms/old", {"paused": True})
    say.post("/v1/arms/young", {"paused": True, "cost": 0.1})
    say.play(items(20, seed=2))
    say.post("/v1/arms/right", {"paused": True})  # all of them
    say.classify(items(1)[0])
    say.post("/v1/arms/young", {"paused": False})
    say.play(items(20, seed=3), late=5)
    say.get(*LOOKS)
    say.post("/v1/arms/nobody", {"paused": True})
    say.post("/v1/arms/right", {"cost": 2})
    say.post("/v1/arms/right", {"costs": 0.2})
    say.post("/v1/arms/right", {})


@scene(
    policy("CoS", slices=3, exploration_exponent=0.1)
    + AGE
    + "[patience]\nwait_limit = 12\n"
    + NORTH
    + model("young")
    + model("old", cost=0.05)
)
def papers_rule(say: Transcript) -> None:
    """CoS; decisions expire."""
    decisions = say.play(items(80), late=10)
    expires = say.classify(items(1, seed=1)[0], ids=["expires"])
    say.play(items(20, seed=2))
    say.learn(("expires", "ill"), (decisions[-1]["id"], "ill"))
    say.get("/v1/decisions/expires", f"/v1/decisions/{expires[0]['id']}", *LOOKS)
    say.cells()


@scene(policy("ZoomingKLUCB") + AGE + NORTH + model("young") + model("old") + model("kinds", cost=0.1))
def shadow_mode(say: Transcript) -> None:
    """ZoomingKLUCB, which is only observed for a while."""
    say.play(items(40), late=4)
    say.post("/v1/mode", {"mode": "observe", "classifier": "kinds"})
    say.play(items(40, seed=1), late=1)
    decisions = say.classify(*items(2, seed=2), ids=["shadow", None])
    time.sleep(0.3)  # the arm answers a moment after the model that is shown
    say.get("/v1/decisions/shadow", f"/v1/decisions/{decisions[1]['id']}")
    say.learn(("shadow", truth_of(items(2, seed=2)[0])))
    say.post("/v1/mode", {"mode": "observe", "classifier": "nobody"})
    say.post("/v1/mode", {"mode": "sleep"})
    say.post("/v1/mode", {"mode": "apply"})
    say.play(items(40, seed=3))
    say.get(*LOOKS)
    say.cells()


@scene(NORTH + model("bayes", "models:Bayes") + model("majority", "models:Majority"))
def models_that_learn(say: Transcript) -> None:
    """Learn: a model of river, one of our own, and the site itself."""
    say.play(items(60), late=2)
    say.get(*LOOKS)
    say.play(items(30, seed=1))


@scene(policy("CellKLUCB", slices=4) + AGE + NORTH + 'score_local = "used"\n' + model("young") + model("kinds"))
def used_arms_only(say: Transcript) -> None:
    """CellKLUCB, where a label scores the arm that was used."""
    say.play(items(60), late=1)
    say.classify(*items(30, seed=1))
    say.play(items(10, seed=2))
    say.cells()


@scene(NORTH + NOTHING_LEARNT + AGE + model("young") + model("old"))
def bad_requests(say: Transcript) -> None:
    """Everything that is refused, and that it changes nothing."""
    good = {"features": {"age": 5}}
    classify: dict[str, Any] = {
        "no items": {"items": []},
        "no key": {},
        "a list": [],
        "another key": {"items": [good], "more": 1},
        "no features": {"items": [{"id": "a"}]},
        "features in a list": {"items": [{"features": [1]}]},
        "another key of an item": {"items": [{**good, "name": "a"}]},
        "an empty id": {"items": [{**good, "id": ""}]},
        "a long id": {"items": [{**good, "id": "a" * 201}]},
        "an id that is a number": {"items": [{**good, "id": 5}]},
        "no axis": {"items": [{"features": {"weight": 5}}]},
        "an axis that is text": {"items": [{"features": {"age": "old"}}]},
        "outside the range": {"items": [{"features": {"age": 500}}]},
        "one of two is bad": {"items": [good, {"features": {}}]},
        "too many": {"items": [good] * 10_001},
        "too deep": {"items": [{"features": {"age": 5, "more": [[[1]]]}}]},
        "a whole number of 65 bits": {"items": [{"features": {"age": 5, "more": 2**64}}]},
    }
    labels: dict[str, Any] = {
        "no labels": {"labels": []},
        "a label without an id": {"labels": [{"label": "ill"}]},
        "an id without a label": {"labels": [{"id": "1"}]},
        "a label that is a list": {"labels": [{"id": "1", "label": ["ill"]}]},
        "a cost above 1": {"labels": [{"id": "1", "label": "ill", "cost": 1.5}]},
    }
    for path, bodies in (("/v1/classify", classify), ("/v1/labels", labels)):
        for name, body in bodies.items():
            say.post(path, body, name)
    for path in ("/v1/classify", "/v1/labels", "/v1/mode", "/v1/arms/young"):
        say.request("POST", path, raw=b"{", name=f"{path}: half an object")
        say.request("POST", path, raw=b"{}", headers={"Content-Type": "text/plain"}, name=f"{path}: not JSON")
        say.request("POST", path, raw=b"{}", headers={}, name=f"{path}: no type")
        say.request("POST", path, raw=b" " * (8 * 2**20 + 1), name=f"{path}: too long")
        say.request("GET", path)
        say.request("DELETE", path)
    say.request("POST", "/v1/nothing", {})
    for path in ("/v1/nothing", "/v1/arms?start=-1", "/v1/cells?count=0", "/v1/cells?count=1001", "/v1/events?start=x"):
        say.request("GET", path)
    say.request("GET", "/v1/summary", headers={"Host": "elsewhere.example"}, name="another host")
    say.request("GET", "/v1/summary", headers={"Origin": "http://elsewhere.example"}, name="another origin")
    say.request("GET", "/v1/summary", headers={"Sec-Fetch-Site": "cross-site"}, name="another page")
    say.get("/health/live", "/health/ready", *LOOKS)


def wait_for_peers(service: Service) -> None:
    """Wait until a site has found its peers."""
    end = time.monotonic() + 30.0
    while not all(arm["present"] for arm in service.ask("/v1/arms")["arms"]):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("name", SCENES)
def test_replies_are_those_of_the_recording(
    name: str, tmp_path: Path, services: Services, recordings: Recordings
) -> None:
    network, play = SCENES[name]
    (tmp_path / "network.toml").write_text(network)
    (tmp_path / "models.py").write_text(MODELS)
    with services.running(tmp_path, "north") as (service,):
        transcript = Transcript(service)
        play(transcript)
    recordings.check(name, transcript.steps)


def test_tokens_let_in_what_they_did(tmp_path: Path, services: Services, recordings: Recordings) -> None:
    (tmp_path / "network.toml").write_text(NORTH + model("yes", "always", label="yes"))
    words = {"reader": "read", "client": "classify,label", "admin": "admin"}
    tokens = {name: f"token-of-the-{name}-0123456789" for name in words}
    (tmp_path / "tokens").write_text("".join(f"{tokens[name]} {scopes}\n" for name, scopes in words.items()))
    with services.running(tmp_path, "north", options=("--tokens", "tokens")) as (service,):
        say = Transcript(service)
        for who in (None, "stranger", *tokens):
            token = {} if who is None else {"Authorization": f"Bearer {tokens.get(who, 'x' * 20)}"}
            for method, path, body in (
                ("POST", "/v1/classify", {"items": [{"features": {}, "id": "a"}]}),
                ("POST", "/v1/labels", {"labels": [{"id": "a", "label": "no"}]}),
                ("GET", "/v1/summary", None),
                ("GET", "/metrics", None),
                ("GET", "/health/ready", None),
                ("POST", "/v1/mode", {"mode": "apply"}),
                ("POST", "/v1/arms/yes", {"cost": 0.5}),
            ):
                status, _ = service.request(method, path, body, headers={**JSON, **token})
                say.steps.append([who, f"{method} {path}", status])
    recordings.check("tokens", say.steps)


def test_routes_and_metrics_are_those_of_the_recording(
    tmp_path: Path, services: Services, recordings: Recordings
) -> None:
    (tmp_path / "network.toml").write_text(NORTH + model("yes", "always", label="yes"))
    with services.running(tmp_path, "north") as (service,):
        (decision,) = service.ask("/v1/classify", {"items": [{"features": {}}]})["decisions"]
        service.ask("/v1/labels", {"labels": [{"id": decision["id"], "label": "no"}]})
        routes = service.ask("/openapi.json")["paths"]
        metrics = service.request("GET", "/metrics").body
    names = sorted(set(re.findall(r"^(cosend_\w+)", metrics, re.MULTILINE)))
    recordings.check("routes", [sorted(f"{verb} {path}" for path in routes for verb in routes[path]), names])


def test_a_service_that_was_killed_says_the_same_again(
    tmp_path: Path, services: Services, recordings: Recordings
) -> None:
    (tmp_path / "network.toml").write_text(
        NORTH + AGE + model("young") + model("old", cost=0.1) + model("learns", "models:Majority")
    )
    (tmp_path / "models.py").write_text(MODELS)
    steps = []
    for part in range(3):
        with services.running(tmp_path, "north") as (service,):
            say = Transcript(service)
            say.classify(*items(3), ids=["a", "b", "c"])
            say.play(items(30, seed=part), late=4)
            say.learn(("abc"[part], "ill"))
            say.get("/v1/decisions/a", "/v1/decisions/b", *LOOKS)
            say.cells()
        steps += say.steps
    recordings.check("restarts", steps)


@pytest.mark.skipif(broker_program() is None, reason=NO_BROKER)
@pytest.mark.parametrize("rule", ["default", "CoS"])
def test_two_sites_ask_each_other_as_they_did(
    rule: str, tmp_path: Path, services: Services, recordings: Recordings
) -> None:
    south = '[[sites]]\nname = "south"\n' + NOTHING_LEARNT + model("right")
    head = "call_cost = 0.05\n[network]\ndeadline_s = 30.0\n"
    given = policy("CoS", slices=2, exploration_exponent=0.1, horizon=200) if rule == "CoS" else ""
    both = NORTH + NOTHING_LEARNT + model("young") + model("kinds") + south
    (tmp_path / "network.toml").write_text(head + given + AGE + both)
    (tmp_path / "models.py").write_text(MODELS)
    with broker() as url, services.running(tmp_path, "north", "south", options=("--nats", url)) as running:
        north, other = map(Transcript, running)
        for service in running:
            wait_for_peers(service)
        north.play(items(60), wait_for_peers=True)
        other.play(items(20, seed=1), wait_for_peers=True)
        north.play(items(40, seed=2), late=3, wait_for_peers=True)
        north.post("/v1/arms/south", {"paused": True})
        north.play(items(10, seed=3), wait_for_peers=True)
        for say in (north, other):
            say.get(*LOOKS)
            say.cells()
    recordings.check(f"peers_{rule.lower()}", [*north.steps, *other.steps])
