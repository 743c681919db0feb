"""What travels between sites, as bytes: one byte for the version, then msgpack.

    message = version | [number of the kind, field, field, ...]
    refusal = 0 | the reason, as text

A refusal looks the same in every version, so that sites of different versions can tell each other why they do not work
together. Fields are columns with an entry for each question or label. Labels, items and contexts are carried exactly
(`site/values.py`). Pure functions: they know of no network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from cosend.algorithm.values import LabelledData
from cosend.engine.events import ENCODER, SCALARS, Unfit, extension, plain, plain_column
from cosend.engine.needs import FORWARD, QUESTION, REPLY, Call, Forward, Rows, columns_of
from cosend.errors import LONGEST_SENTENCE, NetworkError, cut
from cosend.transport.link import Announcement, Answered

VERSION: Final = 1
REFUSAL: Final = 0
NEWS: Final = "news"  # the name under which they stand beside an announcement
MOST: Final = 4_096  # questions, labels or contexts of one message
LONGEST_NAME: Final = 200
LONGEST_AXIS: Final = 2_000
TRAINING: Final = 1
LABELLED: Final = 2
WITHDRAWN: Final = 1

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Wholes = Annotated[list[Whole], Meta(max_length=MOST)]
Values = Annotated[list[Any], Meta(max_length=MOST)]
Contexts = Annotated[list[tuple[Any, ...]], Meta(max_length=MOST)]
Names = Annotated[tuple[Annotated[str, Meta(max_length=LONGEST_AXIS)], ...], Meta(max_length=MOST)]
Flags = Annotated[bytes, Meta(max_length=MOST)]
Reason = Annotated[str, Meta(max_length=LONGEST_SENTENCE)]
_PREFIX: Final = bytes([VERSION])


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


class _Call(_Packed, tag=1):
    peer: Name
    caller: Name
    requests: Wholes
    items: Values
    contexts: Contexts
    flags: Flags
    axes: Names | None = None  # of the contexts


class _Answered(_Packed, tag=2):
    labels: Values
    failed: dict[Whole, Reason]  # by place: most replies have not failed
    arrivals: Wholes
    taught: Wholes


class _Post(_Packed, tag=3):
    peer: Name
    caller: Name
    requests: Wholes
    truths: Values
    flags: Flags


class _Taken(_Packed, tag=4):
    count: Whole


class _Ask(_Packed, tag=5):
    caller: Name
    contexts: Contexts


class _Report(_Packed, tag=6):
    arrivals: Wholes
    taught: Wholes


P = TypeVar("P", bound=_Packed)
_IS_TRAINING, _IS_LABELLED = ([bool(flags & bit) for flags in range(4)] for bit in (TRAINING, LABELLED))
_FLAGS: Final = {(bool(flags & TRAINING), bool(flags & LABELLED)): flags for flags in range(4)}
_LABELLED: Final = partial(tuple.__new__, LabelledData)  # three times faster than by calling the class
_DECODER: Final = msgspec.msgpack.Decoder(_Call | _Answered | _Post | _Taken | _Ask | _Report, ext_hook=extension)


def call_bytes(call: Call) -> bytes:
    """Return a call as bytes."""
    requests, items, contexts, training, labelled = _columns(call.questions, 5)
    flags = map(_FLAGS.__getitem__, zip(training, labelled, strict=True))
    told = call.peer, call.caller, [*requests]  # mostly a range
    return _encoded(lambda: _Call(*told, plain_column(items), _plain_rows(contexts), bytes(flags), call.axes))


def read_call(data: bytes) -> Call:
    """Return the call that was made bytes."""
    packed = _decoded(data, _Call)
    flags = packed.flags
    _check_lengths(packed.requests, packed.items, packed.contexts, flags)
    _check_flags(flags, TRAINING | LABELLED)
    training, labelled = ([*map(by_flag.__getitem__, flags)] for by_flag in (_IS_TRAINING, _IS_LABELLED))
    questions = Rows(QUESTION, packed.requests, packed.items, packed.contexts, training, labelled)
    return Call(packed.peer, packed.caller, questions, packed.axes)


def answered_bytes(answered: Answered) -> bytes:
    """Return replies, and the reports that ride along, as bytes."""
    labels, failures = _columns(answered.replies, 2)
    failed = {}
    if failures.count(None) < len(failures):
        known = [(place, reason) for place, reason in enumerate(failures) if reason is not None]
        failed = {place: cut(reason, LONGEST_SENTENCE // 2) for place, reason in known}
    arrivals, taught = _columns(answered.reports, 2)
    return _encoded(lambda: _Answered(plain_column(labels), failed, arrivals, taught))


def read_answered(data: bytes, count: int) -> Answered:
    """Return the replies to so many questions."""
    packed = _decoded(data, _Answered)
    _check_count("replies", len(packed.labels), count)
    if packed.arrivals:
        _check_count("reports", len(packed.arrivals), count)
    _check_lengths(packed.arrivals, packed.taught)
    if any(place >= count for place in packed.failed):
        raise BrokenMessage(f"it has a failure in place {max(packed.failed)} of {count}")
    failures: list[str | None] = [None] * count
    for place, reason in packed.failed.items():
        failures[place] = reason
    return Answered(Rows(REPLY, packed.labels, failures), Rows(_LABELLED, packed.arrivals, packed.taught))


def post_bytes(peer: str, caller: str, forwards: Sequence[Forward]) -> bytes:
    """Return labels of a caller for a peer as bytes."""
    peers, callers, requests, truths, withdrawn = _columns(forwards, 5)
    if set(peers) - {peer} or set(callers) - {caller}:
        raise UnfitMessage(f"some of the labels are not from {caller!r} for {peer!r}")
    flags = bytes(map(bool, withdrawn))
    return _encoded(lambda: _Post(peer, caller, requests, plain_column(truths), flags))


def read_post(data: bytes) -> tuple[str, str, Sequence[Forward]]:
    """Return for whom labels are, from whom, and the labels."""
    packed = _decoded(data, _Post)
    _check_lengths(packed.requests, packed.truths, packed.flags)
    _check_flags(packed.flags, WITHDRAWN)
    peer, caller, count = packed.peer, packed.caller, len(packed.requests)
    columns = [peer] * count, [caller] * count, packed.requests, packed.truths, [*map(bool, packed.flags)]
    return peer, caller, Rows(FORWARD, *columns)


def taken_bytes(count: int) -> bytes:
    """Return the acknowledgement of so many labels as bytes."""
    return _encoded(lambda: _Taken(count))


def read_taken(data: bytes, count: int) -> None:
    """Raise unless so many labels are acknowledged."""
    _check_count("labels", _decoded(data, _Taken).count, count)


def ask_bytes(caller: str, contexts: Sequence[tuple[Any, ...]]) -> bytes:
    """Return the question how much labelled data there is around contexts as bytes."""
    return _encoded(lambda: _Ask(caller, _plain_rows(contexts)))


def read_ask(data: bytes) -> tuple[str, list[tuple[Any, ...]]]:
    """Return who asks how much labelled data there is, and around which contexts."""
    packed = _decoded(data, _Ask)
    return packed.caller, packed.contexts


def report_bytes(reports: Sequence[LabelledData]) -> bytes:
    """Return how much labelled data there is as bytes."""
    arrivals, taught = _columns(reports, 2)
    return _encoded(lambda: _Report(arrivals, taught))


def read_report(data: bytes, count: int) -> Sequence[LabelledData]:
    """Return how much labelled data there is around so many contexts."""
    packed = _decoded(data, _Report)
    _check_count("reports", len(packed.arrivals), count)
    _check_lengths(packed.arrivals, packed.taught)
    return Rows(_LABELLED, packed.arrivals, packed.taught)


def refusal_bytes(reason: str) -> bytes:
    """Return a refusal as bytes, in every version the same."""
    return bytes([REFUSAL]) + cut(reason, LONGEST_SENTENCE // 2).encode(errors="backslashreplace")


def announcement_texts(announcement: Announcement) -> dict[str, str]:
    """Return an announcement as texts by name, which is what services of NATS tell of themselves."""
    site, context, functions, cost, version = announcement
    words = msgspec.json.encode(list(context)).decode()
    texts = {"wire": VERSION, "site": site, "context": words, "functions": functions, "cost": cost, "version": version}
    return {name: str(value) for name, value in texts.items()}


class _Announced(Struct):
    site: Name
    functions: Annotated[int, Meta(ge=0, le=2**31)]
    cost: Annotated[float, Meta(ge=0, le=1)]
    version: Name
    context: str
    wire: Annotated[int, Meta(ge=VERSION, le=VERSION)]


def read_announcement(texts: Mapping[str, str]) -> Announcement:
    """Return what a site tells of itself."""
    wire = texts.get("wire", "")
    if wire.isdecimal() and wire != str(VERSION):  # whatever another version has in other places
        raise ForeignMessage(_other_version(f"version {cut(wire, LONGEST_NAME)}"))
    try:
        told = msgspec.convert(dict(texts), _Announced, strict=False)
        words = msgspec.json.decode(told.context, type=Annotated[tuple[str, ...], Meta(max_length=MOST)])
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise BrokenMessage(f"it is not an announcement: {error}") from error
    return Announcement(told.site, words, told.functions, told.cost, told.version)


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
        packed = _DECODER.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BrokenMessage(f"the bytes are not a message: {error}") from error
    if not isinstance(packed, kind):
        raise BrokenMessage(f"it is a message of the kind {type(packed).__name__[1:]}, not {kind.__name__[1:]}")
    return packed


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Sequence[Any]:
    if len(rows) > MOST:
        raise UnfitMessage(f"it has {len(rows):,} entries; at most {MOST:,} go in one message")
    return columns_of(rows, width)


def _are_plain(values: Iterable[Any]) -> bool:
    return SCALARS.issuperset(map(type, values))


def _plain_rows(rows: Sequence[tuple[Any, ...]]) -> Any:
    if len(rows) > MOST:
        raise UnfitMessage(f"it has {len(rows):,} entries; at most {MOST:,} go in one message")
    return rows if _are_plain(chain.from_iterable(rows)) else [tuple(map(plain, row)) for row in rows]


def _check_lengths(*columns: Sequence[Any]) -> None:
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise BrokenMessage(f"its columns differ in length: {lengths}")


def _check_flags(flags: bytes, allowed: int) -> None:
    if flags and max(flags) > allowed:
        raise BrokenMessage(f"it has the unknown flag {max(flags)}")


def _check_count(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise BrokenMessage(f"it has {found:,} {what} in place of {expected:,}")
