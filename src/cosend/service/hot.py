"""The two hot routes, in front of FastAPI: no router, no middleware and no Pydantic stands between them and the node.

For a request of one item, these layers cost more than the decision, its log and its answer together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from cosend.errors import NoAnswer
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.service.bodies import LABELS, Headers, Room, check_json, decoded, read_body, read_items
from cosend.service.metrics import Metrics
from cosend.service.problems import Refused, problem, problem_of
from cosend.service.tokens import Tokens
from cosend.service.visitors import Visitors, refuse

ENCODE: Final = msgspec.json.Encoder().encode
Route = Callable[[Headers, Receive], Awaitable[bytes]]


class HotRoutes:
    """An ASGI app that answers POST /v1/classify and POST /v1/labels, and leaves the rest to another one.

    visitors     who is let in, whatever is asked for
    description  what gives the OpenAPI description of all routes
    """

    def __init__(
        self,
        rest: ASGIApp,
        node: Node,
        tokens: Tokens,
        visitors: Visitors,
        metrics: Metrics,
        description: Callable[[], dict[str, Any]],
    ) -> None:
        self.rest, self.node, self.tokens, self.visitors, self.description = rest, node, tokens, visitors, description
        self._room = Room()
        self._routes: dict[str, tuple[Route, Any]] = {
            "/v1/classify": (self._classify, metrics.classify),
            "/v1/labels": (self._labels, metrics.labels),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; one that is cancelled, because the process ends at once, is no error."""
        if scope["type"] == "lifespan":
            await self.rest(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            self.visitors.check(headers, scope["path"])
        except Refused as refused:
            await refuse(refused, scope, receive, send)
            return
        is_hot = scope["type"] == "http" and scope["path"] in self._routes
        try:
            if is_hot:
                await self._answer(headers, scope, receive, send)
            else:
                await self.rest(scope, receive, send)
        except asyncio.CancelledError:
            if is_hot:  # nothing of its reply was sent yet
                await problem(503, "the site is stopping")(scope, receive, send)

    async def _answer(self, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await problem(405, "this route takes POST", {"Allow": "POST"})(scope, receive, send)
            return
        route, latency = self._routes[scope["path"]]
        begun = perf_counter()
        try:
            body = await route(headers, receive)
        except Exception as error:  # every error is a problem for its client, and for nobody else
            await problem_of(error)(scope, receive, send)
        else:
            length = str(len(body)).encode()
            told = [(b"content-type", b"application/json"), (b"content-length", length)]
            await send({"type": "http.response.start", "status": 200, "headers": told})
            await send({"type": "http.response.body", "body": body})
        latency.observe(perf_counter() - begun)

    async def _classify(self, headers: Headers, receive: Receive) -> bytes:
        self.tokens.check(headers.get(b"authorization", b"").decode("latin-1"), "classify")
        check_json(headers.get(b"content-type"))
        self.node.check_ready()
        items = await read_items(await read_body(headers, receive, self._room))
        names = [item.id for item in items]
        results = await self.node.classify([item.features for item in items], names)
        if NoAnswer in map(type, results):
            return _partly(results, names)
        return ENCODE({"decisions": results})

    async def _labels(self, headers: Headers, receive: Receive) -> bytes:
        self.tokens.check(headers.get(b"authorization", b"").decode("latin-1"), "label")
        check_json(headers.get(b"content-type"))
        self.node.check_ready()
        body = decoded(LABELS, await read_body(headers, receive, self._room))
        given = [Given(each.id, each.label, each.cost) for each in body.labels]
        return ENCODE(await self.node.label(given, wait_for_peers=body.wait_for_peers))


def _partly(results: list[Any], names: list[str | None]) -> bytes:
    """Return the answer for items some of which no arm could label; if none could be, that is the error."""
    if not any(isinstance(result, Decided) for result in results):
        raise results[0]
    both = zip(results, names, strict=True)
    told = [{"id": name, "error": str(result)} if isinstance(result, NoAnswer) else result for result, name in both]
    return ENCODE({"decisions": told})
