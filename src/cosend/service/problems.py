"""What goes wrong, as RFC 9457 describes problems: one form for every error, and never a stack trace."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cosend.errors import ArmError, CosendError, DecisionError, NoAnswer, StateError, Unavailable, cut

LOG: Final = logging.getLogger("cosend.service")
MEDIA_TYPE: Final = "application/problem+json"
LONGEST: Final = 2_000  # characters of an explanation
ANY: Final = "about:blank"  # the type of a problem whose status says enough
NO_ANSWER: Final = "urn:cosend:problem:no-answer"  # no arm could label any of the items; the site itself is well


class Refused(Exception):
    """A request that is answered with a problem."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, kind: str = ANY) -> Response:
    """Return a problem as a response."""
    body = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": cut(detail, LONGEST)}
    return Response(msgspec.json.encode(body), status, headers=headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Response:
    """Return the problem that an error is."""
    match error:
        case Refused():
            return problem(error.status, error.detail, error.headers)
        case NoAnswer():
            return problem(503, str(error), {"Retry-After": "1"}, NO_ANSWER)
        case Unavailable():
            return problem(503, str(error), {"Retry-After": "1"})
        case StateError() | sqlite3.Error():  # the disk or the log, nothing that the client could do better
            LOG.error("the folder of the site cannot be used", exc_info=error)
            return problem(
                503, "what the site keeps cannot be read now; its log says why", headers={"Retry-After": "1"}
            )
        case DecisionError() | ArmError():
            return problem(404, str(error))
        case CosendError():
            return problem(422, str(error))
        case HTTPException():
            return problem(error.status_code, str(error.detail), error.headers)
        case RequestValidationError():
            found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
            return problem(422, "; ".join(found))
    LOG.exception("a request has failed", exc_info=error)
    return problem(500, "something went wrong here; the log of the site says what")


def handle_problems(app: FastAPI) -> None:
    """Let an app answer every error with a problem."""

    async def answer(_: Request, error: Exception) -> Response:
        return problem_of(error)

    for kind in (CosendError, Refused, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, answer)


def problem_schema() -> dict[str, Any]:
    """Return the JSON Schema of a problem."""
    return {
        "type": "object",
        "title": "Problem",
        "description": "What went wrong, as RFC 9457 describes it.",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
        "required": ["type", "title", "status", "detail"],
    }
