"""The bodies of the two hot routes: read within limits, decoded and encoded by msgspec."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Annotated, Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosend.errors import shown
from cosend.service.problems import Refused, problem_of

MOST_BYTES: Final = 32 * 2**20  # of a body
BODY_S: Final = 30.0  # to send it
MOST_ITEMS: Final = 10_000
MOST_FEATURES: Final = 2_000
LONGEST_TEXT: Final = 100_000  # characters of a feature or a label
LONGEST_NAME: Final = 1_000  # characters of the name of a feature
LONGEST_ID: Final = 200
MOST_SMALL_BYTES: Final = 2**16  # of a body on the other routes
DEEPEST: Final = 8  # lists and objects within each other
SMALLEST, LARGEST = -(2**63), 2**64 - 1

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item that is to be labelled."""

    features: dict[str, Any]
    id: Id | None = None


class Classify(msgspec.Struct, forbid_unknown_fields=True):
    """Items that are to be labelled."""

    items: Annotated[list[Item], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]


class Truth(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The true label of a decision."""

    id: Id
    label: str | int | float | bool | None
    cost: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class Labels(msgspec.Struct, forbid_unknown_fields=True):
    """True labels."""

    labels: Annotated[list[Truth], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]


T = TypeVar("T")
CLASSIFY: Final = msgspec.json.Decoder(Classify)
LABELS: Final = msgspec.json.Decoder(Labels)


async def read_body(request: Request, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the body of a request; one that is too long or too slow is refused."""
    told = request.headers.get("content-length") or "0"
    if not (told.isascii() and told.isdecimal()):
        raise Refused(400, "the length of the body is not a number", {"Connection": "close"})
    if len(told) > 18 or int(told) > most_bytes:
        raise Refused(413, f"the body has more than {most_bytes:,} bytes", {"Connection": "close"})
    parts, length = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                parts.append(part)
                length += len(part)
                if length > most_bytes:
                    raise Refused(413, f"the body has more than {most_bytes:,} bytes", {"Connection": "close"})
    except TimeoutError:
        raise Refused(408, f"the body did not come within {BODY_S:g} s", {"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(400, "the connection was closed before the body was there") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return what a body says, or refuse it with the place that is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refused(422, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from error
    except RecursionError:
        raise Refused(422, f"more than {DEEPEST} lists and objects within each other") from None


def check_features(items: list[Item]) -> None:
    """Raise unless features are within the limits: they are passed to models, and may be written down."""
    for place, item in enumerate(items):
        if len(item.features) > MOST_FEATURES:
            raise Refused(422, f"items.{place}.features: more than {MOST_FEATURES:,} features")
        for name, value in item.features.items():
            kind = type(value)
            wrong = None if kind is float or kind is bool else _wrong(value, DEEPEST)
            if wrong or len(name) > LONGEST_NAME:
                raise Refused(422, f"items.{place}.features.{name:.100}: {wrong or 'its name is too long'}")


def _wrong(value: Any, levels: int) -> str | None:
    """Return what is wrong with a value from JSON, None if nothing is."""
    if isinstance(value, str):
        return f"longer than {LONGEST_TEXT:,} characters" if len(value) > LONGEST_TEXT else None
    if type(value) is int:
        return None if SMALLEST <= value <= LARGEST else f"{shown(value)} is a whole number of more than 64 bits"
    if isinstance(value, list | dict):
        if not levels:
            return f"more than {DEEPEST} lists and objects within each other"
        inside = (*value, *value.values()) if isinstance(value, dict) else value
        return next((wrong for each in inside if (wrong := _wrong(each, levels - 1))), None)
    return None


class SmallBodies:
    """Lets an app read the bodies of all routes but the hot ones within limits too, before anything else is done."""

    def __init__(self, app: ASGIApp, hot: Collection[str]) -> None:
        self._app, self._hot = app, frozenset(hot)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or refuse it."""
        if scope["type"] != "http" or scope["path"] in self._hot:
            await self._app(scope, receive, send)
            return
        try:
            body: bytes | None = await read_body(Request(scope, receive), MOST_SMALL_BYTES)
        except Refused as refused:
            await problem_of(refused)(scope, receive, send)
            return

        async def again() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message, body = {"type": "http.request", "body": body, "more_body": False}, None
            return message

        await self._app(scope, again, send)
