"""The servers of the service's benchmark, one process each: two echoes, and a site that waits for the disk or does not.

    python -m benchmarks.service_servers KIND PORT FOLDER [--keep-s S]

`pages` is durable, and has a dashboard. Each ends when its input does, so that none is left behind whatever becomes of
the process that started it. Beside each other they differ in what they do with a request, not in how uvicorn is set up.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from cosend import ZoomingKLUCB
from cosend.algorithm.policies import Policy
from cosend.axes import AllFeatures, Feature
from cosend.models.adapters import Classifier, as_classifier
from cosend.pages.dashboard import Dashboard
from cosend.runtime import running_site as running
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import DAY_S, Setup
from cosend.server.auth import Tokens
from cosend.server.bodies import ITEMS, LABELS
from cosend.server.http_server import SWITCH_S, Address, serve

KINDS = ("pydantic", "msgspec", "durable", "memory", "default", "features", "learnt")
QUICK = ZoomingKLUCB()  # so that the service is what is measured, not the policy
ARMS = ("well", "ill", "dead")  # each always says its own name
PRUNE_EVERY_S = 5.0  # in the soak, which has no hours


class Item(BaseModel):
    features: dict[str, Any]
    id: str | None = None


class Classify(BaseModel):
    items: list[Item]


class Decision(BaseModel):
    id: str
    label: str
    arm: str
    phase: str
    cell: int
    cost: float
    propensity: float


class Decisions(BaseModel):
    decisions: list[Decision]


class Truth(BaseModel):
    id: str
    label: str


class Labels(BaseModel):
    labels: list[Truth]


class Heard(BaseModel):
    learnt: list[str]
    duplicate: list[str] = []
    unknown: list[str] = []
    expired: list[str] = []


class Decided(msgspec.Struct, gc=False):
    id: str
    label: str
    arm: str
    phase: str
    cell: int
    cost: float
    propensity: float


TOLD: dict[str, Any] = {"id": "1234567", "label": "well", "arm": "well", "phase": "exploit", "cell": 12, "cost": 0.0}
TOLD["propensity"] = 1 / 3


def pydantic_app() -> FastAPI:
    """Return what most would write: models of Pydantic in and out."""
    app = FastAPI()

    @app.post("/v1/classify")
    async def classify(body: Classify) -> Decisions:
        return Decisions(decisions=[Decision(**TOLD) for _ in body.items])

    @app.post("/v1/labels")
    async def labels(body: Labels) -> Heard:
        return Heard(learnt=[each.id for each in body.labels])

    return app


def msgspec_app() -> FastAPI:
    """Return the same with msgspec in place of Pydantic."""
    app, encode = FastAPI(), msgspec.json.Encoder().encode

    async def classify(request: Request) -> Response:
        items = ITEMS.decode(await request.body()).items
        told = [Decided(**TOLD) for _ in items]
        return Response(encode({"decisions": told}), media_type="application/json")

    async def labels(request: Request) -> Response:
        given = LABELS.decode(await request.body()).labels
        heard = {"learnt": [each.id for each in given], "duplicate": [], "unknown": [], "expired": []}
        return Response(encode(heard), media_type="application/json")

    app.router.add_route("/v1/classify", classify, methods=["POST"])
    app.router.add_route("/v1/labels", labels, methods=["POST"])
    return app


def said(label: str, _: Any) -> str:
    """Return the same label for every item."""
    return label


def a_setup(keep_s: float = 7 * DAY_S, policy: Policy | None = QUICK) -> Setup:
    """Return a site with one context and three models that cost nothing to run; it runs the one that it uses."""
    axes = (Feature("age", range=(0, 100)),)
    return Setup(name="bench", classifiers=models_of(ARMS), axes=axes, keep_s=keep_s, policy=policy, learnt=False)


def all_features_setup(keep_s: float, *, learnt: bool) -> Setup:
    """Return a site that is told nothing: it looks at every feature, and has models for two classes."""
    return Setup(
        name="bench", classifiers=models_of(ARMS[:2]), axes=(AllFeatures(),), keep_s=keep_s, policy=None, learnt=learnt
    )


def models_of(arms: Sequence[str]) -> dict[str, Classifier]:
    return {arm: as_classifier(partial(said, arm)) for arm in arms}


def serve_echo(app: FastAPI, port: int) -> None:
    """Serve an echo as `cosend.server.http_server` serves a site."""
    sys.setswitchinterval(SWITCH_S)
    uvicorn.run(app, host="127.0.0.1", port=port, log_config=None, access_log=False, server_header=False)


def end_with_input() -> None:
    """Let the process end when whoever started it is gone, or has closed its input."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=(*KINDS, "pages"))
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep-s", type=float, default=0.0)
    given = parser.parse_args()
    end_with_input()
    if given.kind in ("pydantic", "msgspec"):
        serve_echo(pydantic_app() if given.kind == "pydantic" else msgspec_app(), given.port)
        return
    if given.keep_s:
        running.PRUNE_EVERY_S = PRUNE_EVERY_S  # type: ignore[misc]
    keep_s, policy = given.keep_s or 7 * DAY_S, None if given.kind == "default" else QUICK
    if given.kind in ("features", "learnt"):
        setup = all_features_setup(keep_s, learnt=given.kind == "learnt")
    else:
        setup = a_setup(keep_s, policy)
    node = RunningSite(setup, given.folder, durable=given.kind != "memory")
    serve(node, Address(port=given.port), Tokens({}), Dashboard(node, Tokens({})) if given.kind == "pages" else None)


if __name__ == "__main__":
    main()
