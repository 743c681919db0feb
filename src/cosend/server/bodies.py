"""The bodies of requests: read within limits, then decoded by msgspec."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from cosend.server.schema import MAX_BODY_BYTES, MAX_ITEMS, Item, Items, Labels

MAX_SMALL_BYTES: Final = 2**16  # a body of a route other than the two hot ones
MAX_ITEM_BYTES: Final = 2 * 2**20  # decoding more than this at once holds up other clients
PART_BYTES: Final = 2**18  # a longer body is decoded in parts of this size
MAX_ALL_BYTES: Final = 2**27  # all bodies that are being read, without the small ones
BODY_S: Final = 30.0  # time to send a body
JSON: Final = b"application/json"
CLOSE: Final = {"Connection": "close"}
T = TypeVar("T")
Headers = dict[bytes, bytes]


class _RawItems(msgspec.Struct, forbid_unknown_fields=True):
    items: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MAX_ITEMS)]


ITEMS, LABELS = msgspec.json.Decoder(Items), msgspec.json.Decoder(Labels)
_RAW_ITEMS, _ITEM = msgspec.json.Decoder(_RawItems), msgspec.json.Decoder(Item)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, name: str = "the body") -> T:
    """Return what a body says, or refuse it and name the place that is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise HTTPException(422, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"{name} is not JSON: {error}") from error
    except RecursionError:
        raise HTTPException(422, "too many lists and objects within each other") from None


async def decoded_items(body: bytes) -> list[Item]:
    """Return the items of a body; a long one is decoded a few items at a time, so that others get their turn."""
    if len(body) <= PART_BYTES:
        return decoded(ITEMS, body).items
    items, size = list[Item](), 0
    for index, part in enumerate(decoded(_RAW_ITEMS, body).items):
        if len(part) > MAX_ITEM_BYTES:
            raise HTTPException(413, f"an item may have {MAX_ITEM_BYTES:,} bytes, and items.{index} has {len(part):,}")
        size += len(part)
        if size > PART_BYTES:
            await asyncio.sleep(0)
            size = 0
        try:
            items.append(decoded(_ITEM, part))
        except HTTPException as refused:
            raise HTTPException(refused.status_code, _within(refused.detail, f"$.items[{index}]")) from refused
    return items


def _within(detail: str, place: str) -> str:
    """Return an error about a part of a body, with its place in the whole body."""
    return detail.replace("`$", f"`{place}") if "`$" in detail else f"{detail} - at `{place}`"


def check_json(content_type: bytes | None) -> None:
    """Raise unless a body is declared as JSON, which a form on a web page cannot do."""
    if content_type == JSON:
        return
    kind = (content_type or b"").partition(b";")[0].strip().lower()
    if kind != JSON and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise HTTPException(415, "the body must be JSON, with the header Content-Type: application/json")


class Room:
    """The memory for bodies that are being read, for all clients together.

    Clients that send half of a long body, and then nothing, take no more than this. Small bodies always have room, so
    that such clients shut no other client out.
    """

    def __init__(self) -> None:
        self._taken = 0

    async def read(self, headers: Headers, receive: Receive, max_bytes: int = MAX_BODY_BYTES) -> bytes:
        """Return the body of a request; one that is too long or too slow, or finds no room, is refused."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise HTTPException(400, "the length of the body is not a number", CLOSE)
        if len(length) > 18 or int(length) > max_bytes:
            raise _too_long(max_bytes)
        count = taken = 0
        parts: list[bytes] = []
        message: Message = {"more_body": True}
        try:
            async with asyncio.timeout(BODY_S):
                while message.get("more_body"):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPException(400, "the connection was closed before the body was complete")
                    parts.append(message.get("body", b""))
                    count += len(parts[-1])
                    if count > max_bytes:
                        raise _too_long(max_bytes)
                    if count > MAX_SMALL_BYTES:
                        self._take(count - taken)
                        taken = count
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {BODY_S:g} s", CLOSE) from None
        finally:
            self._taken -= taken
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, count: int) -> None:
        if self._taken + count > MAX_ALL_BYTES:
            detail = f"clients are sending more than {MAX_ALL_BYTES:,} bytes at once: try again later"
            raise HTTPException(503, detail, {"Retry-After": "1"})
        self._taken += count


def _too_long(max_bytes: int) -> HTTPException:
    return HTTPException(413, f"the body has more than {max_bytes:,} bytes: send it as several requests", CLOSE)
