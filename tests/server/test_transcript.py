"""A recorded conversation with a site: the same requests get the same replies, to the last field.

`python -m tests.server.test_transcript` records it again, for a change that is meant to change replies.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosend import CoS
from cosend.server.auth import Tokens
from tests.node.sites import setup_of
from tests.server.services import JSON, NOBODY, called

FILE = Path(__file__).with_name("transcript.jsonl")
TOKENS = Tokens({"r" * 20: frozenset(["read"]), "a" * 20: frozenset(["admin"])})
VARIES = ("up_s", "at", "seconds_per_item")  # from run to run
ITEM = {"items": [{"features": {"age": 5}}]}
Request = tuple[str, str, Any, dict[str, str]]

QUERIES = ("start=1", "count=1", "start=-1", "count=1001", "start=x", "start=1&start=0", "other=1")
READS = [
    "/v1/summary",
    "/v1/arms",
    *(f"/v1/arms?{query}" for query in QUERIES),
    "/v1/cells",
    "/v1/cells?count=2&start=2",
]
READS += [f"/v1/decisions{end}" for end in ("/1", "/a%2Fb%20%C3%A9", "/nobody", "/", "")]
READS += [f"/v1/events{end}" for end in ("", "?start=2&count=1", "?count=10001", "?start=100000")]
READS += ["/health/live", "/health/ready", "/nothing", "/v1/summary/", "/v1/classify", "/v1/mode", "/v1/arms/old"]
CHANGES = [b"", b"{", b"null", b"\xff", {}, {"cost": 0.5}, {"cost": 2}, {"cost": True}, {"cost": 0}, {"cost": None}]
CHANGES += [{"paused": 1}, {"paused": True}, {"paused": False}, {"other": 1}, b'{"cost":NaN}']
MODES = [b"x", {"mode": "apply"}, {"mode": "observe", "classifier": "young"}, {"mode": "observe"}, {"mode": "other"}]
MODES += [{"mode": "apply", "classifier": None}, {"mode": "apply", "x": 1}, {"mode": "apply"}]
BAD_ITEMS = [b"", b"{", b"null", {"items": []}, {"items": [1]}, {"items": [{"features": {}}]}]
BAD_ITEMS += [{"items": [{"features": {"age": age}, "id": id}]} for age, id in ((101, "x"), (1, "#1"), (1, "1"))]


def conversation() -> Iterator[Request]:
    yield "POST", "/v1/classify", {"items": [{"features": {"age": age}} for age in (5, 50, 95)]}, JSON
    for _ in range(2):
        yield "POST", "/v1/classify", {"items": [{"features": {"age": 50}, "id": "a/b é"}]}, JSON
    labels: list[dict[str, Any]] = [{"id": id, "label": "well"} for id in ("1", "1", "zz")]
    labels += [{"id": "2", "label": None}, {"id": "3", "label": "ill", "cost": 0.5}]
    yield "POST", "/v1/labels", {"labels": labels}, JSON
    yield from (("GET", path, b"", {}) for path in READS)
    for method in ("PUT", "HEAD", "OPTIONS", "POST"):
        yield from ((method, path, b"", {}) for path in ("/v1/summary", "/v1/classify", "/v1/mode", "/nothing", "/"))
    yield from (("POST", "/v1/arms/old", body, JSON) for body in CHANGES)
    yield from (("POST", f"/v1/arms/{name}", {"cost": 0.5}, JSON) for name in ("nobody", "", "x" * 201))
    yield from (("POST", "/v1/mode", body, JSON) for body in MODES)
    yield from (("POST", "/v1/classify", body, JSON) for body in BAD_ITEMS)
    for path, body in (("/v1/classify", ITEM), ("/v1/arms/old", {"cost": 0.5})):
        yield from (("POST", path, body, headers) for headers in ({}, {**JSON, "origin": "http://evil.example"}))
    yield "GET", "/v1/summary", b"", {"host": "evil.example"}
    yield "GET", "/v1/events", b"", {}


def guarded() -> Iterator[Request]:
    for token in ("", "r" * 20, "a" * 20, "x" * 20):
        headers = {**JSON, "authorization": f"Bearer {token}"} if token else JSON
        yield from (("GET", path, b"", headers) for path in ("/v1/summary", "/health/ready"))
        for path, body in (("/v1/arms/old", {"cost": 0.1}), ("/v1/arms/old", b"{"), ("/v1/classify", ITEM)):
            yield "POST", path, body, headers


def scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: 0 if name in VARIES else scrubbed(each) for name, each in value.items()}
    return [scrubbed(each) for each in value] if isinstance(value, list) else value


async def replies(folder: Path) -> list[str]:
    lines = []
    for tokens, requests in ((NOBODY, conversation()), (TOKENS, guarded())):
        setup = setup_of(policy=CoS(slices=4), seed=3)
        async with called(setup, folder / str(bool(tokens)), tokens) as (client, _):
            for method, path, body, headers in requests:
                sent = body if isinstance(body, bytes) else json.dumps(body).encode()
                reply = await client.request(method, path, content=sent, headers=headers)
                told = {name: text for name, text in reply.headers.items() if name != "content-length"}
                found = [scrubbed(json.loads(line)) for line in reply.text.splitlines()]
                asked = f"{method} {path[:40]} {sent[:80].decode('latin-1')}".rstrip()
                lines.append(json.dumps([asked, reply.status_code, told, *found], ensure_ascii=False))
    return lines


async def test_replies_are_those_that_were_recorded(tmp_path: Path) -> None:
    assert await replies(tmp_path) == FILE.read_text().splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        FILE.write_text("\n".join(asyncio.run(replies(Path(made)))) + "\n")
