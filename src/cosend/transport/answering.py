"""The side that answers, the same in every form of a link: bytes of a peer in, bytes for it out, never an error.

Whatever is wrong, with the message, with the caller or with the answer, is a refusal with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cosend.checks import check_number, check_whole
from cosend.errors import CosendError, in_one_line, shown
from cosend.transport import codec as messages
from cosend.transport.link import Counts, Handler, What

MOST_CALLERS: Final = 10_000  # that are counted: names cost nothing where anybody may call


@dataclass(frozen=True, slots=True)
class Limits:
    """What one site allows its peers.

    callers       who is answered; None for everybody
    in_flight     messages of one caller that are worked on at once
    per_second    messages of one caller in a second, and as many at once after a while without any
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
class _Caller:
    left: float  # of the messages that it may send now
    since: float
    in_flight: int = 0


class Guard:
    """Who may come in."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._callers: dict[str, _Caller] = {}

    def enter(self, name: str) -> str | None:
        """Let a message of a caller in, or return why not. Whoever came in has to `leave`."""
        limits = self._limits
        if limits.callers is not None and name not in limits.callers:
            return f"{shown(name)} is not one of the sites that are answered here"
        caller, now = self._caller(name), self._clock()
        caller.left = min(max(1.0, limits.per_second), caller.left + (now - caller.since) * limits.per_second)
        caller.since = now
        if caller.in_flight >= limits.in_flight:
            return f"too many messages of {shown(name)} at once: at most {limits.in_flight:,} are worked on"
        if caller.left < 1.0:
            return f"too many messages of {shown(name)}: at most {limits.per_second:g} in a second"
        caller.left -= 1.0
        caller.in_flight += 1
        return None

    def leave(self, name: str) -> None:
        """Take note that a message has been answered."""
        self._callers[name].in_flight -= 1

    def _caller(self, name: str) -> _Caller:
        caller = self._callers.get(name)
        if caller is None:
            if len(self._callers) >= MOST_CALLERS:
                self._callers = {known: each for known, each in self._callers.items() if each.in_flight}
            caller = self._callers[name] = _Caller(max(1.0, self._limits.per_second), self._clock())
        return caller


class _Patience:
    """Ends what takes too long. One timer for all: `asyncio.timeout` costs as much as the rest of an answer."""

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self._limit_s, self._clock = limit_s, clock
        self._running: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._running[_this_task()] = self._clock()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limit_s / 4, self._give_up)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task = _this_task()
        del self._running[task]
        if task in self._late:
            self._late.remove(task)
            if task.uncancel() == 0 and kind is asyncio.CancelledError:  # nobody else has cancelled it
                raise messages.Refusal(f"it took longer than {self._limit_s:g} s")

    def _give_up(self) -> None:
        self._timer = None
        now = self._clock()
        for task, since in self._running.items():
            if now - since > self._limit_s and task not in self._late:
                self._late.add(task)
                task.cancel()
        if self._running:
            self._timer = asyncio.get_running_loop().call_later(self._limit_s / 4, self._give_up)


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - for the type checker
    return task


class Server:
    """Answers what peers send to a site."""

    def __init__(self, site: str, handler: Handler, limits: Limits, counts: Counts, clock: Callable[[], float]) -> None:
        self._site, self._handler, self._limits, self._counts = site, handler, limits, counts
        self._guard = Guard(limits, clock)
        self._patience = _Patience(limits.answer_s, clock)

    async def answer(self, what: What, caller: str, data: bytes, longest: int) -> bytes:
        """Return the answer to a message that came from a caller, of so many bytes at most."""
        refused = self._guard.enter(caller)
        if refused is not None:
            return self._refusal(refused)
        try:
            with self._patience:
                answer = await self._answer(what, caller, data)
        except messages.BrokenMessage as error:
            self._counts.broken += 1
            self._counts.foreign += isinstance(error, messages.ForeignMessage)
            return self._refusal(str(error))
        except CosendError as error:
            return self._refusal(str(error))
        except Exception as error:  # a handler may raise anything, and the peer has to hear of it
            return self._refusal(in_one_line(error))
        finally:
            self._guard.leave(caller)
        if len(answer) > longest:
            return self._refusal(f"the answer has {len(answer):,} bytes; at most {longest:,} can be sent")
        self._counts.served += 1
        return answer

    async def _answer(self, what: What, caller: str, data: bytes) -> bytes:
        if what == "call":
            call = messages.read_call(data)
            self._check(call.peer, call.caller, caller)
            answered = await self._handler.call(call)
            return messages.answered_bytes(answered)
        if what == "post":
            peer, named, forwards = messages.read_post(data)
            self._check(peer, named, caller)
            await self._handler.post(caller, forwards)
            return messages.taken_bytes(len(forwards))
        named, contexts = messages.read_ask(data)
        self._check(self._site, named, caller)
        return messages.report_bytes(await self._handler.report(caller, contexts))

    def _check(self, peer: str, named: str, caller: str) -> None:
        """Raise unless a message is for this site, and from whom it came: a broker lets sites use their names only."""
        if peer != self._site:
            raise messages.Refusal(f"the message is for {shown(peer)}; this is {shown(self._site)}")
        if named != caller:
            raise messages.Refusal(f"the message says it is from {shown(named)}, but came from {shown(caller)}")

    def _refusal(self, reason: str) -> bytes:
        self._counts.refused += 1
        return messages.refusal_bytes(reason)
