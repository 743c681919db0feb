"""The pages as a part of the service: what they let in, and what they never load or tell."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from cosend.pages import dashboard
from cosend.server.auth import Tokens
from tests.server.services import a_setup, served

TOKEN = "reader-0123456789"  # noqa: S105 - of a test
READER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tokens = Tokens({TOKEN: frozenset({"read"})})
    with served(tmp_path_factory.mktemp("site"), tokens=tokens, with_pages=True) as (address, _):
        yield address


def test_the_root_leads_to_dashboard_and_description_and_unknown_routes_are_problems(url: str) -> None:
    start = httpx.get(f"{url}/")
    assert start.status_code == 200
    links = re.findall(r'href="([^"]+)"', start.text)
    assert links == ["/dashboard/", "/docs", "/openapi.json"]
    assert [httpx.get(f"{url}{link}", timeout=60.0).status_code for link in links] == [200, 200, 200]
    for path in ("/v1/nothing", "/dashboard/nothing"):
        reply = httpx.get(f"{url}{path}")
        assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
    assert httpx.get(f"{url}/v1/summary").status_code == 401


def test_the_page_loads_nothing_from_elsewhere_and_tells_nothing_before_a_token(url: str) -> None:
    page = httpx.get(f"{url}/dashboard/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "https://" not in policy
    assert "'unsafe-eval'" not in policy
    assert "data-value" not in page.text
    assert not any(name in page.text for name in a_setup().classifiers)
    for path in re.findall(r'(?:src|href)="(static[^"]+)"', page.text):
        assert httpx.get(f"{url}/dashboard/{path}").status_code == 200
    for path in ("live", "why/1"):
        assert httpx.get(f"{url}/dashboard/{path}").status_code == 401
    began = time.monotonic()
    assert httpx.get(f"{url}/dashboard/live", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert time.monotonic() - began >= dashboard.WRONG_TOKEN_S


def test_a_page_from_elsewhere_is_refused(url: str) -> None:
    for path in ("", "live", "why/1", "static/dashboard.js"):
        asked = f"{url}/dashboard/{path}"
        assert httpx.get(asked, headers={**READER, "Origin": "https://elsewhere.example"}).status_code == 403
        with httpx.stream("GET", asked, headers={**READER, "Origin": url}) as reply:
            assert reply.status_code == (404 if path == "why/1" else 200)


def test_why_a_decision_was_made_that_nobody_knows_is_a_problem(url: str) -> None:
    for name in ("1", "x", "9" * 30, "%00", "-1"):
        reply = httpx.get(f"{url}/dashboard/why/{name}", headers=READER)
        assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")


def test_the_number_of_open_pages_is_limited_and_a_closed_page_makes_room(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "MOST_PAGES", 2)
    with ExitStack() as open_pages:
        streams = [httpx.stream("GET", f"{url}/dashboard/live", headers=READER, timeout=60) for _ in range(2)]
        replies = [open_pages.enter_context(stream) for stream in streams]
        events = [reply.iter_lines() for reply in replies]
        assert [next(each)[:15] for each in events] == ['data: {"head":"'] * 2
        assert {reply.headers["cosend-may-change"] for reply in replies} == {"no"}
        refused = httpx.get(f"{url}/dashboard/live", headers=READER)
        assert refused.status_code == 503
        assert "close one" in refused.json()["detail"]
        assert httpx.get(f"{url}/dashboard/").status_code == 200  # the page itself is nothing that is kept
    until = time.monotonic() + 20
    while True:  # the site finds out that the browsers have gone
        with httpx.stream("GET", f"{url}/dashboard/live", headers=READER) as reply:
            if reply.status_code == 200:
                break
        assert time.monotonic() < until
        time.sleep(0.05)


def test_browsers_that_do_not_read_hold_up_nobody(url: str) -> None:
    """Their streams wait; others get theirs, and the site answers."""
    host, port = url.removeprefix("http://").split(":")
    request = f"GET /dashboard/live HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    with ExitStack() as connections:
        for _ in range(20):
            deaf = connections.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
            deaf.connect((host, int(port)))
            deaf.sendall(request)
        with httpx.stream("GET", f"{url}/dashboard/live", headers=READER, timeout=60) as reply:
            events = reply.iter_lines()
            assert sum(line.startswith("data: ") for line, _ in zip(events, range(5), strict=False)) >= 2
        assert httpx.get(f"{url}/v1/summary", headers=READER).status_code == 200
