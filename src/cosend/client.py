"""A client of the HTTP service of a site, for programs with asyncio and without.

    with Client("http://127.0.0.1:8801", token=...) as site:
        decision = site.classify({"age": 34})
        ...
        site.learn(decision, "ill")

The verbs are those of `cosend.Site`: `classify` and `learn` for one item, `classify_many` and `learn_many` for many.

A request that fails temporarily is retried (`_Verbs._send`). That is safe: every item has an id,
given or generated, and a known id gets the same decision; a label counts once.

Every verb is written once, as a coroutine. An `AsyncClient` awaits it; in a `Client` it ends in one step,
because its requests and pauses block.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    overload,
)
from urllib.parse import quote
from uuid import uuid4

import msgspec
import numpy as np

from cosend.checks import as_list, check_kind, check_number, check_whole, is_missing, no_score
from cosend.errors import (
    CosendError,
    NoAnswer,
    ServiceError,
    SettingError,
    SomeUnanswered,
    Unreachable,
    cut,
    in_one_line,
    install,
    shown,
)
from cosend.server import schema
from cosend.server.schema import (
    Arm,
    ArmList,
    Cell,
    Decision,
    DecisionRecord,
    Estimate,
    LabelCounts,
    LabelOutcome,
    LabelReceipt,
    Mode,
    PastDecision,
    Route,
    Summary,
)

if TYPE_CHECKING:
    from cosend.engine.budget import Budget

try:
    import httpx
except ImportError as error:
    raise CosendError(f"the client of a service needs httpx: {install('client')}") from error

__all__ = [
    "Arm",
    "ArmList",
    "AsyncClient",
    "Cell",
    "Client",
    "Decision",
    "DecisionRecord",
    "Estimate",
    "LabelCounts",
    "LabelOutcome",
    "LabelReceipt",
    "PastDecision",
    "Summary",
]

MAX_ITEMS, MAX_BYTES = schema.MAX_ITEMS, schema.MAX_BODY_BYTES  # of a request
PAGE: Final = 1_000  # arms, cells or events in a reply
MOST_DECISIONS: Final = 100  # in a reply
MAX_TIME_S: Final = 86_400.0
TRANSIENT: Final = frozenset((408, 429, 502, 503, 504))
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 10.0
MAX_RETRY_AFTER_S: Final = 60.0  # a service that asks for more is not waited for
HOPELESS: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)  # these fail however often they are tried
# Made here, once: msgspec crashes where several threads are the first to make a decoder of the same class.
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in {route.reply for route in schema.ROUTES} - {str} | {Decision, schema.Problem, dict[str, Any]}
}
P = ParamSpec("P")
T = TypeVar("T")


Score: TypeAlias = float | Mapping[str, float | None]  # of the arm that was used, or by arm where more is known
_Outcome: TypeAlias = httpx.Response | httpx.HTTPError


# Retries


def _may_pass(outcome: _Outcome) -> bool:
    if isinstance(outcome, httpx.HTTPError):
        return isinstance(outcome, httpx.TransportError) and not isinstance(outcome, HOPELESS)
    return outcome.status_code in TRANSIENT and f'"{schema.NO_ANSWER}"'.encode() not in outcome.content


def _retry_after_s(outcome: _Outcome) -> float:
    """Return how long the service asks to wait: a number of seconds, or until a date."""
    text = outcome.headers.get("retry-after", "") if isinstance(outcome, httpx.Response) else ""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0


# Bodies and headers


def _ids(ids: Iterable[str | None] | None, count: int) -> list[str]:
    """Return an id for every item, so that a retry is recognised."""
    given = [None] * count if ids is None else as_list("ids", ids, "a list of texts, one for each item")
    if len(given) != count:
        raise SettingError("ids", f"{len(given)} of them", f"as many as there are items, {count}")
    return [uuid4().hex if id is None else id for id in given]


def _truth(id: str, truth: Any, cost: float | None, score: Score | None, price: float | None = None) -> dict[str, Any]:
    truth, score = (None if is_missing(truth) else truth), (None if no_score(score) else score)
    by_arm = {arm: None if is_missing(each) else each for arm, each in score.items()} if _is_by_arm(score) else {}
    for each in (id, truth, cost, score, price, *by_arm.values()):
        if isinstance(each, float | np.floating) and not np.isfinite(each):
            raise SettingError("a label", (id, truth, cost), "without numbers that are not finite: JSON has none")
    paid = {"cost": cost} if price is None else {"cost": cost, "price": price}
    if score is None:
        return {"id": id, "label": truth, **paid}
    if truth is not None:
        raise SettingError(f"decision {id!r}", f"the label {shown(truth)} and a score", "one of the two")
    return {"id": id, **paid} | ({"scores": by_arm} if _is_by_arm(score) else {"score": score})


def _is_by_arm(score: Score | None) -> TypeGuard[Mapping[str, float | None]]:
    return isinstance(score, Mapping)


def _bodies(name: str, rows: Sequence[Any], **more: Any) -> Iterator[tuple[bytes, int]]:
    """Return the bodies of the requests that these rows need, with the number of rows in each."""
    start, count = 0, MAX_ITEMS
    while start < len(rows):
        some = rows[start : start + count]
        body = _encoded(name, {name: some, **more})
        if len(body) > MAX_BYTES and len(some) > 1:
            count = len(some) // 2
        else:
            yield body, len(some)
            start += len(some)


def _encoded(what: str, value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SettingError(what, in_one_line(error), "what JSON can carry") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _quoted(what: str, name: str) -> str:
    check_kind(what, name, str, "text")
    return quote(name, safe="") if name.strip(".") else "%2E" * len(name)  # dots alone are a step in a path


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


# The clients


class _verb(Generic[P, T]):  # noqa: N801 - a decorator
    """A coroutine that is a method of both clients: as it is for an `AsyncClient`, run to its end for a `Client`."""

    def __init__(self, work: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        @wraps(work)
        def run(client: Client, *given: Any, **options: Any) -> Any:
            return _run(work(client, *given, **options))

        self._awaited: Callable[..., Any] = work
        self._run: Callable[..., Any] = run

    @overload
    def __get__(self, client: Client, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        return (self._run if issubclass(owner, Client) else self._awaited).__get__(client, owner)


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a Client never waits")


class _Verbs(ABC):
    """The verbs of both clients; see `Client` for the options."""

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
        check_number("timeout_s", timeout_s, MAX_TIME_S)
        check_number("connect_s", connect_s, MAX_TIME_S)
        check_whole("retries", retries, least=0, most=1_000)
        self.base_url, self._retries = _checked_url(base_url), retries
        timeout = httpx.Timeout(timeout_s, connect=connect_s)
        self._open(base_url=self.base_url, headers=_headers(token), timeout=timeout, verify=verify)

    @abstractmethod
    def _open(self, **options: Any) -> None: ...

    @abstractmethod
    async def _request(self, **request: Any) -> httpx.Response: ...

    @abstractmethod
    async def _pause(self, seconds: float) -> None: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    @_verb
    async def classify(self, item: Any, id: str | None = None) -> Decision:
        """Label one item, a dict of its features that JSON can carry; without an id it gets one here.

        Raises NoAnswer if no arm could label it.
        """
        if isinstance(item, list) or type(item) is tuple:
            raise SettingError("item", f"{len(item)} of them", "one item; classify_many takes several")
        try:
            decisions: list[Decision] = await _Verbs.classify_many(self, [item], [id])
        except SomeUnanswered as error:
            raise error.errors[0] from None
        return decisions[0]

    @_verb
    async def classify_many(self, items: Iterable[Any], ids: Iterable[str | None] | None = None) -> list[Decision]:
        """Label many items, as `classify` does with one.

        Raises SomeUnanswered if no arm could label some of them; it has the decisions of the others. Any number of
        items is possible, in requests of at most 10,000. If a later one of these is refused, `so_far` of the error has
        the decisions of those before it.
        """
        given = as_list("items", items, "a list of items, which are dicts of their features")
        rows = [{"id": id, "features": item} for id, item in zip(_ids(ids, len(given)), given, strict=True)]
        answers: list[Decision | NoAnswer] = []
        try:
            for body, count in _bodies("items", rows):
                answers += await self._decide(body, count)
        except ServiceError as error:
            error.so_far = [each if isinstance(each, Decision) else None for each in answers]
            raise
        errors = {place: each for place, each in enumerate(answers) if isinstance(each, NoAnswer)}
        if errors:
            told = [each if isinstance(each, Decision) else None for each in answers]
            raise SomeUnanswered(self.base_url, told, errors)
        return [each for each in answers if isinstance(each, Decision)]

    @_verb
    async def learn(
        self,
        decision: Decision | str,
        truth: Any = None,
        cost: float | None = None,
        *,
        score: Score | None = None,
        price: float | None = None,
    ) -> LabelOutcome:
        """Send the true label of a decision, or a score, and return the result: in any order, repeated, late.

        decision  the decision, or its id
        cost      what the decision really cost, if that was not known before
        score     what the answer was worth, where no label is known; by arm, where more scores are known
        price     the cost in money, where the file has a `unit`
        """
        options: dict[str, Any] = {"scores": [score], "prices": [price]}
        receipt: LabelReceipt = await _Verbs.learn_many(self, [decision], [truth], [cost], **options)
        return receipt.outcome()

    @_verb
    async def learn_many(
        self,
        decisions: Iterable[Decision | str],
        truths: Iterable[Any] | None = None,
        costs: Iterable[float | None] | None = None,
        *,
        scores: Iterable[Score | None] | None = None,
        prices: Iterable[float | None] | None = None,
        wait_for_peers: bool = False,
    ) -> LabelReceipt:
        """Send many true labels or scores, as `learn` does with one.

        A label that was retried because the first reply was lost is a duplicate: the site has learnt it once.
        With `wait_for_peers`, the site answers when its peers have learnt them too.
        """
        given = as_list("decisions", decisions, "a list of decisions or of their ids")
        ids = [each.id if isinstance(each, Decision) else each for each in given]
        if truths is None and scores is None:
            raise SettingError("truths", None, "a list of labels, or scores in their place")
        none = [None] * len(ids)
        labels = none if truths is None else as_list("truths", truths, "a list of labels")
        paid = none if costs is None else as_list("costs", costs, "a list of costs, or None")
        earned = none if scores is None else as_list("scores", scores, "a list of scores, or None")
        amounts = none if prices is None else as_list("prices", prices, "a list of prices, or None")
        for what, values in (("truths", labels), ("costs", paid), ("scores", earned), ("prices", amounts)):
            if len(values) != len(ids):
                raise SettingError(what, f"{len(values)} of them", f"as many as decisions ({len(ids)})")
        rows = [_truth(*each) for each in zip(ids, labels, paid, earned, amounts, strict=True)]
        receipt = LabelReceipt()
        try:
            for body, _ in _bodies("labels", rows, wait_for_peers=wait_for_peers):
                receipt.add(await self._ask(schema.LABELS, body))
        except ServiceError as error:
            error.so_far = receipt
            raise
        return receipt

    @_verb
    async def decision(self, id: str) -> DecisionRecord:
        """Return a decision, its result, and what its cell knows now."""
        return await self._ask(schema.DECISION, name=_quoted("id", id))

    @_verb
    async def decisions(self, count: int = 20) -> list[PastDecision]:
        """Return the last decisions with their results, newest first."""
        check_whole("count", count)
        found, query = list[PastDecision](), dict[str, Any]()
        while len(found) < count:
            page = await self._ask(schema.DECISIONS, query={**query, "count": min(count - len(found), MOST_DECISIONS)})
            found += page.decisions
            if page.next is None:
                break
            query = {"start": page.next}
        return found

    @_verb
    async def summary(self) -> Summary:
        """Return how the site is doing."""
        return await self._ask(schema.SUMMARY)

    @_verb
    async def arms(self) -> ArmList:
        """Return all arms of the site, as a list that prints as a table."""
        return ArmList(await self._all(schema.ARMS, "arms"))

    @_verb
    async def cells(self) -> list[Cell]:
        """Return all cells, in the order of their first items."""
        return await self._all(schema.CELLS, "cells")

    @_verb
    async def change_arm(
        self, name: str, *, cost: float | None = None, price: float | None = None, paused: bool | None = None
    ) -> Arm:
        """Change the cost of an arm, as a share of a correct prediction's value or in money; pause it, or resume it."""
        body = _encoded("the change of an arm", {"cost": cost, "price": price, "paused": paused})
        return await self._ask(schema.CHANGE_ARM, body, name=_quoted("name", name))

    @_verb
    async def set_budget(self, budget: Budget | None) -> Summary:
        """Keep to another budget from now on, or to none; amounts are in money where the site knows prices."""
        if budget is not None:
            from cosend.engine.budget import Budget  # with the compiler, which other clients do without

            check_kind("budget", budget, Budget, "a Budget, for example Budget(per_item=0.0007)")
        return await self._ask(schema.BUDGET, _encoded("the budget", {} if budget is None else budget.facts()))

    @_verb
    async def set_mode(self, mode: Mode, classifier: str = "") -> Summary:
        """Apply decisions, or only observe them while one model answers."""
        return await self._ask(schema.MODE, _encoded("the mode", {"mode": mode, "classifier": classifier}))

    @_verb
    async def ready(self) -> bool:
        """Tell whether the site can decide and learn now; asked once, without retries."""
        outcome = await self._once(method=schema.READY.method, url=schema.READY.path)
        return isinstance(outcome, httpx.Response) and outcome.status_code == 200

    # Parts of clients

    async def _decide(self, body: bytes, count: int) -> list[Decision | NoAnswer]:
        try:
            reply = await self._ask(schema.CLASSIFY, body)
        except ServiceError as error:
            if error.problem != schema.NO_ANSWER:
                raise
            return [NoAnswer.told(self.base_url, error.detail) for _ in range(count)]
        if len(reply.decisions) != count:
            raise self._odd(f"{len(reply.decisions)} decisions for {count} items")
        return [self._decision(each) for each in reply.decisions]

    def _decision(self, answer: dict[str, Any]) -> Decision | NoAnswer:
        if "error" in answer:
            return NoAnswer.told(self.base_url, str(answer["error"]))
        try:
            return msgspec.convert(answer, Decision)
        except msgspec.ValidationError as error:
            raise self._odd(str(error)) from error

    async def _all(self, route: Route[Any], field: str) -> list[Any]:
        found, start = list[Any](), 0
        while True:
            page = await self._ask(route, query={"start": start, "count": PAGE})
            found += getattr(page, field)
            if page.next is None:
                return found
            start = page.next

    async def _events(self, start: int) -> list[dict[str, Any]]:
        """Read some events from a number on; an empty list is the end."""
        lines = await self._send(schema.EVENTS, query={"start": start, "count": PAGE})
        return [self._read(line, dict[str, Any]) for line in lines.splitlines()]

    async def _ask(self, route: Route[T], body: bytes | None = None, **options: Any) -> T:
        reply = await self._send(route, body, **options)
        return self._read(reply, route.reply)

    async def _send(
        self, route: Route[Any], body: bytes | None = None, *, name: str = "", query: dict[str, int] | None = None
    ) -> bytes:
        """Return the body of the reply to a request; `name` goes into the path.

        It is sent until its outcome is final, or the retries are used up. A connection that fails, a reply that does
        not come in time, and the statuses in `TRANSIENT` are retried; every other reply is final. So is "no arm could
        label the items", a 503 too: that is about the items, not the service. Pauses double, less a random part, so
        that the clients of a service that was away do not all come back at once.
        """
        request = {"method": route.method, "url": route.path.partition("{")[0] + name, "content": body, "params": query}
        outcome, pause_s = await self._once(**request), FIRST_PAUSE_S
        for _ in range(self._retries):
            wait_s = _retry_after_s(outcome)
            if not _may_pass(outcome) or wait_s > MAX_RETRY_AFTER_S:
                break
            await self._pause(wait_s + pause_s * (1.0 - random.random() / 2))  # noqa: S311 - no secret
            outcome, pause_s = await self._once(**request), min(2 * pause_s, MAX_PAUSE_S)
        if isinstance(outcome, httpx.HTTPError):
            raise Unreachable(self.base_url, f"the service does not answer: {in_one_line(outcome)}")
        if outcome.status_code == 200:
            return outcome.content
        try:
            problem = _DECODERS[schema.Problem].decode(outcome.content)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            problem = schema.Problem(detail=cut(outcome.content.decode(errors="replace").strip(), 200))
        why = problem.detail or problem.title or "no reason given"
        raise ServiceError(self.base_url, outcome.status_code, why, problem.type)

    async def _once(self, **request: Any) -> _Outcome:
        try:
            return await self._request(**request)
        except httpx.HTTPError as error:
            return error

    def _read(self, body: bytes, kind: type[T]) -> T:
        try:
            found: T = _DECODERS[kind].decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._odd(str(error)) from error
        return found

    def _odd(self, what: str) -> ServiceError:
        return ServiceError(self.base_url, 200, f"not the reply of a cosend site of this version: {what}")


class Client(_Verbs):
    """A client of one site's service; threads may share it. Close it, or use it in a `with`.

    base_url   where the service is, such as http://127.0.0.1:8801
    token      a bearer token that the service knows
    timeout_s  how long a reply may take
    connect_s  how long connecting may take
    retries    how often a request is retried when it fails temporarily
    verify     which certificates to trust for https: True for the usual authorities, or your own context
    """

    def _open(self, **options: Any) -> None:
        self._http = httpx.Client(**options)

    async def _request(self, **request: Any) -> httpx.Response:
        return self._http.request(**request)

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def events(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Read the events of the site's log from a number on, up to where it ends now."""
        while page := _run(self._events(start)):
            yield from page
            start = page[-1]["number"] + 1


class AsyncClient(_Verbs):
    """The same as `Client`, for programs with asyncio: every method is awaited. Close it, or use it in an `async with`.

    Many calls may be in flight at once.
    """

    def _open(self, **options: Any) -> None:
        self._http = httpx.AsyncClient(**options)

    async def _request(self, **request: Any) -> httpx.Response:
        return await self._http.request(**request)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def events(self, start: int = 0) -> AsyncIterator[dict[str, Any]]:
        """See `Client.events`; for an `async for`."""
        while page := await self._events(start):
            for event in page:
                yield event
            start = page[-1]["number"] + 1
