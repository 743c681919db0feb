"""The bodies of the two hot routes: within limits, decoded by msgspec."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Annotated, Final, TypeVar

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosend.service.problems import Refused, problem_of

MOST_BYTES: Final = 32 * 2**20  # of a body
MOST_SMALL_BYTES: Final = 2**16  # of a body on the other routes
MOST_TOGETHER: Final = 2**27  # of all bodies that are being read; those that are small are not counted
BODY_S: Final = 30.0  # to send it
JSON: Final = b"application/json"
CLOSE: Final = {"Connection": "close"}
IN_A_TURN: Final = 2**18  # bytes of a body that are decoded in one turn of the loop
MOST_ITEMS: Final = 10_000
MOST_FEATURES: Final = 2_000
LONGEST_TEXT: Final = 100_000  # characters of a feature or a label
LONGEST_ID: Final = 200
WHOLE: Final = 2**63  # whole numbers lie between this and its negative: others cannot be written down exactly

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Whole = Annotated[int, msgspec.Meta(ge=-WHOLE, le=WHOLE - 1)]
Scalar = Text | Whole | float | bool | None
# Lists in lists, or objects, but no deeper: what comes from outside is handed to models, and may be written down.
Feature = Text | Whole | float | bool | list[Scalar | list[Scalar]] | dict[Text, Scalar] | None
Features = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=1_000)], Feature], msgspec.Meta(max_length=MOST_FEATURES)
]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item that is to be labelled."""

    features: Features
    id: Id | None = None


class Classify(msgspec.Struct, forbid_unknown_fields=True):
    """Items that are to be labelled."""

    items: Annotated[list[Item], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]


class Truth(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The true label of a decision."""

    id: Id
    label: Scalar
    cost: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class Labels(msgspec.Struct, forbid_unknown_fields=True):
    """True labels."""

    labels: Annotated[list[Truth], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]
    wait_for_peers: bool = False


class Unread(msgspec.Struct, forbid_unknown_fields=True):
    """The same items before anybody has looked into them."""

    items: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]


T = TypeVar("T")
Headers = dict[bytes, bytes]
CLASSIFY: Final = msgspec.json.Decoder(Classify)
LABELS: Final = msgspec.json.Decoder(Labels)
UNREAD: Final = msgspec.json.Decoder(Unread)
ITEM: Final = msgspec.json.Decoder(Item)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, name: str = "the body") -> T:
    """Return what a body, or what else is named, says, or refuse it with the place that is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refused(422, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"{name} is not JSON: {error}") from error
    except RecursionError:
        raise Refused(422, "too many lists and objects within each other") from None


async def read_items(body: bytes) -> list[Item]:
    """Return the items of a body. A long one is read in several turns of the loop: it may take half a second."""
    if len(body) <= IN_A_TURN:
        return decoded(CLASSIFY, body).items
    items, count = list[Item](), 0
    for number, unread in enumerate(decoded(UNREAD, body).items):
        if count > IN_A_TURN:
            await asyncio.sleep(0)
            count = 0
        count += len(unread)
        try:
            items.append(decoded(ITEM, unread, f"item {number} of the body"))
        except Refused as refused:
            place = f"$.items[{number}]"  # where it would be said to be if all were read at once
            detail = refused.detail.replace("`$", f"`{place}", 1)
            raise Refused(refused.status, detail if place in detail else f"{detail} - at `{place}`") from refused
    return items


def check_json(content_type: bytes | None) -> None:
    """Raise unless a body says that it is JSON, which no form of a web page can say."""
    if content_type == JSON:
        return
    kind = (content_type or b"").partition(b";")[0].strip().lower()
    if kind != JSON and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise Refused(415, "the body must be JSON, and say so: Content-Type: application/json")


class Room:
    """The memory for bodies that are being read, of all clients together.

    Clients that send half of a long body, and then nothing, take no more than this. Small bodies always have room, so
    that such clients shut nobody out.
    """

    def __init__(self) -> None:
        self._taken = 0

    def take(self, count: int) -> None:
        """Take some bytes, or refuse the body that they belong to."""
        if self._taken + count > MOST_TOGETHER:
            detail = f"clients are sending more than {MOST_TOGETHER:,} bytes at once: try again later"
            raise Refused(503, detail, {"Retry-After": "1"})
        self._taken += count

    def give_back(self, count: int) -> None:
        """Give bytes back."""
        self._taken -= count


async def read_body(headers: Headers, receive: Receive, room: Room | None, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the body of a request; one that is too long or too slow, or finds no room, is refused."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise Refused(400, "the length of the body is not a number", CLOSE)
    if len(length) > 18 or int(length) > most_bytes:
        raise Refused(413, f"the body has more than {most_bytes:,} bytes", CLOSE)
    count = taken = 0
    parts: list[bytes] = []
    message: Message = {"more_body": True}
    try:
        with _InTime():
            while message.get("more_body"):
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the connection was closed before the body was there")
                parts.append(message.get("body", b""))
                count += len(parts[-1])
                if count > most_bytes:
                    raise Refused(413, f"the body has more than {most_bytes:,} bytes", CLOSE)
                if count > MOST_SMALL_BYTES and room is not None:
                    room.take(count - taken)
                    taken = count
    finally:
        if taken and room is not None:
            room.give_back(taken)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class _InTime:
    """As `asyncio.timeout`, for a third of its time: every request goes through here."""

    __slots__ = ("_cancels", "_is_late", "_task", "_timer")

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is a task
        self._is_late, self._task, self._cancels = False, task, task.cancelling()
        self._timer = asyncio.get_running_loop().call_later(BODY_S, self._give_up)

    def _give_up(self) -> None:
        self._is_late = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._timer.cancel()
        if self._is_late and self._task.uncancel() <= self._cancels and kind is asyncio.CancelledError:
            raise Refused(408, f"the body did not come within {BODY_S:g} s", CLOSE) from None


class SmallBodies:
    """Lets an app read bodies within limits too, before anything else is done."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body: bytes | None = await read_body(dict(scope["headers"]), receive, None, MOST_SMALL_BYTES)
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
