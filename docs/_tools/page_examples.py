"""Real responses and events for the generated pages: sites in this process are asked, and their logs are read."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from cosend import Budget, CoS, Network, Patience, Site
from cosend.axes import Category, Feature
from cosend.engine.events import Event
from cosend.models.adapters import as_classifier
from cosend.runtime.inspection import event_line
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server import schema
from cosend.server.auth import Tokens
from cosend.server.routes import Service

TOKEN: Final = "a-token-of-an-admin"  # noqa: S105 - of a site that nobody can reach
AT: Final = 1_760_000_000.0  # times and durations are set, so that a page only changes where something else does
FITS_AFTER: Final = 100  # labels
MOST_LINES: Final = 8  # of a response that is no JSON
MOST_VALUES: Final = 4  # of a list in an event
Json = Any


class Exchange(NamedTuple):
    """A request, and what a site replied."""

    method: str
    path: str
    body: Json
    reply: str

    @property
    def curl(self) -> str:
        """The request as a command."""
        words = [f"curl 'http://127.0.0.1:8800{self.path}'"]
        if not self.path.startswith("/health"):
            words.append("-H 'Authorization: Bearer TOKEN'")
        if self.body is not None:
            words += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(self.body)}'"]
        return " \\\n  ".join(words)


def _young(visit: dict[str, Any]) -> str:
    return "ill" if visit["pressure"] > 125 else "well"


def _old(visit: dict[str, Any]) -> str:
    return "ill" if visit["pressure"] > 150 else "well"


def setup() -> Setup:
    """Return the site of the page of HTTP."""
    models = {"young": as_classifier(_young), "old": as_classifier(_old)}
    return Setup(name="north", classifiers=models, axes=[Feature("age", range=(0, 100))], costs={"old": 0.01})


async def _asked(service: Service, method: str, path: str, body: Json = None) -> Exchange:
    """Send a request to a service as a server would, without one."""
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())]
    headers += [] if body is None else [(b"content-type", b"application/json")]
    plain, _, query = path.partition("?")
    scope = {"type": "http", "http_version": "1.1", "method": method, "path": plain, "raw_path": plain.encode()}
    scope |= {"query_string": query.encode(), "headers": headers, "scheme": "http", "root_path": ""}
    parts: list[bytes] = []

    bodies = [b"" if body is None else json.dumps(body).encode()]

    async def receive() -> dict[str, Any]:
        if not bodies:
            await asyncio.Event().wait()  # the client stays until it has its reply
        return {"type": "http.request", "body": bodies.pop()}

    async def send(message: Any) -> None:
        if message.get("status", 200) != 200:
            raise ValueError(f"{path}: {message}")
        parts.append(message.get("body", b""))

    await service(scope, receive, send)
    return Exchange(method, path, body, b"".join(parts).decode())


REQUESTS: Final[dict[schema.Route[Any], tuple[str, Json]]] = {
    schema.CLASSIFY: (
        "/v1/classify",
        {
            "items": [
                {"id": "ann", "features": {"age": 31, "pressure": 140}},
                {"features": {"age": 72, "pressure": 140}},
            ]
        },
    ),
    schema.LABELS: (
        "/v1/labels",
        {"labels": [{"id": "ann", "label": "ill"}, {"id": "bob", "label": "well"}]},
    ),
    schema.SUMMARY: ("/v1/summary", None),
    schema.ARMS: ("/v1/arms?count=1", None),
    schema.CHANGE_ARM: ("/v1/arms/old", {"cost": 0.02, "paused": True}),
    schema.CELLS: ("/v1/cells?count=1", None),
    schema.DECISIONS: ("/v1/decisions?count=1", None),
    schema.DECISION: ("/v1/decisions/ann", None),
    schema.EVENTS: ("/v1/events?start=1&count=3", None),
    schema.MODE: ("/v1/mode", {"mode": "observe", "classifier": "young"}),
    schema.BUDGET: ("/v1/budget", {"total": 10, "calls": {"old": {"per_hour": 100}}}),
    schema.LIVE: ("/health/live", None),
    schema.READY: ("/health/ready", None),
    schema.METRICS: ("/metrics", None),
}


async def _exchanges() -> list[Exchange]:
    with tempfile.TemporaryDirectory() as folder:
        site = RunningSite(setup(), Path(folder))
        await site.start()
        try:
            service = Service(site, Tokens({TOKEN: frozenset(["admin"])}))
            return [await _asked(service, route.method, *request) for route, request in REQUESTS.items()]
        finally:
            await site.stop(patience_s=0.5)


@cache
def exchanges() -> dict[str, Exchange]:
    """Return a request to every route and its response, by method and path."""
    found = asyncio.run(_exchanges())
    return {f"{route.method} {route.path}": _readable(each) for route, each in zip(REQUESTS, found, strict=True)}


def _readable(each: Exchange) -> Exchange:
    lines = each.reply.splitlines()
    if each.path.startswith("/metrics"):
        reply = "\n".join([*lines[:MOST_LINES], "..."])
    elif len(lines) > 1:
        reply = "\n".join(json.dumps(_set_times(json.loads(line))) for line in lines)
    else:
        reply = json.dumps(_set_times(json.loads(each.reply)), indent=2)
    return each._replace(reply=reply)


def _set_times(value: Json) -> Json:
    if isinstance(value, list):
        return [_set_times(each) for each in value]
    if not isinstance(value, dict):
        return value
    known = {"at": AT, "up_s": 60.0, "seconds_per_item": 0.0001}
    return {key: known[key] if key in known and each is not None else _set_times(each) for key, each in value.items()}


# Events


class Journal:
    """The first event of each kind, as a line of the log has it."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def of_a_site(self) -> Any:
        """Return what takes the events of a site in this process, which are numbered from 0."""
        count = iter(range(10**6))
        return lambda event: self.take(next(count), event)

    def take(self, number: int, event: Event) -> None:
        """Keep an event if it is the first of its kind."""
        if type(event).__name__ not in self.lines:
            self.lines[type(event).__name__] = json.dumps(_short(json.loads(event_line(number, AT, event))))

    def take_lines(self, lines: Sequence[str]) -> None:
        """Keep the first of each kind of the lines of a service."""
        for line in lines:
            fields = _set_times(json.loads(line))
            self.lines.setdefault(fields["event"], json.dumps(_short(fields)))


def _short(value: Json) -> Json:
    """Return a value with the first elements of long lists only."""
    if isinstance(value, list):
        first = [_short(each) for each in value[:MOST_VALUES]]
        return [*first, "..."] if len(value) > MOST_VALUES else first
    return {key: _short(each) for key, each in value.items()} if isinstance(value, dict) else value


@cache
def event_lines() -> dict[str, str]:
    """Return a line for each kind of event, by its name."""
    journal = Journal()
    _change_arms(journal)
    _fail(journal)
    _look_at_every_feature(journal)
    _ask_a_peer(journal)
    asyncio.run(_serve(journal))
    names = [kind.__name__ for kind in get_args(Event)]  # numbers of a service depend on what was logged together
    return {name: json.dumps({**json.loads(journal.lines[name]), "number": n}) for n, name in enumerate(names, 1)}


def _change_arms(journal: Journal) -> None:
    context = [Feature("age"), Category("ward")]
    site = Site("north", classifiers={"young": _young}, context=context, journal=journal.of_a_site(), learnt=False)
    items = [{"age": 31, "ward": "A", "pressure": 140}, {"age": 72, "ward": "B", "pressure": 140}]
    site.learn_many(site.classify_many(items), ["ill", "well"])
    site.add_classifier("old", _old)
    site.set_cost("old", 0.01)
    site.pause("old")
    site.resume("old")
    site.remove("old")
    site.set_budget(Budget(per_item=0.01, total=10.0))


def _fail(journal: Journal) -> None:
    def broken(_: Any) -> str:
        raise ValueError("no connection")

    age = Feature("age", range=(0, 100))
    models = {"young": _young, "broken": broken}
    site = Site("north", classifiers=models, context=age, policy=CoS(horizon=100), journal=journal.of_a_site())
    site.classify_many([{"age": 31, "pressure": 140}] * 4)


def _look_at_every_feature(journal: Journal) -> None:
    site = Site("north", classifiers={"young": _young}, journal=journal.of_a_site(), learnt=False)
    site.classify_many([{"age": 20 + number % 60, "pressure": 100 + number % 70} for number in range(130)])


def _ask_a_peer(journal: Journal) -> None:
    age, waits = Feature("age", range=(0, 100)), Patience(wait_limit=3)
    options: dict[str, Any] = {"context": age, "policy": CoS(horizon=50), "patience": waits}
    sites = [
        Site(name, classifiers={model.__name__.strip("_"): model}, journal=journal.of_a_site(), **options)
        for name, model in (("north", _young), ("south", _old))
    ]
    items = [({"age": number, "pressure": 140}, "ill" if number % 3 else None) for number in range(40)]
    list(Network(sites, call_cost=0.05).run({"north": items}))


async def _serve(journal: Journal) -> None:
    answered = threading.Event()

    def slow(visit: dict[str, Any]) -> str:
        answered.wait(9.0)
        return _old(visit)

    models = {"young": as_classifier(_young), "slow": as_classifier(slow)}
    with tempfile.TemporaryDirectory() as folder:
        age = Feature("age", range=(0, 100))
        site = RunningSite(Setup(name="north", classifiers=models, axes=[age], limits_s={"slow": 10.0}), Path(folder))
        await site.start()
        try:
            service = Service(site, Tokens({TOKEN: frozenset(["admin"])}))

            async def classify(*ids: str) -> None:
                items = [{"id": id, "features": {"age": 31, "pressure": 140}} for id in ids]
                await _asked(service, "POST", "/v1/classify", {"items": items})

            async def until(kind: str) -> None:
                async with asyncio.timeout(60.0):
                    while kind not in journal.lines:
                        journal.take_lines((await _asked(service, "GET", "/v1/events")).reply.splitlines())
                        await asyncio.sleep(0.02)

            answered.set()
            await classify("eve")  # then it is known how long the model takes
            answered.clear()
            await classify("ann")
            answered.set()
            await until("Opined")
            many = [f"visit-{number}" for number in range(FITS_AFTER)]
            await classify(*many)
            labels = [{"id": id, "label": "well" if number % 2 else "ill"} for number, id in enumerate(many)]
            await _asked(service, "POST", "/v1/labels", {"labels": labels})
            await until("Fitted")
            await _asked(service, "POST", "/v1/mode", {"mode": "observe", "classifier": "young"})
            await classify("bob")
            await until("Shown")
        finally:
            await site.stop(patience_s=0.5)
