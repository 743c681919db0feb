"""The clients: they carry out what `requests.py` asks for, one waiting in its thread, the other with asyncio."""

from __future__ import annotations

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final, Literal, Self, TypeVar

from cosend.client.replies import Arm, Cell, Decision, Fate, Heard, Story, Summary
from cosend.client.requests import Requests
from cosend.client.retries import Call, Lost, Outcome, Reply, Retries, Steps
from cosend.core.checks import check_number, check_whole
from cosend.errors import CosendError, SettingError, in_one_line, install

try:
    import httpx
except ImportError as error:
    raise CosendError(f"the client of a service needs httpx: {install('client')}") from error

LONGEST_S: Final = 86_400.0
HOPELESS: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)  # these fail however often they are tried
Mode = Literal["apply", "observe"]
T = TypeVar("T")


class _Common(ABC):
    """What both clients are made of."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        connect_s: float = 5.0,
        retries: int = 5,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        check_number("timeout_s", timeout_s, LONGEST_S)
        check_number("connect_s", connect_s, LONGEST_S)
        check_whole("retries", retries, least=0, most=1_000)
        self.base_url = _checked_url(base_url)
        self._requests = Requests(self.base_url, Retries(retries))
        self._open(
            base_url=self.base_url,
            headers=_headers(token),
            timeout=httpx.Timeout(timeout_s, connect=connect_s),
            verify=verify,
        )

    @abstractmethod
    def _open(self, **options: Any) -> None:
        """Open the connections."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"


class Client(_Common):
    """A client of one site's service; threads may share it. Close it, or use it in a `with`.

    base_url   where the service is, such as http://127.0.0.1:8801
    token      a bearer token that the service knows
    timeout_s  how long a reply may take
    connect_s  how long connecting may take
    retries    how often a request is sent again when it fails for a reason that may pass
    verify     whom to trust for https: True for the usual authorities, or a context of your own
    """

    def _open(self, **options: Any) -> None:
        self._http = httpx.Client(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def classify(self, item: Any, id: str | None = None) -> Decision:
        """Have one item labelled, a dict of its features, which travels as JSON; without an id it gets one here.

        Raises NoAnswer if no arm could label it.
        """
        return self._run(self._requests.classify(item, id))

    def classify_many(self, items: Iterable[Any], ids: Iterable[str | None] | None = None) -> list[Decision]:
        """Have many items labelled, as `classify` does with one.

        Raises SomeUnanswered if no arm could label some of them, which has the decisions of the others. Any number of
        items is possible, in requests of at most 10,000. If a later one of these is refused, `so_far` of the error has
        the decisions of those before it.
        """
        return self._run(self._requests.classify_many(items, ids))

    def learn(self, decision: Decision | str, truth: Any, cost: float | None = None) -> Fate:
        """Pass the true label of a decision on, and return what became of it: in any order, repeated, and late.

        decision  itself or its id
        cost      what the decision really cost, if that was not known before
        """
        return self._run(self._requests.learn(decision, truth, cost))

    def learn_many(
        self,
        decisions: Iterable[Decision | str],
        truths: Iterable[Any],
        costs: Iterable[float | None] | None = None,
        *,
        wait_for_peers: bool = False,
    ) -> Heard:
        """Pass many true labels on, as `learn` does with one.

        A label that was sent again because the first reply was lost is a duplicate then: the site has learnt it, once.
        With `wait_for_peers`, the site answers when its peers have learnt them too.
        """
        return self._run(self._requests.learn_many(decisions, truths, costs, wait_for_peers=wait_for_peers))

    def decision(self, id: str) -> Story:
        """Return a decision, what became of it, and what its cell knows now."""
        return self._run(self._requests.decision(id))

    def summary(self) -> Summary:
        """Return how the site is doing."""
        return self._run(self._requests.summary())

    def arms(self) -> list[Arm]:
        """Return all arms of the site."""
        return self._run(self._requests.arms())

    def cells(self) -> list[Cell]:
        """Return all cells, in the order in which they were first visited."""
        return self._run(self._requests.cells())

    def events(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Read the events of the site's log from a number on, up to where it ends now."""
        while page := self._run(self._requests.events(start)):
            yield from page
            start = page[-1]["number"] + 1

    def change_arm(self, name: str, *, cost: float | None = None, paused: bool | None = None) -> Arm:
        """Change what an arm costs, pause it, or let it be used again."""
        return self._run(self._requests.change_arm(name, cost, paused))

    def set_mode(self, mode: Mode, classifier: str = "") -> Summary:
        """Apply decisions, or only observe them while a classifier answers."""
        return self._run(self._requests.set_mode(mode, classifier))

    def ready(self) -> bool:
        """Tell whether the site is there and can decide and learn now; asked once, without retries."""
        return self._run(self._requests.ready())

    def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Call):
                outcome = self._exchange(step)
            else:
                time.sleep(step)

    def _exchange(self, call: Call) -> Outcome:
        try:
            return _reply(self._http.request(call.method, call.path, content=call.body, params=call.query))
        except httpx.HTTPError as error:
            return _lost(error)


class AsyncClient(_Common):
    """The same as `Client`, for programs with asyncio: every method is awaited. Close it, or use it in an `async with`.

    Many calls may be under way at once.
    """

    def _open(self, **options: Any) -> None:
        self._http = httpx.AsyncClient(**options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def classify(self, item: Any, id: str | None = None) -> Decision:
        """See `Client.classify`."""
        return await self._run(self._requests.classify(item, id))

    async def classify_many(self, items: Iterable[Any], ids: Iterable[str | None] | None = None) -> list[Decision]:
        """See `Client.classify_many`."""
        return await self._run(self._requests.classify_many(items, ids))

    async def learn(self, decision: Decision | str, truth: Any, cost: float | None = None) -> Fate:
        """See `Client.learn`."""
        return await self._run(self._requests.learn(decision, truth, cost))

    async def learn_many(
        self,
        decisions: Iterable[Decision | str],
        truths: Iterable[Any],
        costs: Iterable[float | None] | None = None,
        *,
        wait_for_peers: bool = False,
    ) -> Heard:
        """See `Client.learn_many`."""
        return await self._run(self._requests.learn_many(decisions, truths, costs, wait_for_peers=wait_for_peers))

    async def decision(self, id: str) -> Story:
        """See `Client.decision`."""
        return await self._run(self._requests.decision(id))

    async def summary(self) -> Summary:
        """See `Client.summary`."""
        return await self._run(self._requests.summary())

    async def arms(self) -> list[Arm]:
        """See `Client.arms`."""
        return await self._run(self._requests.arms())

    async def cells(self) -> list[Cell]:
        """See `Client.cells`."""
        return await self._run(self._requests.cells())

    async def events(self, start: int = 0) -> AsyncIterator[dict[str, Any]]:
        """See `Client.events`; for an `async for`."""
        while page := await self._run(self._requests.events(start)):
            for event in page:
                yield event
            start = page[-1]["number"] + 1

    async def change_arm(self, name: str, *, cost: float | None = None, paused: bool | None = None) -> Arm:
        """See `Client.change_arm`."""
        return await self._run(self._requests.change_arm(name, cost, paused))

    async def set_mode(self, mode: Mode, classifier: str = "") -> Summary:
        """See `Client.set_mode`."""
        return await self._run(self._requests.set_mode(mode, classifier))

    async def ready(self) -> bool:
        """See `Client.ready`."""
        return await self._run(self._requests.ready())

    async def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Call):
                outcome = await self._exchange(step)
            else:
                await asyncio.sleep(step)

    async def _exchange(self, call: Call) -> Outcome:
        try:
            return _reply(await self._http.request(call.method, call.path, content=call.body, params=call.query))
        except httpx.HTTPError as error:
            return _lost(error)


def _reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, response.content, response.headers.get("retry-after"))


def _lost(error: httpx.HTTPError) -> Lost:
    return Lost(
        in_one_line(error), may_pass=isinstance(error, httpx.TransportError) and not isinstance(error, HOPELESS)
    )


def _headers(token: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    if token is None:
        return headers
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token.strip():
        raise SettingError("token", "another", "ASCII characters that can be printed")  # never show it
    return {**headers, "Authorization": f"Bearer {token.strip()}"}


def _checked_url(url: str) -> str:
    try:
        parsed = httpx.URL(url)
        good = parsed.scheme in ("http", "https") and bool(parsed.host)
    except (httpx.InvalidURL, TypeError):
        good = False
    if not good:
        raise SettingError("base_url", url, "the address of a service, such as http://127.0.0.1:8801")
    return url.rstrip("/")
