"""Messages between sites as bytes: they come back exactly, and what is no message is a clear error."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import Call, Forward, Question, Reply
from cosend.errors import LONGEST_SENTENCE, CosendError, NetworkError
from cosend.transport import codec as messages
from cosend.transport.codec import Announcement, Answered

TEXT = st.text(max_size=6)
NAMES = st.text(min_size=1, max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXT | st.binary(max_size=4)
KEYS = st.none() | st.booleans() | st.integers(-9, 9) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
WHOLE = st.integers(0, 2**63 - 1)
CONTEXTS = st.lists(VALUES, max_size=3).map(tuple)
QUESTIONS = st.builds(Question, WHOLE, VALUES, CONTEXTS, st.booleans(), st.booleans())
CALLS = st.builds(Call, NAMES, NAMES, st.lists(QUESTIONS, max_size=4))
REPORTS = st.builds(LabelledData, WHOLE, WHOLE)
REPLIES = st.builds(Reply, VALUES, st.none() | TEXT)
ANNOUNCEMENTS = st.builds(
    Announcement, NAMES, st.lists(TEXT, max_size=3).map(tuple), st.integers(0, 2**31), st.floats(0, 1), NAMES
)


@given(call=CALLS, axes=st.none() | st.lists(TEXT, max_size=2).map(tuple))
def test_a_call_comes_back_exactly(call: Call, axes: tuple[str, ...] | None) -> None:
    call = call._replace(axes=axes)
    assert repr(messages.read_call(messages.call_bytes(call))) == repr(call)


@given(
    rows=st.lists(st.tuples(REPLIES, REPORTS, WHOLE, VALUES, st.booleans(), CONTEXTS), max_size=4),
    reports=st.booleans(),
    peer=NAMES,
    caller=NAMES,
)
def test_all_other_messages_come_back_exactly(rows: list[Any], reports: bool, peer: str, caller: str) -> None:
    labelled, contexts = [row[1] for row in rows], [row[5] for row in rows]
    answered = Answered([row[0] for row in rows], labelled if reports else [])
    assert repr(messages.read_answered(messages.answered_bytes(answered), len(rows))) == repr(answered)
    scores = [None if reports else 0.5 for _ in rows]
    forwards = [Forward(peer, caller, *row[2:5])._replace(score=score) for row, score in zip(rows, scores, strict=True)]
    assert repr(messages.read_post(messages.post_bytes(peer, caller, forwards))) == repr((peer, caller, forwards))
    messages.read_taken(messages.taken_bytes(len(rows)), len(rows))
    assert repr(messages.read_ask(messages.ask_bytes(caller, contexts))) == repr((caller, contexts))
    assert messages.read_report(messages.report_bytes(labelled), len(rows)) == labelled


@given(announcement=ANNOUNCEMENTS)
def test_an_announcement_comes_back_exactly(announcement: Announcement) -> None:
    assert messages.read_announcement(messages.announcement_texts(announcement)) == announcement


READERS: list[Callable[[bytes], object]] = [
    messages.read_call,
    messages.read_post,
    messages.read_ask,
    lambda data: messages.read_answered(data, 1),
    lambda data: messages.read_taken(data, 1),
    lambda data: messages.read_report(data, 1),
]
EXAMPLES = [
    messages.call_bytes(Call("south", "north", [Question(7, {"age": 3, "p": (1, 2)}, (0.5, "x"), True, False)])),
    messages.answered_bytes(Answered([Reply((1, "x"), "failed")], [LabelledData(3, 4)])),
    messages.post_bytes("south", "north", [Forward("south", "north", 7, [1.0, None], False)]),
    messages.taken_bytes(1),
    messages.ask_bytes("north", [(0.5, b"x")]),
    messages.report_bytes([LabelledData(3, 4)]),
    messages.refusal_bytes("another context"),
]


def spoilt(data: bytes, luck: random.Random) -> bytes:
    """Return a message with some bytes changed, added or left out."""
    spoilt = bytearray(data)
    for _ in range(luck.randint(1, 4)):
        place = luck.randrange(1, len(spoilt) + 1) if luck.random() < 0.9 else 0
        match luck.randrange(4):
            case 0:
                spoilt[place : place + 1] = bytes([luck.randrange(256)])
            case 1:
                spoilt[place:place] = luck.randbytes(luck.randint(1, 4))
            case 2:
                del spoilt[place : place + luck.randint(1, 4)]
            case _:
                spoilt[place : place + 4] = luck.choice((b"\xdd\xff\xff\xff\xff", b"\xc9\0\0\0\2", b"\x91" * 40))
        if not spoilt:
            break
    return bytes(spoilt)


def read_or_refused(data: bytes) -> int:
    """Let all readers read bytes; returns how many could. Whatever else they raise fails the test."""
    read = 0
    for reader in READERS:
        try:
            reader(data)
            read += 1
        except NetworkError as error:
            assert str(error)  # noqa: PT017 - both ends are allowed
    return read


@pytest.mark.parametrize("count", [2_000, pytest.param(1_000_000, marks=pytest.mark.claims)])
def test_spoilt_messages_are_read_or_refused_and_nothing_else(count: int) -> None:
    luck = random.Random(5)
    read = sum(read_or_refused(spoilt(luck.choice(EXAMPLES), luck)) for _ in range(count))
    assert 0 < read < count


@settings(max_examples=200)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refused(data)
    read_or_refused(bytes([messages.VERSION]) + data)


@settings(max_examples=200)
@given(
    texts=st.dictionaries(st.sampled_from(("wire", "site", "context", "functions", "cost", "version")), TEXT | NAMES)
)
def test_any_texts_are_an_announcement_or_refused(texts: dict[str, str]) -> None:
    try:
        messages.read_announcement({"wire": "1", "functions": "1", "cost": "0", "context": "[]", **texts})
    except messages.BrokenMessage as error:
        assert str(error)  # noqa: PT017 - both ends are allowed


def test_another_version_is_told_and_its_refusals_are_understood() -> None:
    data = bytes([messages.VERSION + 1]) + messages.taken_bytes(1)[1:]
    with pytest.raises(messages.ForeignMessage, match=r"has version 2 of the encoding; this cosend reads version 1"):
        messages.read_taken(data, 1)
    with pytest.raises(messages.ForeignMessage, match="no version"):
        messages.read_taken(b"", 1)
    texts = messages.announcement_texts(Announcement("north", (), 1))
    with pytest.raises(messages.ForeignMessage, match="version 2"):
        messages.read_announcement({**texts, "wire": "2"})
    with pytest.raises(messages.Refusal, match="we read version 9"):
        messages.read_call(messages.refusal_bytes("we read version 9"))
    with pytest.raises(messages.Refusal) as raised:
        messages.read_call(messages.refusal_bytes("\ud800" + "x" * 10**6))
    assert len(str(raised.value)) < LONGEST_SENTENCE


def bytes_of(*fields: Any) -> bytes:
    return bytes([messages.VERSION]) + msgspec.msgpack.encode(fields)


@pytest.mark.parametrize(
    ("data", "read", "said"),
    [
        (EXAMPLES[3], messages.read_call, "not the message that belongs here: .*length 8, got 1"),
        (EXAMPLES[3], lambda data: messages.read_taken(data, 2), "1 labels instead of 2"),
        (EXAMPLES[1], lambda data: messages.read_answered(data, 2), "1 re(plies|ports) instead of 2"),
        (EXAMPLES[5], lambda data: messages.read_report(data, 3), "1 reports instead of 3"),
        (bytes_of("s", "n", None, [1], [], [], [], []), messages.read_call, "differ in length"),
        (bytes_of("s", "n", None, [1], [0], [[]], [4], [True]), messages.read_call, "Expected `bool`"),
        (bytes_of("", "n", None, [], [], [], [], []), messages.read_call, "length >= 1"),
        (bytes_of("s", "n", None, [-1], [0], [[]], [True], [True]), messages.read_call, ">= 0"),
        (bytes_of("s", "n", None, [2**63], [0], [[]], [True], [True]), messages.read_call, "<= 9223372036854775807"),
        (bytes_of("s", "n", [*range(4_097)], [0] * 4_097, [True] * 4_097), messages.read_post, "length <= 4096"),
        (bytes_of([0], [None, "x"], [], []), lambda data: messages.read_answered(data, 1), "differ in length"),
        (bytes_of([0], [None], [1], []), lambda data: messages.read_answered(data, 1), "differ in length"),
        (bytes_of([-3], [1]), lambda data: messages.read_report(data, 1), ">= 0"),
        (bytes_of(1, 2), lambda data: messages.read_taken(data, 1), "length"),
    ],
)
def test_what_is_not_the_message_that_is_expected_is_told(
    data: bytes, read: Callable[[bytes], object], said: str
) -> None:
    with pytest.raises(messages.BrokenMessage, match=said):
        read(data)


def test_what_cannot_be_sent_is_told_before_it_is() -> None:
    many = [Question(1, 0, (), False, False)] * (messages.MOST + 1)
    deep: Any = []
    for _ in range(40):
        deep = [deep]
    for wrong in ([many[0]._replace(item=value) for value in (object(), 2**64, "\ud800", deep, {(1,): 2})], many):
        for questions in [[each] for each in wrong] if wrong is not many else [many]:
            with pytest.raises(messages.UnfitMessage):
                messages.call_bytes(Call("s", "n", questions))
    with pytest.raises(messages.UnfitMessage, match="not from 'n' for 's'"):
        messages.post_bytes("s", "n", [Forward("s", "x", 1, 0)])


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module("cosend.transport.nats")
    for name in [name for name in sys.modules if name.split(".")[0] == "nats"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "cosend.transport.nats")
    with pytest.raises(CosendError, match=r"need .*: pip install '\.\[network\]'"):
        import_module("cosend.transport.nats")
