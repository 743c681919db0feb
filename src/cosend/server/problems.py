"""Every error as a problem (RFC 9457): one form for all of them, and never a stack trace."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cosend.errors import ArmError, CosendError, DecisionError, NoAnswer, StateError, Unavailable, cut
from cosend.server.schema import NO_ANSWER, PROBLEM_TYPE, Problem

LOG: Final = logging.getLogger("cosend.server")
MAX_DETAIL: Final = 2_000  # characters of an explanation
LATER: Final = {"Retry-After": "1"}


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, kind: str = "about:blank") -> Response:
    body = Problem(kind, HTTPStatus(status).phrase, status, cut(detail, MAX_DETAIL))
    return Response(msgspec.json.encode(body), status, headers=headers, media_type=PROBLEM_TYPE)


def problem_of(error: Exception) -> Response:
    match error:
        case HTTPException():
            return problem(error.status_code, error.detail, error.headers)
        case NoAnswer():
            return problem(503, str(error), LATER, NO_ANSWER)
        case Unavailable():
            return problem(503, str(error), LATER)
        case StateError() | sqlite3.Error():  # the disk or the log, nothing that the client could do better
            LOG.error("the folder of the site cannot be used", exc_info=error)
            return problem(503, "the store of the site cannot be read now; its log says why", LATER)
        case DecisionError() | ArmError():
            return problem(404, str(error))
        case CosendError():
            return problem(422, str(error))
    LOG.exception("a request has failed", exc_info=error)
    return problem(500, "something went wrong here; the log of the site says what")
