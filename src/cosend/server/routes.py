"""The HTTP service of one site, as an ASGI app.

The two hot routes, POST /v1/classify and POST /v1/labels, are answered before any router or middleware: for a request
with one item, these layers cost more than the decision, its log and its answer together. Starlette routes the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any, Final, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from cosend.engine.budget import Budget
from cosend.errors import CosendError, NoAnswer
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.server import bodies, openapi, schema
from cosend.server.auth import PAGES, Tokens, Visitors
from cosend.server.bodies import Headers, Room, check_json, decoded, decoded_items
from cosend.server.metrics import Metrics
from cosend.server.problems import problem, problem_of

ENCODE: Final = msgspec.json.Encoder().encode
BODY: Final = "cosend.body"  # where a route finds the body of its request, which was read within limits
Handler = Callable[..., Awaitable[Any]]


class AnyText(PathConvertor):
    """The rest of a path, as `path` but with every line of it: a name may contain slashes and line breaks."""

    regex = "(?s:.*)"


register_url_convertor("any", AnyText())


class Pages(Protocol):
    """Pages for people, as an ASGI app that is mounted at /dashboard."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def close(self) -> None: ...


class Service:
    """The service of a site, which it neither starts nor stops.

    pages  shows the site to people, at /dashboard/
    host   where the service listens
    """

    def __init__(self, site: RunningSite, tokens: Tokens, pages: Pages | None = None, host: str = "127.0.0.1") -> None:
        self._site, self._tokens, self._pages = site, tokens, pages
        self._visitors = Visitors(host, is_open=not tokens)
        self._metrics, self._room = Metrics(site), Room()
        self._document: dict[str, Any] | None = None
        self._hot = {
            schema.CLASSIFY.path: (self._classify, self._metrics.classify),
            schema.LABELS.path: (self._labels, self._metrics.labels),
        }
        answer = dict.fromkeys((CosendError, HTTPException, Exception), _answer)
        self._rest = Starlette(routes=self._routes(), exception_handlers=answer)

    def description(self) -> dict[str, Any]:
        if self._document is None:
            self._document = openapi.describe(self._site.setup, secured=bool(self._tokens))
        return self._document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; one that is cancelled, because the process ends at once, is no error."""
        headers, is_hot = dict(scope["headers"]), scope["path"] in self._hot
        try:
            self._visitors.check(headers, scope["path"])
            if is_hot:
                await self._answer_hot(headers, scope, receive, send)
            else:
                scope[BODY] = await self._room.read(headers, receive, bodies.MAX_SMALL_BYTES)
                await self._rest(scope, receive, send)
        except HTTPException as refused:
            await problem_of(refused)(scope, receive, send)
        except asyncio.CancelledError:
            if is_hot:  # nothing of its reply was sent yet
                await problem(503, "the site is stopping")(scope, receive, send)

    # The hot routes

    async def _answer_hot(self, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise HTTPException(405, "this route takes POST", {"Allow": "POST"})
        handler, latency = self._hot[scope["path"]]
        begun = perf_counter()
        try:
            body = await handler(headers, receive)
        except Exception as error:  # every error is a problem for its client only
            await problem_of(error)(scope, receive, send)
        else:
            lines = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": lines})
            await send({"type": "http.response.body", "body": body})
        latency.observe(perf_counter() - begun)

    async def _classify(self, headers: Headers, receive: Receive) -> bytes:
        items = await decoded_items(await self._hot_body(headers, receive, "classify"))
        ids = [item.id for item in items]
        results: list[Any] = await self._site.classify([item.features for item in items], ids)
        if NoAnswer in map(type, results):
            if all(isinstance(result, NoAnswer) for result in results):
                raise results[0]
            results = [
                {"id": id, "error": str(result)} if isinstance(result, NoAnswer) else result
                for result, id in zip(results, ids, strict=True)
            ]
        return ENCODE({"decisions": results})

    async def _labels(self, headers: Headers, receive: Receive) -> bytes:
        body = decoded(bodies.LABELS, await self._hot_body(headers, receive, "label"))
        given = [Given(each.id, *each.known) for each in body.labels]
        return ENCODE(await self._site.label(given, wait_for_peers=body.wait_for_peers))

    async def _hot_body(self, headers: Headers, receive: Receive, scope: schema.Scope) -> bytes:
        self._tokens.check(headers.get(b"authorization", b"").decode("latin-1"), scope)
        check_json(headers.get(b"content-type"))
        self._site.check_ready()
        return await self._room.read(headers, receive)

    # The other routes: a handler takes the name in its path, then the query or the body

    def _routes(self) -> list[BaseRoute]:
        handlers: dict[schema.Route[Any], Handler] = {
            schema.SUMMARY: self._summary,
            schema.ARMS: self._arms,
            schema.CHANGE_ARM: self._change_arm,
            schema.BUDGET: self._set_budget,
            schema.CELLS: self._cells,
            schema.DECISIONS: self._decisions,
            schema.DECISION: self._decision,
            schema.EVENTS: self._events,
            schema.MODE: self._mode,
            schema.LIVE: self._live,
            schema.READY: self._ready,
            schema.METRICS: self._tell_metrics,
        }
        routes: list[BaseRoute] = [
            *(_only(route.method, route.path, self._endpoint(route, handler)) for route, handler in handlers.items()),
            _only("GET", "/openapi.json", self._openapi),
            _only("GET", "/docs", self._docs),
            _only("GET", "/", self._start_page),
        ]
        return routes if self._pages is None else [*routes, Mount(PAGES, self._pages)]

    def _endpoint(self, route: schema.Route[Any], handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        decoder = None if route.body is None else msgspec.json.Decoder(route.body)

        async def endpoint(request: Request) -> Response:
            if route.scope is not None:
                self._tokens.check(request.headers.get("authorization"), route.scope)
            if decoder is not None:
                check_json(request.headers.get("content-type", "").encode("latin-1"))
            given = [_converted(value, schema.Id, f"path.{key}: ") for key, value in request.path_params.items()]
            if route.query is not None:
                given.append(_converted(dict(request.query_params), route.query, "query: "))
            if decoder is not None:
                given.append(decoded(decoder, request.scope[BODY]))
            reply = await handler(*given)
            return reply if isinstance(reply, Response) else Response(ENCODE(reply), media_type=route.media_type)

        return endpoint

    def _inspect(self) -> Inspection:
        self._site.check_started()
        return Inspection(self._site)

    async def _summary(self) -> schema.Summary:
        return msgspec.convert(self._inspect().summary(), schema.Summary)

    async def _arms(self, page: schema.Page) -> schema.Arms:
        found, end = self._inspect().arms(), page.start + page.count
        arms = msgspec.convert(found[page.start : end], list[schema.Arm])
        return schema.Arms(arms, end if end < len(found) else None)

    async def _cells(self, page: schema.Page) -> schema.Cells:
        found = self._inspect().cells(page.start, page.count)
        more = page.start + page.count if len(found) == page.count else None
        return schema.Cells(msgspec.convert(found, list[schema.Cell]), more)

    async def _decisions(self, page: schema.NewestPage) -> schema.PastDecisions:
        found, following = await self._inspect().decisions(page.count, page.start)
        return schema.PastDecisions(msgspec.convert(found, list[schema.PastDecision]), following)

    async def _decision(self, id: str) -> schema.DecisionRecord:
        return msgspec.convert(await self._inspect().decision(id), schema.DecisionRecord)

    async def _events(self, page: schema.EventsPage) -> Response:
        inspection = self._inspect()
        first = await asyncio.to_thread(inspection.events, page.start, page.count)  # it can still be refused here

        async def parts(lines: list[bytes], following: int) -> AsyncIterator[bytes]:
            left = page.count
            while lines:
                yield b"\n".join([*lines, b""])
                left -= len(lines)
                lines, following = await asyncio.to_thread(inspection.events, following, left)

        return StreamingResponse(parts(*first), media_type=schema.EVENTS.media_type)

    async def _change_arm(self, name: str, change: schema.ArmChange) -> schema.Arm:
        await self._site.change_arm(name, cost=change.cost, price=change.price, paused=change.paused)
        return next(msgspec.convert(arm, schema.Arm) for arm in self._inspect().arms() if arm["name"] == name)

    async def _set_budget(self, change: schema.BudgetChange) -> schema.Summary:
        calls = {arm: amounts.given for arm, amounts in change.calls.items() if amounts.given}
        limits: dict[str, Any] = {**change.given, "calls": calls, "at_most_per_second": change.at_most_per_second}
        await self._site.set_budget(Budget(**limits) if any(limits.values()) else None)
        return await self._summary()

    async def _mode(self, change: schema.ModeChange) -> schema.Summary:
        await self._site.set_mode(change.mode, change.classifier)
        return await self._summary()

    async def _live(self) -> schema.Health:
        return schema.Health("alive")

    async def _ready(self) -> schema.Health | Response:
        return schema.Health("ready") if self._site.is_ready else problem(503, self._site.why_not_ready)

    async def _tell_metrics(self) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(self.description())

    async def _docs(self, request: Request) -> Response:
        return HTMLResponse(openapi.docs_page(self.description(), str(request.base_url).rstrip("/")))

    async def _start_page(self, _: Request) -> Response:
        return HTMLResponse(openapi.start_page(self._site.setup.name, has_pages=self._pages is not None))


def _only(method: str, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> StarletteRoute:
    """Return a route that takes one method; Starlette would add HEAD."""
    route = StarletteRoute(path.replace("}", ":any}"), endpoint, methods=[method])
    route.methods = {method}
    return route


def _converted(value: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(422, f"{where}{error}") from error


async def _answer(_: Request, error: Exception) -> Response:
    return problem_of(error)
