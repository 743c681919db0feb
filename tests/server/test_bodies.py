"""Bodies and paths of every kind: each is answered with what it asks for or with a problem, never a 5xx."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cosend.server import bodies
from tests.node.sites import setup_of
from tests.server.services import JSON, called

GOOD = {"items": [{"features": {"age": 5}}]}


def with_feature(value: bytes) -> bytes:
    return b'{"items":[{"features":{"age":5,"x":' + value + b"}}]}"


def with_label(value: bytes) -> bytes:
    return b'{"labels":[{"id":"1","label":' + value + b"}]}"


# What tests/fence/test_http.py refuses is not repeated here.
CLASSIFY: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "no JSON": (b"{", 400),
    "half": (b'{"items":[{"features":{"age":5}}]', 400),
    "two": (json.dumps(GOOD).encode() * 2, 400),
    "null": (b"null", 422),
    "items that are none": (b'{"items":[null,1,"x"]}', 422),
    "keys that come twice": (b'{"items":[{"features":{"age":5,"age":6}}]}', 200),
    "NaN": (with_feature(b"NaN"), 400),
    "Infinity": (with_feature(b"-Infinity"), 400),
    "a number too large": (with_feature(b"1e999"), 422),
    "65 bits": (with_feature(b"18446744073709551616"), 422),
    "64 bits": (with_feature(b"9223372036854775807"), 200),
    "64 bits and a sign": (with_feature(b"-9223372036854775809"), 422),
    "5000 digits": (with_feature(b"1" * 5000), 422),
    "half a character": (with_feature(b'"\\ud800"'), 400),
    "half a character in bytes": (with_feature(b'"\xed\xa0\x80"'), 400),
    "no UTF-8": (b"\xff\xfe{\x00}\x00", 400),
    "a byte order mark": (b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), 400),
    "a list in a list": (with_feature(b"[1, [2, null], true]"), 200),
    "an object": (with_feature(b'{"a": 1, "b": "x"}'), 200),
    "three levels": (with_feature(b"[[[]]]"), 422),
    "an object in a list": (with_feature(b"[{}]"), 422),
    "100,000 levels": (with_feature(b"[" * 100_000 + b"]" * 100_000), 422),
    "100,000 levels of objects": (with_feature(b'{"a":' * 100_000), 422),
    "a long text": (with_feature(b'"' + b"x" * 100_001 + b'"'), 422),
    "a long name": (b'{"items":[{"features":{"age":5,"' + b"x" * 1001 + b'":1.5}}]}', 422),
    "a long name inside": (with_feature(b'{"' + b"x" * 100_001 + b'":1.5}'), 422),
    "too many features": (json.dumps({"items": [{"features": {f"f{n}": n for n in range(2001)}}]}).encode(), 422),
    "an id of the site": (b'{"items":[{"features":{"age":5},"id":"d-5"}]}', 422),
}
LABELS: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "a list": (with_label(b"[1]"), 422),
    "an object": (with_label(b"{}"), 422),
    "NaN": (with_label(b"NaN"), 400),
    "65 bits": (with_label(b"18446744073709551616"), 422),
    "400 digits": (with_label(b"9" * 400), 422),
    "5000 digits": (with_label(b"9" * 5000), 422),
    "a cost below 0": (b'{"labels":[{"id":"1","label":1,"cost":-0.1}]}', 422),
    "of a decision that there is not": (b'{"labels":[{"id":"nobody","label":1}]}', 200),
}


def check_problem(response: httpx.Response, status: int) -> None:
    assert response.status_code == status, response.text
    if status != 200:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == status
        assert "Traceback" not in response.text
        assert len(response.content) < 10_000


async def test_bodies_of_every_kind(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        assert (await client.post("/v1/classify", json=GOOD)).json()["decisions"][0]["id"] == "d-1"
        for body, status in LABELS.values():
            check_problem(await client.post("/v1/labels", content=body, headers=JSON), status)
        for body, status in CLASSIFY.values():
            short = await client.post("/v1/classify", content=body, headers=JSON)
            long = await client.post("/v1/classify", content=b" " * 300_000 + body, headers=JSON)  # goes another way
            check_problem(short, status)
            check_problem(long, status)
            if status == 422:
                too_deep = "too many lists and objects within each other"
                assert long.json()["detail"] in (short.json()["detail"], too_deep)
        decided = 2 * sum(status == 200 for _, status in CLASSIFY.values())
        facts = await client.summary()
        assert (facts["items"], facts["pending"]) == (1 + decided, 1 + decided)  # what was refused has changed nothing


async def test_lengths_that_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def parts(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 1000

    async with called(setup_of(), tmp_path) as (client, _):
        for path in ("/v1/classify", "/v1/arms/old"):
            for told, status in (("x", 400), ("-1", 400), ("1e3", 400), ("9" * 30, 413), ("99999999999", 413)):
                response = await client.post(path, content=b"{}", headers={**JSON, "content-length": told})
                check_problem(response, status)
        monkeypatch.setattr(bodies, "MAX_SMALL_BYTES", 5000)
        check_problem(await client.post("/v1/arms/old", content=parts(6), headers=JSON), 413)
        check_problem(await client.post("/v1/mode", content=parts(4), headers=JSON), 400)


ODD = ["a/b", "..", ".", "%", "a b", "é", "\U0001f600", "a?b=c", "a#b", "a\0b", "\n", "a\nb\n", "//", "a/", "/a"]
ODD += ["x" * 200, "1e3", "-1"]


async def test_ids_with_odd_characters_in_paths(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        items = [{"features": {"age": 5}, "id": name} for name in ODD]
        assert (await client.post("/v1/classify", json={"items": items})).status_code == 200
        for name in ODD:
            raw = "".join(f"%{byte:02X}" for byte in name.encode())
            response = await client.get(f"/v1/decisions/{raw}")
            assert (response.status_code, response.json().get("id")) == (200, name)
        for path in ("nobody", "%ff", "y" * 200, "%00", "#0"):
            check_problem(await client.get(f"/v1/decisions/{path.replace('#', '%23')}"), 404)
        check_problem(await client.get(f"/v1/decisions/{'x' * 201}"), 422)
        check_problem(await client.post("/v1/arms/no%2Fbody", json={"cost": 0.5}), 404)


async def test_a_long_body_is_answered_as_a_short_one_is(tmp_path: Path) -> None:
    """It is decoded in several turns of the loop, item by item."""
    good = [{"id": f"item {n}", "features": {"age": n % 100, "text": "x" * 500}} for n in range(2_000)]
    async with called(setup_of(), tmp_path) as (client, _):

        async def answers(items: Any) -> httpx.Response:
            return await client.post("/v1/classify", json={"items": items})

        assert len(json.dumps(good)) > 2 * bodies.PART_BYTES
        told = (await answers(good)).json()["decisions"]
        assert [each["id"] for each in told] == [item["id"] for item in good]
        assert (await answers(good[:3])).json()["decisions"] == told[:3]
        before = (await client.summary())["events"]
        for wrong in (3, {}, {"id": 1, "features": {}}, {"features": {"a": [[[1]]]}}, {"features": {}, "x": 1}):
            short = await answers([good[0], wrong])
            long = await answers([*good[:1_500], wrong])
            check_problem(short, 422)
            check_problem(long, 422)
            assert long.json()["detail"] == short.json()["detail"].replace("items[1]", "items[1500]")
        huge = await answers([good[0], {"features": {f"t{n}": "x" * 50_000 for n in range(60)}}])
        check_problem(huge, 413)
        assert "items.1" in huge.json()["detail"]
        assert (await client.summary())["events"] == before
