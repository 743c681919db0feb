"""The side that answers, the same in every form of a link: bytes of a peer in, bytes for it out, never an error.

Whatever is wrong, with the message, with the caller or with the answer, is a refusal with its reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cosend.algorithm.values import LabelledData
from cosend.checks import check_number, check_whole
from cosend.engine.needs import Call, Forward
from cosend.errors import CosendError, in_one_line, shown
from cosend.transport import codec
from cosend.transport.codec import Answered, Context, Refusal, What

MOST_CALLERS: Final = 10_000  # that are counted: names cost nothing where anybody may call


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one site for its peers.

    callers       sites that are answered; None for all
    in_flight     messages of one caller that are worked on at once
    per_second    messages of one caller in a second, and as many at once after a pause
    answer_s      how long an answer may take before it is given up, so that none takes a place for ever
    """

    callers: frozenset[str] | None = None
    in_flight: int = 256
    per_second: float = 100_000.0
    answer_s: float = 60.0

    def __post_init__(self) -> None:
        check_whole("in_flight", self.in_flight, least=1, most=10**6)
        check_number("per_second", self.per_second, 1e9)
        check_number("answer_s", self.answer_s, 86_400.0)


@dataclass(slots=True)
class Counts:
    """The traffic of a link so far."""

    sent: int = 0
    failed: int = 0  # of those sent, whatever the reason
    served: int = 0
    refused: int = 0  # messages of peers that were refused, with a reason
    broken: int = 0  # messages and announcements that could not be read
    foreign: int = 0  # of these, those of another version

    def note_broken(self, error: BaseException | None) -> None:
        """Count something that could not be read."""
        self.broken += 1
        self.foreign += isinstance(error, codec.ForeignMessage)


class Handler(Protocol):
    """The services of a site for its peers. An error is a refusal, and its text the reason for the peer."""

    async def call(self, call: Call) -> Answered:
        """Label items; those that will be taught are committed before this returns."""
        ...

    async def report(self, caller: str, contexts: Sequence[Context]) -> Sequence[LabelledData]:
        """Tell how much labelled data there is around each of the contexts."""
        ...

    async def post(self, caller: str, forwards: Sequence[Forward]) -> None:
        """Store labels, each (caller, request) once however often it comes."""
        ...


@dataclass(slots=True)
class _Caller:
    left: float  # of the messages that it may send now
    since: float
    in_flight: int = 0


class Server:
    """Answers what peers send to a site."""

    def __init__(self, site: str, handler: Handler, limits: Limits, counts: Counts) -> None:
        self._site, self._handler, self._limits, self._counts = site, handler, limits, counts
        self._callers: dict[str, _Caller] = {}

    async def answer(self, what: What, name: str, data: bytes, longest: int) -> bytes:
        """Return the answer to a message of a caller, of this many bytes at most."""
        try:
            caller = self._let_in(name)
        except Refusal as refusal:
            return self._refusal(str(refusal))
        try:
            async with asyncio.timeout(self._limits.answer_s) as patience:
                answer = await self._answer(what, name, data)
        except CosendError as error:
            if isinstance(error, codec.BrokenMessage):
                self._counts.note_broken(error)
            return self._refusal(str(error))
        except Exception as error:  # a handler may raise anything, and the peer has to hear of it
            late = isinstance(error, TimeoutError) and patience.expired()
            return self._refusal(f"it took longer than {self._limits.answer_s:g} s" if late else in_one_line(error))
        finally:
            caller.in_flight -= 1
        if len(answer) > longest:
            return self._refusal(f"the answer has {len(answer):,} bytes; at most {longest:,} can be sent")
        self._counts.served += 1
        return answer

    def _let_in(self, name: str) -> _Caller:
        """Return a caller that may send a message now, or raise why not."""
        limits, now = self._limits, time.monotonic()
        if limits.callers is not None and name not in limits.callers:
            raise Refusal(f"{shown(name)} is not one of the sites that are answered here")
        most = max(1.0, limits.per_second)
        caller = self._callers.get(name)
        if caller is None:
            if len(self._callers) >= MOST_CALLERS:
                self._callers = {known: each for known, each in self._callers.items() if each.in_flight}
            caller = self._callers[name] = _Caller(most, now)
        caller.left, caller.since = min(most, caller.left + (now - caller.since) * limits.per_second), now
        if caller.in_flight >= limits.in_flight:
            raise Refusal(f"too many messages of {shown(name)} at once: at most {limits.in_flight:,} are worked on")
        if caller.left < 1.0:
            raise Refusal(f"too many messages of {shown(name)}: at most {limits.per_second:g} in a second")
        caller.left -= 1.0
        caller.in_flight += 1
        return caller

    async def _answer(self, what: What, caller: str, data: bytes) -> bytes:
        if what == "call":
            call = codec.read_call(data)
            self._check(call.peer, call.caller, caller)
            return codec.answered_bytes(await self._handler.call(call))
        if what == "post":
            peer, named, forwards = codec.read_post(data)
            self._check(peer, named, caller)
            await self._handler.post(caller, forwards)
            return codec.taken_bytes(len(forwards))
        named, contexts = codec.read_ask(data)
        self._check(self._site, named, caller)
        return codec.report_bytes(await self._handler.report(caller, contexts))

    def _check(self, peer: str, named: str, caller: str) -> None:
        """Raise unless a message is for this site, and its sender's name is true: a broker checks names."""
        if peer != self._site:
            raise Refusal(f"the message is for {shown(peer)}; this is {shown(self._site)}")
        if named != caller:
            raise Refusal(f"the message says it is from {shown(named)}, but came from {shown(caller)}")

    def _refusal(self, reason: str) -> bytes:
        self._counts.refused += 1
        return codec.refusal_bytes(reason)
