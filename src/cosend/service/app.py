"""The HTTP service of one site: what looks and operates, behind the two hot routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import Annotated, Any, Final, Protocol

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from fastapi_offline import FastAPIOffline
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.types import Receive, Send
from starlette.types import Scope as Asked

from cosend.node.inspection import Inspection
from cosend.node.node import Node
from cosend.service import views
from cosend.service.bodies import SmallBodies, check_json
from cosend.service.description import described
from cosend.service.hot import HotRoutes
from cosend.service.metrics import Metrics
from cosend.service.problems import handle_problems, problem
from cosend.service.tokens import Scope, Tokens
from cosend.service.visitors import PAGES, Visitors
from cosend.version import VERSION

Start = Annotated[int, Query(ge=0, le=2**53)]
Count = Annotated[int, Query(ge=1, le=1000)]
MOST_EVENTS: Final = 10_000
Name = Annotated[str, Path(min_length=1, max_length=200)]


class AnyText(PathConvertor):
    """The rest of a path, as `path` but with every line of it: a name may hold a slash, and a line break too."""

    regex = "(?s:.*)"


register_url_convertor("any", AnyText())


class Pages(Protocol):
    """Pages for people, as an ASGI app; this module need not know what they are made of."""

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Answer a request."""
        ...

    async def close(self) -> None:
        """End all of them."""
        ...


def build_app(
    node: Node,
    tokens: Tokens,
    failed: Callable[[Exception], None] | None = None,
    pages: Pages | None = None,
    host: str = "127.0.0.1",
) -> HotRoutes:
    """Return the service of a site that has not been started; it starts and stops with the app.

    With `failed`, requests are answered while the site starts, and `failed` hears of it if it cannot. With `pages`,
    people can look at the site at /dashboard/. `host` is where the service listens.
    """

    async def start() -> None:
        try:
            await node.start()
        except Exception as error:
            if failed is None:
                raise
            failed(error)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        starting = asyncio.create_task(start())
        if failed is None:
            await starting
        try:
            yield
        finally:
            await starting
            if pages is not None:
                await pages.close()
            await node.stop()

    title = f"cosend site {node.setup.name}"
    app: FastAPI = FastAPIOffline(title=title, version=VERSION, lifespan=lifespan, redoc_url=None)
    handle_problems(app)
    metrics = Metrics(node)
    _add_looking(app, node, tokens)
    _add_operating(app, node, tokens)
    _add_health(app, node, tokens, metrics)
    _add_pages(app, node.setup.name, pages)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=title, version=VERSION, routes=app.routes)
            app.openapi_schema = described(document, node.setup, secured=bool(tokens))
        return app.openapi_schema

    setattr(app, "openapi", openapi)  # noqa: B010 - FastAPI's own way to say more than its routes do
    return HotRoutes(SmallBodies(app), node, tokens, Visitors(host, is_open=not tokens), metrics, openapi)


def _allowed(tokens: Tokens, scope: Scope) -> Any:
    async def check(request: Request) -> None:
        tokens.check(request.headers.get("authorization"), scope)

    return Depends(check)


async def _in_json(request: Request) -> None:
    check_json(request.headers.get("content-type", "").encode("latin-1"))


def _add_looking(app: FastAPI, node: Node, tokens: Tokens) -> None:
    inspection, may_read = Inspection(node), [_allowed(tokens, "read")]

    @app.get("/v1/summary", dependencies=may_read)
    async def summary() -> views.Summary:
        """Return how the site is doing."""
        node.check_started()
        return views.Summary(**inspection.summary())

    @app.get("/v1/arms", dependencies=may_read)
    async def arms(start: Start = 0, count: Count = 100) -> views.Arms:
        """Return the arms of the site."""
        node.check_started()
        found = inspection.arms()
        more = start + count if start + count < len(found) else None
        return views.Arms(arms=[views.Arm(**arm) for arm in found[start : start + count]], next=more)

    @app.get("/v1/cells", dependencies=may_read)
    async def cells(start: Start = 0, count: Count = 100) -> views.Cells:
        """Return what is known of the cells, in the order in which they were first visited."""
        node.check_started()
        found = inspection.cells(start, count)
        more = start + count if len(found) == count else None
        return views.Cells(cells=[views.Cell(**cell) for cell in found], next=more)

    @app.get("/v1/decisions/{decision_id:any}", dependencies=may_read)
    async def decision(decision_id: Name) -> views.Decision:
        """Return a decision, how it was made, and what its cell knows now."""
        node.check_started()
        facts = await inspection.decision(decision_id)
        if facts["propensity"] != facts["propensity"]:  # it is not known
            facts["propensity"] = None
        return views.Decision(**facts)

    @app.get("/v1/events", dependencies=may_read, response_class=StreamingResponse, responses=_LINES)
    async def events(start: Start = 0, count: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 1000) -> Response:
        """Return the events of the log from a number on, as lines of JSON."""
        node.check_started()
        begun = await asyncio.to_thread(inspection.events, start, count)  # if that fails, it is not too late to say so

        async def pages(lines: list[bytes], following: int) -> AsyncIterator[bytes]:
            left = count
            while lines:
                yield b"\n".join([*lines, b""])
                left -= len(lines)
                lines, following = await asyncio.to_thread(inspection.events, following, left)

        return StreamingResponse(pages(*begun), media_type="application/x-ndjson")


_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "lines of JSON", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
}


def _add_operating(app: FastAPI, node: Node, tokens: Tokens) -> None:
    may_change = [_allowed(tokens, "admin"), Depends(_in_json)]

    @app.post("/v1/arms/{name:any}", dependencies=may_change)
    async def change_arm(name: Name, change: views.ArmChange) -> views.Arm:
        """Change what an arm costs, pause it, or let it be used again."""
        await node.change_arm(name, cost=change.cost, paused=change.paused)
        return next(views.Arm(**arm) for arm in Inspection(node).arms() if arm["name"] == name)

    @app.post("/v1/mode", dependencies=may_change)
    async def change_mode(change: views.ModeChange) -> views.Summary:
        """Apply decisions, or only observe them while a classifier answers."""
        await node.set_mode(change.mode, change.classifier)
        return views.Summary(**Inspection(node).summary())


def _add_pages(app: FastAPI, site: str, pages: Pages | None) -> None:
    links = {"/docs": "what can be asked of it", "/openapi.json": "the same for programs (OpenAPI)"}
    if pages is not None:
        links = {f"{PAGES}/": "how the site is doing", **links}
        app.mount(PAGES, pages)
    rows = "".join(f'<li><a href="{path}">{path}</a>: {what}</li>\n' for path, what in links.items())
    name = escape(site)
    page = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{name} \N{MIDDLE DOT} cosend</title>\n<h1>{name}</h1>\n<ul>\n{rows}</ul>\n</html>\n"
    )

    @app.get("/", include_in_schema=False)
    async def start() -> HTMLResponse:
        return HTMLResponse(page)


def _add_health(app: FastAPI, node: Node, tokens: Tokens, metrics: Metrics) -> None:
    @app.get("/health/live")
    async def live() -> views.Health:
        """Tell that the process lives."""
        return views.Health(status="alive")

    @app.get("/health/ready", response_model=views.Health, responses={503: {"description": "not ready"}})
    async def ready() -> Any:
        """Tell whether the site can decide and learn."""
        return views.Health(status="ready") if node.is_ready else problem(503, node.why_not_ready)

    @app.get("/metrics", dependencies=[_allowed(tokens, "read")], response_class=Response, responses=_TEXT)
    async def tell_metrics() -> Response:
        """Return what Prometheus reads."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")


_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "metrics", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
