"""Problems: every error has its status, says what a client can use, and never what the inside looks like."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from cosend.errors import ArmError, ContextError, CosendError, DecisionError, NoAnswer, StateError, Unavailable
from cosend.service.problems import Refused, problem_of
from tests.node.sites import run, setup_of
from tests.service.clients import called

STATUSES: list[tuple[Exception, int]] = [
    (Refused(413, "too long"), 413),
    (Unavailable("it is starting"), 503),
    (NoAnswer("north", {}), 503),
    (DecisionError("north", "x", "no such decision"), 404),
    (ArmError("no such arm"), 404),
    (ContextError("no age"), 422),
    (CosendError("half a character: \ud800"), 422),
    (StateError("/secret/place: damaged"), 503),
    (sqlite3.OperationalError("disk I/O error"), 503),
    (ValueError("the inside"), 500),
    (Unavailable("x" * 100_000), 503),
]


@pytest.mark.parametrize(("error", "status"), STATUSES)
def test_every_error_is_a_problem(error: Exception, status: int) -> None:
    response = problem_of(error)
    found = msgspec.json.decode(bytes(response.body))
    assert (response.status_code, found["status"], response.media_type) == (status, status, "application/problem+json")
    assert len(found["detail"]) < 5_000
    assert not any(word in found["detail"] for word in ("secret", "inside", "I/O"))
    assert ("retry-after" in response.headers) is (status == 503)


def test_unknown_paths_methods_and_errors_of_the_inside_are_problems_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, node):
            for method, path, status in (
                ("GET", "/nothing", 404),
                ("PUT", "/v1/classify", 405),
                ("GET", "/v1/mode", 405),
            ):
                response = await client.request(method, path)
                assert (response.status_code, response.json()["status"]) == (status, status)
            monkeypatch.setattr(node, "rules", None)
            response = await client.get("/v1/summary")
            assert (response.status_code, response.json()["status"]) == (500, 500)
            assert "NoneType" not in response.text
            monkeypatch.undo()

    run(work())
