"""Messages between sites as bytes: one byte for the version, then msgpack.

    message = version | [field, field, ...]
    refusal = 0 | the reason, as text

A refusal looks the same in every version, so that sites of different versions can tell each other why they do not work
together. Which message it is follows from where it arrives. Fields are columns with an entry for each question or
label. Labels, items and contexts are carried exactly, as in the log (`engine/events.py`). Pure functions: they know no
network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from cosend.algorithm.values import LabelledData
from cosend.engine.events import ENCODER, SCALARS, Unfit, extension, plain, plain_column
from cosend.engine.needs import FORWARD, QUESTION, REPLY, Call, Forward, Reply, Rows, columns_of
from cosend.errors import LONGEST_SENTENCE, NetworkError, cut
from cosend.version import VERSION as RELEASE

VERSION: Final = 1
REFUSAL: Final = 0
NEWS: Final = "news"  # their key in an announcement
MOST: Final = 4_096  # questions, labels or contexts of one message
LONGEST_NAME: Final = 200
LONGEST_AXIS: Final = 2_000

What = Literal["call", "report", "post"]
KINDS: Final[tuple[What, ...]] = ("call", "report", "post")
Context = tuple[Any, ...]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Wholes = Annotated[list[Whole], Meta(max_length=MOST)]
Values = Annotated[list[Any], Meta(max_length=MOST)]
Contexts = Annotated[list[Context], Meta(max_length=MOST)]
Axes = Annotated[tuple[Annotated[str, Meta(max_length=LONGEST_AXIS)], ...], Meta(max_length=MOST)]
Flags = Annotated[list[bool], Meta(max_length=MOST)]
Scores = Annotated[list[Annotated[float, Meta(ge=0, le=1)] | None], Meta(max_length=MOST)]
Failures = Annotated[list[Annotated[str, Meta(max_length=LONGEST_SENTENCE)] | None], Meta(max_length=MOST)]
_PREFIX: Final = bytes([VERSION])
_LABELLED: Final = partial(tuple.__new__, LabelledData)  # three times faster than by calling the class


class Answered(NamedTuple):
    """The result of a call: a reply for each question, and as many reports of the peer's labelled data, or none.

    A report is about the context of the question at the same position.
    """

    replies: Sequence[Reply]
    reports: Sequence[LabelledData] = ()


class Announcement(Struct, frozen=True):
    """The announcement of a site: its axes in words, how many local classifiers it has, and what a call costs."""

    site: Name
    context: Annotated[tuple[str, ...], Meta(max_length=MOST)]
    functions: Annotated[int, Meta(ge=0, le=2**31)]
    cost: Annotated[float, Meta(ge=0, le=1)] = 0.0
    version: Name = RELEASE


class BrokenMessage(NetworkError):
    """Bytes that are no message, or not the one that is expected."""


class ForeignMessage(BrokenMessage):
    """A message of another version."""


class Refusal(NetworkError):
    """A peer that says why it will not."""


class UnfitMessage(NetworkError):
    """A message that cannot be sent: it is too long, or msgpack cannot carry what is in it."""


class _Packed(Struct, array_like=True, forbid_unknown_fields=True):
    pass


class _Call(_Packed):
    peer: Name
    caller: Name
    axes: Axes | None  # of the contexts
    requests: Wholes
    items: Values
    contexts: Contexts
    training: Flags
    labelled: Flags


class _Answered(_Packed):
    labels: Values
    failures: Failures
    arrivals: Wholes
    taught: Wholes


class _Post(_Packed):
    peer: Name
    caller: Name
    requests: Wholes
    truths: Values
    withdrawn: Flags
    scores: Scores = []  # None for a label; empty if there are none


class _Taken(_Packed):
    count: Whole


class _Ask(_Packed):
    caller: Name
    contexts: Contexts


class _Report(_Packed):
    arrivals: Wholes
    taught: Wholes


P = TypeVar("P", bound=_Packed)
_DECODERS: Final[Mapping[type[_Packed], msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(kind, ext_hook=extension) for kind in (_Call, _Answered, _Post, _Taken, _Ask, _Report)
}


def call_bytes(call: Call) -> bytes:
    """Return a call as bytes."""
    requests, items, contexts, training, labelled = _columns(call.questions, 5)
    told = call.peer, call.caller, call.axes, [*requests]  # mostly a range
    return _encoded(lambda: _Call(*told, plain_column(items), _plain_rows(contexts), training, labelled))


def read_call(data: bytes) -> Call:
    """Return the call that was made bytes."""
    packed = _decoded(data, _Call)
    columns = packed.requests, packed.items, packed.contexts, packed.training, packed.labelled
    return Call(packed.peer, packed.caller, _rows("questions", QUESTION, columns), packed.axes)


def answered_bytes(answered: Answered) -> bytes:
    """Return replies, and the reports that ride along, as bytes."""
    labels, failures = _columns(answered.replies, 2)
    shortened = [reason and cut(reason, LONGEST_SENTENCE // 2) for reason in failures]
    return _encoded(lambda: _Answered(plain_column(labels), shortened, *_columns(answered.reports, 2)))


def read_answered(data: bytes, count: int) -> Answered:
    """Return the replies to this many questions."""
    packed = _decoded(data, _Answered)
    reports = _rows("reports", _LABELLED, (packed.arrivals, packed.taught), count if packed.arrivals else None)
    return Answered(_rows("replies", REPLY, (packed.labels, packed.failures), count), reports)


def post_bytes(peer: str, caller: str, forwards: Sequence[Forward]) -> bytes:
    """Return labels of a caller for a peer as bytes."""
    peers, callers, requests, truths, withdrawn, scores = _columns(forwards, 6)
    if set(peers) - {peer} or set(callers) - {caller}:
        raise UnfitMessage(f"some of the labels are not from {caller!r} for {peer!r}")
    given = [] if all(score is None for score in scores) else scores
    return _encoded(lambda: _Post(peer, caller, requests, plain_column(truths), withdrawn, given))


def read_post(data: bytes) -> tuple[str, str, Sequence[Forward]]:
    """Return the receiver of labels, the sender, and the labels."""
    packed = _decoded(data, _Post)
    peer, caller, count = packed.peer, packed.caller, len(packed.requests)
    named, scores = ([peer] * count, [caller] * count), packed.scores or [None] * count
    columns = *named, packed.requests, packed.truths, packed.withdrawn, scores
    return peer, caller, _rows("labels", FORWARD, columns)


def taken_bytes(count: int) -> bytes:
    """Return the acknowledgement of this many labels as bytes."""
    return _encoded(lambda: _Taken(count))


def read_taken(data: bytes, count: int) -> None:
    """Raise unless this many labels are acknowledged."""
    _check_count("labels", _decoded(data, _Taken).count, count)


def ask_bytes(caller: str, contexts: Sequence[Context]) -> bytes:
    """Return the question how much labelled data there is around contexts as bytes."""
    return _encoded(lambda: _Ask(caller, _plain_rows(contexts)))


def read_ask(data: bytes) -> tuple[str, list[Context]]:
    """Return who asks how much labelled data there is, and around which contexts."""
    packed = _decoded(data, _Ask)
    return packed.caller, packed.contexts


def report_bytes(reports: Sequence[LabelledData]) -> bytes:
    """Return how much labelled data there is as bytes."""
    return _encoded(lambda: _Report(*_columns(reports, 2)))


def read_report(data: bytes, count: int) -> Sequence[LabelledData]:
    """Return how much labelled data there is around this many contexts."""
    packed = _decoded(data, _Report)
    return _rows("reports", _LABELLED, (packed.arrivals, packed.taught), count)


def refusal_bytes(reason: str) -> bytes:
    """Return a refusal as bytes, in every version the same."""
    return bytes([REFUSAL]) + cut(reason, LONGEST_SENTENCE // 2).encode(errors="backslashreplace")


def announcement_texts(announcement: Announcement) -> dict[str, str]:
    """Return an announcement as texts by name, as services of NATS announce themselves."""
    told = msgspec.structs.asdict(announcement)
    told |= {"wire": VERSION, "context": msgspec.json.encode(announcement.context).decode()}
    return {name: str(value) for name, value in told.items()}


def read_announcement(texts: Mapping[str, str]) -> Announcement:
    """Return the announcement of a site."""
    wire = texts.get("wire", "")
    if wire.isdecimal() and wire != str(VERSION):  # whatever another version has in other places
        raise ForeignMessage(_other_version(f"version {cut(wire, LONGEST_NAME)}"))
    try:
        told = {**texts, "context": msgspec.json.decode(texts["context"])}
        announcement = msgspec.convert(told, Announcement, strict=False)
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise BrokenMessage(f"it is not an announcement: {error}") from error
    if wire != str(VERSION):
        raise BrokenMessage("it is not an announcement: it has no version of the encoding")
    return announcement


def _other_version(found: str) -> str:
    return f"the message has {found} of the encoding; this cosend reads version {VERSION}"


def _encoded(pack: Callable[[], _Packed]) -> bytes:
    try:
        return _PREFIX + ENCODER.encode(pack())
    except (Unfit, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnfitMessage(str(error)) from error


def _decoded(data: bytes, kind: type[P]) -> P:
    version = data[0] if data else None
    if version == REFUSAL:
        raise Refusal(data[1 : 1 + LONGEST_SENTENCE].decode(errors="replace") or "it gives no reason")
    if version != VERSION:
        raise ForeignMessage(_other_version("no version" if version is None else f"version {version}"))
    try:
        packed: P = _DECODERS[kind].decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BrokenMessage(f"the bytes are not the message that belongs here: {error}") from error
    return packed


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Sequence[Any]:
    _check_most(rows)
    return columns_of(rows, width)


def _plain_rows(rows: Sequence[tuple[Any, ...]]) -> Any:
    _check_most(rows)
    are_plain = SCALARS.issuperset(map(type, chain.from_iterable(rows)))
    return rows if are_plain else [tuple(map(plain, row)) for row in rows]


def _check_most(rows: Sequence[Any]) -> None:
    if len(rows) > MOST:
        raise UnfitMessage(f"it has {len(rows):,} entries; at most {MOST:,} go in one message")


def _rows(
    what: str, make: Callable[[Iterable[Any]], Any], columns: Sequence[Sequence[Any]], count: int | None = None
) -> Rows[Any]:
    """Return columns that were read as rows, or raise if their lengths are not what they must be."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise BrokenMessage(f"its columns differ in length: {lengths}")
    if count is not None:
        _check_count(what, lengths[0], count)
    return Rows(make, *columns)


def _check_count(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise BrokenMessage(f"it has {found:,} {what} instead of {expected:,}")
