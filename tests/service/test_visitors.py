"""Web pages of others: without tokens, nothing that a browser sends on their behalf is answered."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from cosend.service.problems import Refused
from cosend.service.tokens import Tokens
from cosend.service.visitors import Visitors, same_origin
from tests.cli.serving import Served, served, write_network
from tests.node.sites import run, setup_of
from tests.service.clients import called

JSON = {"Content-Type": "application/json"}
TOKEN = "admin-0123456789"  # noqa: S105 - of a test
ITEM = b'{"items":[{"features":{"age":5}}]}'
ROUTES: list[tuple[str, str, bytes | None]] = [
    ("POST", "/v1/classify", ITEM),
    ("POST", "/v1/labels", b'{"labels":[{"id":"1","label":"well"}]}'),
    ("POST", "/v1/arms/old", b'{"cost":0.77}'),
    ("POST", "/v1/mode", b'{"mode":"observe","classifier":"young"}'),
    ("GET", "/v1/summary", None),
    ("GET", "/v1/events", None),
    ("GET", "/metrics", None),
    ("GET", "/health/ready", None),
    ("GET", "/docs", None),
    ("GET", "/openapi.json", None),
    ("GET", "/dashboard/", None),
    ("GET", "/dashboard/_nicegui_ws/socket.io/?EIO=4&transport=polling", None),
]
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a site as its user does, without tokens."""
    folder = tmp_path_factory.mktemp("site")
    write_network(folder)
    with served(folder, "--site", "north", "--no-durable") as running:
        running.wait_until_ready()
        yield running


def answer(site: Served, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> int:
    """Return the status of a request with exactly these headers."""
    connection = HTTPConnection(site.url.partition("//")[2], timeout=60)
    connection.request(method, path, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_page_is_refused_on_every_route_and_changes_nothing(site: Served, headers: dict[str, str]) -> None:
    before = site.ask("/v1/summary")[1]["events"], site.ask("/v1/arms")[1]
    for method, path, body in ROUTES:
        assert answer(site, method, path, body, {**JSON, **headers}) == 403, path
    assert (site.ask("/v1/summary")[1]["events"], site.ask("/v1/arms")[1]) == before


@pytest.mark.parametrize("headers", [FOREIGN["another origin"], FOREIGN["a name that points here now"]])
def test_a_foreign_page_gets_no_web_socket(site: Served, headers: dict[str, str]) -> None:
    address = site.url.replace("http", "ws")
    with pytest.raises(InvalidStatus, match="403"):
        connect(
            f"{address}/dashboard/_nicegui_ws/socket.io/?EIO=4&transport=websocket",
            origin=Origin(headers["Origin"]) if "Origin" in headers else None,
            additional_headers={"Host": headers["Host"]} if "Host" in headers else None,
        ).close()


def test_its_own_pages_and_whoever_is_no_page_are_let_in(site: Served) -> None:
    port = site.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "LOCALHOST", "127.9.9.9"):
        for headers in ({}, {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
            assert answer(site, "GET", "/v1/summary", None, {"Host": host, **headers}) == 200
            assert answer(site, "POST", "/v1/classify", ITEM, {"Host": host, **JSON, **headers}) == 200


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


@pytest.mark.parametrize("tokens", [Tokens({}), Tokens({TOKEN: frozenset({"admin"})})], ids=["open", "with tokens"])
def test_a_body_must_say_that_it_is_json(tokens: Tokens, tmp_path: Path) -> None:
    async def work() -> None:
        async with called(setup_of(), tmp_path, tokens, authorization=f"Bearer {TOKEN}") as (client, node):
            for method, path, body in ROUTES[:4]:
                for kind, status in KINDS.items():
                    before = node.commits.position
                    headers = {} if kind is None else {"content-type": kind}
                    response = await client.request(method, path, content=body, headers=headers)
                    assert response.status_code == status, (path, kind)
                    if status == 415:
                        assert "Content-Type: application/json" in response.json()["detail"]
                        assert node.commits.position == before

    run(work())


def test_with_tokens_the_address_may_have_any_name(tmp_path: Path) -> None:
    async def work() -> None:
        tokens = Tokens({TOKEN: frozenset({"admin"})})
        async with called(setup_of(), tmp_path, tokens, authorization=f"Bearer {TOKEN}") as (client, _):
            headers = {"Host": "site.example", "Origin": "https://other.example"}  # behind a proxy
            assert (await client.get("/v1/summary", headers=headers)).status_code == 200
            assert (await client.get("/v1/summary", headers={"authorization": ""})).status_code == 401

    run(work())


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
        with pytest.raises(Refused, match="is not a name of this site"):
            visitors.check({b"host": named.encode()}, "/v1/summary")


@pytest.mark.parametrize(
    ("origin", "host", "is_same"),
    [
        (b"http://127.0.0.1:8800", b"127.0.0.1:8800", True),
        (b"https://Site.example", b"site.example", True),
        (b"http://127.0.0.1:8801", b"127.0.0.1:8800", False),
        (b"null", b"127.0.0.1:8800", False),
        (b"http://evil.example", None, False),
    ],
)
def test_the_origin_is_compared_with_the_host(origin: bytes, host: bytes | None, is_same: bool) -> None:
    assert same_origin(origin, host) is is_same
