"""Who may use a site: which tokens may do what, and that web pages of others may do nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException

from cosend.errors import SettingError
from cosend.server.auth import SCOPES, VARIABLE, Tokens, Visitors, read_tokens
from tests.node.sites import setup_of
from tests.server.services import JSON, called
from tests.server.test_bodies import check_problem

ONE, TWO = "one-" + "x" * 16, "two-" + "x" * 16
BY_SCOPE = Tokens({each[0] * 20: frozenset([each]) for each in SCOPES})
ITEM = {"items": [{"features": {"age": 5}}]}
ROUTES: dict[str, tuple[str, str, Any]] = {
    "classify": ("POST", "/v1/classify", ITEM),
    "label": ("POST", "/v1/labels", {"labels": [{"id": "1", "label": "well"}]}),
    "read": ("GET", "/v1/summary", None),
    "admin": ("POST", "/v1/arms/old", {"cost": 0.5}),
}


def allowed(tokens: Tokens, token: str) -> set[str]:
    found: set[str] = set()
    for scope in SCOPES:
        try:
            tokens.check(f"Bearer {token}", scope)
            found.add(scope)
        except HTTPException as refused:
            if refused.status_code != 403:
                raise
    return found


def test_tokens_of_a_file_and_of_the_environment(tmp_path: Path) -> None:
    nobody = read_tokens(None, {})
    assert not nobody
    nobody.check(None, "admin")  # without tokens, everybody may do everything
    file = tmp_path / "tokens"
    file.write_text(f"# ours\n\n{ONE}   classify, label  # the gate\n{TWO}\tadmin\r\n")
    tokens = read_tokens(file, {VARIABLE: f"{'y' * 20} read"})  # the file wins
    assert allowed(tokens, ONE) == {"classify", "label"}
    assert allowed(tokens, TWO) == set(SCOPES)
    with pytest.raises(HTTPException, match="not known"):
        tokens.check("Bearer " + "y" * 20, "read")
    tokens = read_tokens(None, {VARIABLE: f"{ONE} read; {TWO} classify;"})
    assert (allowed(tokens, ONE), allowed(tokens, TWO)) == ({"read"}, {"classify"})
    for header in (f"bearer {ONE}", f"BEARER {ONE}", f"Bearer  {ONE} "):
        tokens.check(header, "read")


NONE_AT_ALL = ["", "# nothing\n"]
WRONG_LINES = ["short read", ONE, f"{ONE} write", f"{ONE} read,write", f"{ONE} read\n{ONE} admin", "é" * 20 + " read"]


@pytest.mark.parametrize("text", [*NONE_AT_ALL, *WRONG_LINES])
def test_what_is_wrong_with_a_file_is_told_without_its_tokens(text: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(SettingError) as caught:
        read_tokens(file, {})
    assert str(file) in str(caught.value)
    assert ONE not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for file in (tmp_path / "missing", tmp_path, tmp_path / "binary"):
        with pytest.raises(SettingError, match="a file that can be read"):
            read_tokens(file, {})


WRONG = ["", " ", "Bearer", "Bearer ", "Bearer  ", "Basic abc", "Bearer " + "x" * 20, "c" * 20, "Bearer " + "c" * 19]
WRONG += ["Bearer " + "c" * 21, "Bearer " + "c" * 20 + " more", "Bearer \xff\xfe", "Bearer " + "x" * 10_000]


async def test_no_token_and_wrong_ones_are_refused_and_health_needs_none(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path, BY_SCOPE) as (client, _):
        for method, path, body in ROUTES.values():
            check_problem(await client.request(method, path, json=body), 401)
            for header in WRONG:
                headers = {b"authorization": header.encode("latin-1")}
                response = await client.request(method, path, json=body, headers=headers)
                check_problem(response, 401)
                assert response.headers["www-authenticate"].startswith("Bearer")
        broken = await client.post("/v1/arms/old", content=b"{", headers={"content-type": "application/json"})
        check_problem(broken, 401)  # before anything else is looked at
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 200
        reader = {"authorization": f"Bearer {'r' * 20}"}
        assert (await client.get("/v1/summary", headers=reader)).json()["items"] == 0


# Web pages

BODY = b'{"items":[{"features":{"age":5}}]}'
POSTS: dict[str, bytes] = {
    "/v1/classify": BODY,
    "/v1/labels": b'{"labels":[{"id":"1","label":"well"}]}',
    "/v1/arms/old": b'{"cost":0.77}',
    "/v1/budget": b'{"total":5}',
    "/v1/mode": b'{"mode":"observe","classifier":"young"}',
}
GETS = ("/v1/summary", "/v1/events", "/metrics", "/health/ready", "/docs", "/openapi.json", "/dashboard/")
FOREIGN = {
    "another origin": {"Origin": "https://elsewhere.example"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "a file": {"Origin": "null"},
    "no origin at all": {"Origin": "http://[x"},
    "a page from elsewhere": {"Sec-Fetch-Site": "cross-site"},
    "a name that points here now": {"Host": "elsewhere.example"},
    "a name that looks like an address": {"Host": "127.0.0.1.elsewhere.example:80"},
    "an address that is not ours": {"Host": "192.0.2.1"},
    "no host": {"Host": "[::1"},
}


async def send(client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> int:
    reply = await client.request(
        "POST" if path in POSTS else "GET", path, content=POSTS.get(path), headers={**JSON, **headers}
    )
    return reply.status_code


async def test_a_foreign_page_is_refused_on_every_route_and_changes_nothing(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        before = (await client.summary())["events"], (await client.get("/v1/arms")).json()
        for why, headers in FOREIGN.items():
            for path in (*POSTS, *GETS):
                assert await send(client, path, headers) == 403, (path, why)
        assert ((await client.summary())["events"], (await client.get("/v1/arms")).json()) == before
        for host in ("127.0.0.1:8800", "localhost:8800", "[::1]:8800", "LOCALHOST", "127.9.9.9"):  # its own pages
            same = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
            for headers in ({}, same, {"Sec-Fetch-Site": "none"}):
                for path in ("/v1/summary", "/v1/classify"):
                    assert await send(client, path, {"Host": host, **headers}) == 200


KINDS: dict[str | None, int] = {
    "application/json": 200,
    "Application/JSON; charset=utf-8": 200,
    "application/vnd.hospital+json": 200,
    None: 415,
    "": 415,
    "text/plain;charset=UTF-8": 415,
    "text/plain; application/json": 415,
    "application/x-www-form-urlencoded": 415,
    "multipart/form-data; boundary=json": 415,
    "text/json": 415,
}


@pytest.mark.parametrize("tokens", [Tokens({}), Tokens({ONE: frozenset({"admin"})})], ids=["open", "with tokens"])
async def test_a_body_must_say_that_it_is_json(tokens: Tokens, tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path, tokens, authorization=f"Bearer {ONE}") as (client, _):
        for path, body in POSTS.items():
            for kind, status in KINDS.items():
                before = (await client.summary())["events"]
                response = await client.post(path, content=body, headers={} if kind is None else {"content-type": kind})
                assert response.status_code == status, (path, kind)
                if status == 415:
                    assert "Content-Type: application/json" in response.json()["detail"]
                    assert (await client.summary())["events"] == before


async def test_with_tokens_the_address_may_have_any_name(tmp_path: Path) -> None:
    tokens = Tokens({ONE: frozenset({"admin"})})
    async with called(setup_of(), tmp_path, tokens, authorization=f"Bearer {ONE}") as (client, _):
        headers = {"Host": "site.example", "Origin": "https://other.example"}  # behind a proxy
        assert (await client.get("/v1/summary", headers=headers)).status_code == 200
        assert (await client.get("/v1/summary", headers={"authorization": ""})).status_code == 401


@pytest.mark.parametrize(
    ("host", "named", "is_ours"),
    [
        ("north.example", "north.example:8800", True),
        ("north.example", "North.Example", True),
        ("north.example", "localhost", True),
        ("north.example", "evil.example", False),
        ("0.0.0.0", "192.0.2.7:8800", True),  # noqa: S104 - nothing listens there
        ("0.0.0.0", "evil.example", False),  # noqa: S104
        ("::", "[2001:db8::1]:8800", True),
        ("127.0.0.1", "192.0.2.7", False),
    ],
)
def test_the_names_of_a_site_by_its_address(host: str, named: str, is_ours: bool) -> None:
    visitors = Visitors(host, is_open=True)
    if is_ours:
        visitors.check({b"host": named.encode()}, "/v1/summary")
    else:
        with pytest.raises(HTTPException, match="is not a name of this site"):
            visitors.check({b"host": named.encode()}, "/v1/summary")
