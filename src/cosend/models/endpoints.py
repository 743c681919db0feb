"""Endpoints: models that answer over HTTP, wherever they run.

    oip:https://host/v2/models/m       Open Inference Protocol v2, as KServe, Triton and MLServer speak it
    openai:https://host/v1#gpt-x       chat completions of a language model, of OpenAI or a compatible server
    mlflow:https://host/invocations    MLflow
    http:https://host/path             JSON in and JSON out, at JSON pointers

`ask` is one request, a coroutine that never raises; `answers` asks about any number of items and waits, many at
once. An error is a `Failure` in the place of a label. A reply is read up to a limit, redirects are not followed,
cookies are not kept, and an endpoint that says when to come back (Retry-After) is not called before that.

A token comes from a variable of the environment. It is in the headers of requests and nowhere else.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import ssl
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from operator import mul
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import parse_qsl, urlsplit
from urllib.request import getproxies
from weakref import finalize

import msgspec
import numpy as np

from cosend.checks import check_number, check_whole, is_number
from cosend.errors import ClassifierError, ModelError, SettingError, cut, in_one_line, install, listed, shown
from cosend.models.adapters import (
    Answer,
    Failure,
    FailureKind,
    Item,
    Label,
    Predicted,
    SaysWhatFails,
    by_name,
    known,
    named,
)

KINDS: Final = ("oip", "openai", "mlflow", "http")
ONE_REQUEST_EACH: Final = ("openai", "http")  # the others take many items in a request
MOST_BYTES: Final = 4 * 2**20  # of a reply
MOST_SAID: Final = 300  # characters of a reply that an error shows
KEPT_S: Final = 3.0  # that an idle connection is kept: servers close theirs after five seconds or more
LONGEST_WAIT_S: Final = 30 * 86_400.0  # that an endpoint may ask for as a pause
EACH_ALONE: Final = frozenset((400, 413, 422, 500))  # what a request gets where one of its items may be to blame
TOO_MUCH: Final = frozenset((429, 503))
SECRET_HEADERS: Final = ("authorization", "proxy-authorization", "cookie", "api-key", "x-api-key")
OUR_HEADERS: Final = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")
SECRET_PARAMETERS: Final = ("key", "api_key", "api-key", "apikey", "token", "access_token", "password", "secret", "sig")
DATATYPES: Final = ("FP64", "FP32", "INT64", "INT32", "BOOL", "BYTES")
LEAST_SECRET: Final = 8  # characters of a token that a reply must not repeat; a shorter one may be there by chance
OF_KINDS: Final[Mapping[str, tuple[str, ...]]] = {  # options that only some kinds have
    **dict.fromkeys(("template", "system", "parse", "max_tokens", "temperature", "price_in", "price_out"), ("openai",)),
    **dict.fromkeys(("input", "output", "datatype"), ("oip",)),
    "request": ("http",),
    "reply": ("http", "mlflow"),
    "batch": ("oip", "mlflow"),
}
MILLION: Final = 1_000_000
MOST_AT_ONCE: Final = 4_096  # items of a request, and requests
MOST_TOKENS: Final = 10**12  # that a reply may say it took
LABELS: Final = frozenset((str, int, float, bool))
LARGEST: Final = sys.float_info.max
PLACE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How an endpoint is asked and its reply read; `docs/reference/network-file.md` has all options, by kind."""

    labels: Sequence[Label] | None = None  # all there are
    template: str | None = None  # of a prompt
    system: str | None = None
    parse: str | None = None  # a JSON pointer, or a regular expression
    max_tokens: int | None = None
    temperature: float | None = None
    price_in: float = 0.0  # for a million tokens, in units of `cost`
    price_out: float = 0.0
    request: str | Mapping[str, str] = ""
    reply: str | Mapping[str, str] = ""
    input: str = "input-0"
    output: str | None = None
    datatype: str | None = None
    batch: int = 32
    in_flight: int = 64
    headers: Mapping[str, str] = field(default_factory=dict)
    token_env: str | None = None
    token_header: str = "Authorization"  # noqa: S105 - the name of a header
    tls_ca: str | None = None
    limit_s: float | None = None


DEFAULTS: Final = Options()
LIMITS_S: Final = {"openai": 30.0}  # a language model takes its time; any other has one second


def kind_of(model: str) -> str | None:
    """Return which kind of endpoint a model is, None if it is none: `openai:young` is a function in a module."""
    kind, _, url = model.partition(":")
    return kind if kind in KINDS and url.startswith(("http://", "https://")) else None


def limit_of(model: str) -> float:
    """Return how many seconds a call may take, unless something else is said."""
    return LIMITS_S.get(kind_of(model) or "", 1.0)


def wrong_url(model: str) -> str | None:
    """Return what is wrong with the address of an endpoint, without the address if that may hold a secret."""
    kind = kind_of(model)
    try:
        url = urlsplit(model.partition(":")[2])
        port_is_good = url.port is None or url.port > 0
    except ValueError:
        return "the address cannot be read"
    if url.username is not None or url.password is not None:
        return "user and password do not belong in an address: use token_env"
    secret = [name for name, _ in parse_qsl(url.query, keep_blank_values=True) if name.lower() in SECRET_PARAMETERS]
    if secret:
        return f"a secret does not belong in an address, and ?{secret[0]}= looks like one: use token_env, token_header"
    if not url.hostname or not port_is_good or not model.isascii() or not model.isprintable() or " " in model:
        return "the address must be http(s)://HOST[:PORT]/PATH"
    if (kind == "openai") != bool(url.fragment):
        return "name the model behind #, as in openai:https://host/v1#gpt-x" if kind == "openai" else "without a #"
    return None


class Connections:
    """Connections to an endpoint, as many as may be used at once.

    Each has a separate pool: the work of one pool for a request grows with the square of its connections.

    make  returns one connection
    """

    def __init__(self, make: Callable[[], Any], most: int) -> None:
        self._make, self._room = make, asyncio.Semaphore(most)
        self._idle: list[Any] = []  # the one that was used last is used next
        self._is_closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[tuple[Any, bool]]:
        """Lend a connection as soon as there is room; also tells whether it was used before."""
        async with self._room:
            is_used = bool(self._idle)
            connection = self._idle.pop() if is_used else self._make()
            try:
                yield connection, is_used
            finally:
                self._idle.append(connection)
                if self._is_closed:
                    await connection.aclose()

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.gather(*(connection.aclose() for connection in self._idle))


class Endpoint(SaysWhatFails):
    """A model behind an address, as a classifier of a site.

    model     as in a network file, for example "openai:https://host/v1#gpt-x"
    features  all that it is sent, in this order; by default, all of them but those of `hide`
    options   those of `Options`
    """

    def __init__(
        self,
        model: str,
        *,
        features: Sequence[str] | None = None,
        hide: Sequence[str] = (),
        folder: Path | str = ".",
        **options: Any,
    ) -> None:
        kind, wrong = kind_of(model), wrong_url(model)
        if kind is None or wrong is not None:
            allowed = f"an endpoint is KIND:URL, and KIND one of {', '.join(KINDS)}"
            raise ModelError(cut(model.partition(":")[0], 20) if wrong else model, wrong or "not an endpoint", allowed)
        self._made_with = model, {"features": features, "hide": hide, "folder": folder, **options}
        self.model, self.options = model, _checked(kind, options)
        self.features, self.hide, self._names = features, frozenset(hide), frozenset(features or ())
        self.in_flight, self.all_labels = self.options.in_flight, self.options.labels
        self.limit_s = limit_of(model) if self.options.limit_s is None else self.options.limit_s
        self.says_free_text = WIRES[kind] is Chat and self.options.labels is None and self.options.parse is None
        url = model.partition(":")[2].partition("#")[0]
        self._wire: Wire = WIRES[kind](self.options, model.partition("#")[2], features)
        self.batch = 1 if kind in ONE_REQUEST_EACH else self.options.batch
        self._secret = _Secret(self.options)
        self._httpx = _httpx(model)
        try:
            self._url = self._httpx.URL(_with_path(url, self._wire.path))
        except self._httpx.InvalidURL as error:
            raise ModelError(cut(model, 20), f"the address cannot be read ({error})") from None
        ours = {"Accept": "application/json", "Accept-Encoding": "identity"}
        self._headers = self._httpx.Headers({"User-Agent": f"python-httpx/{self._httpx.__version__}"})
        self._headers.update({**ours, **_checked_headers(self.options.headers), "Content-Type": "application/json"})
        self._tls = _trusted(self._httpx, self.options.tls_ca, Path(folder))
        self._not_before = -math.inf  # on the monotonic clock: the endpoint has asked for it
        self._own: Any = None, None  # the connections of `answers`, behind their loop

    def __repr__(self) -> str:
        return f"<Endpoint {self.model}>"

    def __reduce__(self) -> tuple[Any, ...]:
        model, options = self._made_with  # and never the token: it is read again from the environment
        return _made, (model, options)

    # One request

    def connections(self) -> Connections:
        """Return connections to the endpoint, for the event loop that runs now; close them."""
        return Connections(partial(_connection, self._httpx, self._tls), self.in_flight)

    async def ask(
        self, connections: Connections, items: Sequence[Item], limit_s: float, until: float | None = None
    ) -> Predicted:
        """Ask about items in one request; what goes wrong is a failure for each that it concerns.

        limit_s  how long that may take once there is a connection
        until    when the answers must be there in any case, on the monotonic clock, waiting for a connection included
        """
        rows = [*map(self._row, items)]
        good = [row for row in rows if type(row) is not Failure]
        answers = await self._said(connections, good, limit_s, until) if good else ()
        if len(good) < len(rows):
            left = iter(answers)
            answers = [row if type(row) is Failure else next(left) for row in rows]
        return _predicted(answers)

    def _row(self, item: Item) -> Any:
        """Return what is sent about an item, or why it cannot be sent."""
        try:
            return self._wire.row(self._view(item))
        except ClassifierError as error:
            return Failure(str(error), "item")

    async def _said(
        self, connections: Connections, rows: Sequence[Any], limit_s: float, until: float | None
    ) -> Sequence[Any]:
        """Return an answer or a failure for each row; where one may be to blame for all, each is asked about alone."""
        try:
            self._check_wait()
            left = None if until is None else max(0.0, until - time.monotonic())
            async with asyncio.timeout(left) as clock, connections.one() as (connection, is_used):
                if until is None:
                    clock.reschedule(asyncio.get_running_loop().time() + limit_s)
                self._check_wait()  # it may have been said while this waited
                reply = await self._reply(connection, is_used, self._body(rows))
            return self._wire.read(reply, len(rows))
        except Unusable as error:
            if error.each_alone and len(rows) > 1:
                alone = await asyncio.gather(*(self._said(connections, [row], limit_s, until) for row in rows))
                return [answer for (answer,) in alone]
            failure = error.failure
        except TimeoutError:
            failure = Failure(f"the endpoint took longer than {limit_s:g} s", "time")
        except Exception as error:  # of the network, or of a library: items must not wait for ever
            reason = self._secret.hide(in_one_line(error))
            failure = Failure(f"the endpoint cannot be reached, or broke off ({reason})", "network")
        return [failure] * len(rows)

    def _check_wait(self) -> None:
        """Raise if the endpoint has asked for a pause that is not over."""
        left = self._not_before - time.monotonic()
        if left > 0:
            fail(f"the endpoint accepts no requests for another {left:.3g} s (Retry-After)", wait_s=left)

    def _view(self, item: Item) -> Item:
        """Return what the endpoint may see of an item."""
        if self.features is not None:
            if type(item) is dict and self._names <= item.keys():  # mostly
                return {name: item[name] for name in self.features}
            return dict(zip(self.features, by_name(item, self.features), strict=True))
        features = named(item)
        if features is None:
            return item
        return {name: value for name, value in features.items() if name not in self.hide}

    def _body(self, rows: Sequence[Any]) -> bytes:
        return ENCODE(self._wire.body(rows))

    async def _reply(self, connection: Any, is_used: bool, body: bytes) -> Any:
        """Send a request and return what the JSON of its reply says."""
        headers = self._httpx.Headers(self._headers)
        headers.update(self._secret.headers)
        request = self._httpx.Request("POST", self._url, content=body, headers=headers)
        send = connection.handle_async_request
        try:
            response = await send(request)
        except (self._httpx.NetworkError, self._httpx.RemoteProtocolError):
            if not is_used:
                raise
            response = await send(request)  # the endpoint had closed the old connection meanwhile
        try:
            data = await self._whole(response)
        finally:
            await response.aclose()
        if self._secret.is_in(data):
            fail("the reply has the token in it, and is not looked at")
        if not response.is_success:
            self._refused(response, data)
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unusable(Failure(f"the reply is not JSON ({cut(str(error), MOST_SAID)})")) from None

    async def _whole(self, response: Any) -> bytes:
        """Return the body of a reply, if it is not too long."""
        coding, length = response.headers.get("content-encoding", "identity"), 0
        if coding != "identity":
            fail(f"the reply is coded as {shown(coding)}, which was not asked for")
        parts = []
        async for part in response.aiter_raw():
            parts.append(part)
            length += len(part)
            if length > MOST_BYTES:
                fail(f"the reply has more than {MOST_BYTES:,} bytes")
        return b"".join(parts)

    def _refused(self, response: Any, data: bytes) -> NoReturn:
        """Raise for a reply that is no success."""
        status = response.status_code
        phrase = self._httpx.codes.get_reason_phrase(status)
        reason, wait_s = f"the endpoint says HTTP {status} {phrase}".rstrip(), 0.0
        if response.is_redirect:
            reason += ": redirects are not followed"
        elif status in EACH_ALONE:  # not where it is about who asks
            reason += f": {self._secret.hide(cut(data.decode(errors='replace'), MOST_SAID))}" if data else ""
        if status in TOO_MUCH:
            wait_s = wait_asked_for(response.headers.get("retry-after", ""))
            self._not_before = max(self._not_before, time.monotonic() + wait_s)
            reason += f", and asks to retry after {wait_s:.3g} s" if wait_s else ""
        fail(reason, each_alone=status in EACH_ALONE, wait_s=wait_s)

    # Any number of items, while the caller waits

    def answers(self, items: Sequence[Item]) -> Predicted:
        return _here(self._all(items))

    async def _all(self, items: Sequence[Item]) -> Predicted:
        if self._own[0] is not asyncio.get_running_loop():
            self._own = asyncio.get_running_loop(), self.connections()
            finalize(self, _end, *self._own).atexit = False
        parts = [items[start : start + self.batch] for start in range(0, len(items), self.batch)]
        return joined(await asyncio.gather(*(self.ask(self._own[1], part, self.limit_s) for part in parts)))

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item."""
        return self.predict_sure(items).labels

    def predict_sure(self, items: Sequence[Item]) -> Predicted:
        """Return a label for every item with its confidence and its cost, or raise with the first failure."""
        told = self.answers(items)
        for each in told.labels:
            if isinstance(each, Failure):
                raise ClassifierError(each.reason)
        return told


def _connection(httpx: Any, tls: ssl.SSLContext) -> Any:
    """Return what sends requests over one connection; a client does so only where proxies are set, and takes longer."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=KEPT_S)
    if not {"http", "https", "all"}.isdisjoint(getproxies()):
        return _WithProxies(httpx, limits, tls)
    return httpx.AsyncHTTPTransport(verify=tls, limits=limits)


class _WithProxies:
    """A client of httpx, which goes by the proxies that the environment names, used as a transport is."""

    def __init__(self, httpx: Any, limits: Any, tls: ssl.SSLContext) -> None:
        cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._client = httpx.AsyncClient(cookies=cookies, verify=tls, timeout=None, limits=limits)
        self.aclose = self._client.aclose

    async def handle_async_request(self, request: Any) -> Any:
        return await self._client.send(request, stream=True)


def _end(loop: asyncio.AbstractEventLoop, connections: Connections) -> None:
    """Close clients that are not used any more."""
    asyncio.run_coroutine_threadsafe(connections.close(), loop)


def _made(model: str, options: dict[str, Any]) -> Endpoint:
    return Endpoint(model, **options)


def _checked(kind: str, given: Mapping[str, Any]) -> Options:
    """Return options that a kind has, each of them possible."""
    for name, value in given.items():
        kinds = OF_KINDS.get(name, KINDS)
        if kind not in kinds and value != getattr(DEFAULTS, name):
            raise SettingError(name, value, f"no value: it is for {' and '.join(kinds)}, not for {kind}")
    options = Options(**given)
    for name in ("batch", "in_flight"):
        check_whole(name, getattr(options, name), most=MOST_AT_ONCE)
    for name in ("price_in", "price_out"):
        check_number(name, getattr(options, name), MILLION, or_0=True)
    return options


def _httpx(model: str) -> Any:
    try:
        return import_module("httpx")
    except ImportError as error:
        raise ModelError(model, "it needs httpx, which is not installed", install("endpoints")) from error


def _with_path(url: str, path: str) -> str:
    base, mark, query = url.partition("?")
    return base.rstrip("/") + path + mark + query if path else url


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not HEADER.fullmatch(name) or name.lower() in OUR_HEADERS:
            raise SettingError("headers", name, f"names of headers, and none of {', '.join(OUR_HEADERS)}")
        if name.lower() in SECRET_HEADERS:
            raise SettingError("headers", name, "without secrets: token_env names a variable, token_header the header")
        if not value.isascii() or not value.isprintable():
            raise SettingError("headers", value, "printable ASCII")
    return dict(headers)


def _trusted(httpx: Any, tls_ca: str | None, folder: Path) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a file, or else the usual ones."""
    if tls_ca is None:
        everybody: ssl.SSLContext = httpx.create_ssl_context()
        return everybody
    try:
        return ssl.create_default_context(cafile=folder / tls_ca)
    except OSError as error:  # an SSLError is one
        raise SettingError(
            "tls_ca", tls_ca, f"a file with certificates of authorities ({in_one_line(error)})"
        ) from error


class _Secret:
    """The token of an endpoint: nothing prints it."""

    __slots__ = ("_token", "headers")

    def __init__(self, options: Options) -> None:
        self._token, self.headers = "", _Hidden()
        if options.token_env is None:
            return
        if not HEADER.fullmatch(options.token_header) or options.token_header.lower() in OUR_HEADERS:
            raise SettingError("token_header", options.token_header, "the name of a header")
        token = os.environ.get(options.token_env, "").strip()
        if not token:
            allowed = "the name of an environment variable that is set"
            sentence = f"the environment variable {options.token_env} is not set"
            raise SettingError("token_env", options.token_env, allowed, sentence=sentence)
        if not token.isascii() or not token.isprintable():
            wrong = "the name of an environment variable whose value is printable ASCII, as headers require"
            raise SettingError("token_env", options.token_env, wrong)
        bearer = options.token_header.lower() == "authorization" and " " not in token
        self._token = token.rpartition(" ")[2]
        self.headers[options.token_header] = f"Bearer {token}" if bearer else token

    def is_in(self, data: bytes) -> bool:
        return len(self._token) >= LEAST_SECRET and self._token.encode() in data

    def hide(self, text: str) -> str:
        return text.replace(self._token, "***") if self._token else text


class _Hidden(dict[str, str]):
    """Headers that nothing prints."""

    def __repr__(self) -> str:
        return "<hidden>"


# Errors


class Unusable(Exception):
    """A reply of which nothing can be made, for every item of the request."""

    def __init__(self, failure: Failure, *, each_alone: bool = False) -> None:
        super().__init__(failure.reason)
        self.failure, self.each_alone = failure, each_alone


def fail(reason: str, kind: FailureKind = "error", *, wait_s: float = 0.0, each_alone: bool = False) -> NoReturn:
    raise Unusable(Failure(reason, kind, wait_s), each_alone=each_alone)


def wait_asked_for(text: str) -> float:
    """Return how many seconds a Retry-After asks for: a number of them, or until a date; 0 if it cannot be read."""
    text = text.strip()
    try:
        if text.isascii() and text.isdigit():
            return min(LONGEST_WAIT_S, float(text))
        return min(LONGEST_WAIT_S, max(0.0, parsedate_to_datetime(text).timestamp() - time.time()))
    except (ValueError, TypeError, OverflowError):
        return 0.0


# Answers


def _predicted(said: Sequence[Any]) -> Predicted:
    """Return answers and failures as columns."""
    labels, *more = zip(*[Answer(each) if type(each) is Failure else each for each in said], strict=True)
    sure, costs = (_known(column) for column in more)
    return Predicted([*labels], sure, costs)


def _known(column: Sequence[float | None]) -> Sequence[float] | None:
    """Return a column with numbers only, None if there is none in it."""
    if column.count(None) == len(column):
        return None
    return known([math.nan if each is None else each for each in column])


def joined(parts: Sequence[Predicted]) -> Predicted:
    """Return what was said about the parts of a sequence of items."""
    if len(parts) == 1:
        return parts[0]
    columns: list[Any] = []
    for n in (1, 2):
        column = [value for part in parts for value in (part[n] or [math.nan] * len(part.labels))]
        columns.append(known(column))
    return Predicted([label for part in parts for label in part.labels], *columns)


class Allowed:
    """The labels that an endpoint may give, if they are known, and how its words become one of them."""

    def __init__(self, options: Options) -> None:
        self.labels = None if options.labels is None else list(options.labels)
        if self.labels is not None and (
            not self.labels or not all(isinstance(e, str | int | float) for e in self.labels)
        ):
            raise SettingError("labels", options.labels, "a list of labels: text, numbers or truth values")
        self._by_text = {_folded(str(label)): label for label in self.labels or ()}
        if len(self._by_text) < len(self.labels or ()):
            raise SettingError("labels", options.labels, "labels that differ in more than upper and lower case")

    def label(self, value: Any) -> Label:
        """Return a value of a reply as a label."""
        if not isinstance(value, str | int | float):
            fail(f"the reply says {shown(value)}, which is not a label", "label")
        if self.labels is None:
            return value
        if not isinstance(value, str) and value in self.labels:
            return self.labels[self.labels.index(value)]
        folded = _folded(str(value))
        if folded not in self._by_text:
            fail(f"the reply says {shown(value)}; the labels are {listed(self.labels)}", "label")
        return self._by_text[folded]

    def answer(self, value: Any) -> Answer:
        """Return a value as an answer: a label, or a score for each of the labels."""
        if not isinstance(value, list):
            return Answer(self.label(value))
        if len(value) == 1:
            return self.answer(value[0])
        if self.labels is None or len(value) != len(self.labels) or not all(map(is_number, value)):
            has = "none are given" if self.labels is None else f"there are {len(self.labels)}"
            fail(f"the reply has {shown(value)} for an item: a score for each label, and of `labels` {has}", "label")
        best = max(range(len(value)), key=value.__getitem__)
        sure = float(value[best]) if all(0.0 <= each <= 1.0 for each in value) else None
        return Answer(self.labels[best], sure)

    def each(self, values: Any, count: int) -> list[Any]:
        """Return values as answers: exactly one for every item, or a failure in the place of one."""
        if not isinstance(values, list) or len(values) != count:
            has = f"{len(values)} answers" if isinstance(values, list) else shown(values)
            fail(f"the reply has {has} for {count} item{'s' * (count != 1)}")
        if self.labels is None and LABELS.issuperset(map(type, values)):  # mostly
            return [*map(Answer, values)]
        return [*map(self._answer_or_failure, values)]

    def _answer_or_failure(self, value: Any) -> Answer | Failure:
        try:
            return self.answer(value)
        except Unusable as error:
            return error.failure


def _folded(text: str) -> str:
    return text.strip(" \t\r\n\"'`*.").casefold()


# JSON


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{shown(value)} has no form in JSON")


ENCODE: Final = msgspec.json.Encoder(enc_hook=_plain).encode


def as_json(value: Any) -> msgspec.Raw:
    """Return a value of an item as JSON, or raise."""
    try:
        return msgspec.Raw(ENCODE(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ClassifierError(f"an item cannot be sent as JSON: {error}") from error


def parts_of(setting: str, pointer: str) -> list[str]:
    """Return the parts of a JSON pointer (RFC 6901), or raise."""
    if pointer and not pointer.startswith("/"):
        raise SettingError(setting, pointer, "a JSON pointer, such as /choices/0/label, or '' for the whole")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def at(value: Any, parts: Sequence[str]) -> Any:
    """Return the value at a JSON pointer."""
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            fail(f"the reply has nothing at /{'/'.join(parts)}: {cut(shown(value), MOST_SAID)}")
    return value


def put(body: Any, parts: Sequence[str], value: Any) -> Any:
    """Return a body with a value at a JSON pointer; /0 begins a list."""
    if not parts:
        return value
    first, *rest = parts
    if first == "0":
        return [put(body[0] if isinstance(body, list) else None, rest, value)]
    inside = body if isinstance(body, dict) else {}
    return {**inside, first: put(inside.get(first), rest, value)}


# The messages of each kind


class Wire(ABC):
    """How a kind of endpoint is spoken to: an item becomes a row, rows a body, and the reply answers."""

    path = ""  # behind the address

    def __init__(self, options: Options, model: str, features: Sequence[str] | None) -> None:
        self.options, self.model, self.allowed = options, model, Allowed(options)

    @abstractmethod
    def row(self, item: Item) -> Any:
        """Return what is sent about an item, or raise a ClassifierError: it cannot be sent."""

    @abstractmethod
    def body(self, rows: Sequence[Any]) -> Any: ...

    @abstractmethod
    def read(self, reply: Any, count: int) -> list[Any]:
        """Return an answer, or a failure, for each of this many rows; raises Unusable where there is none."""


class OpenInference(Wire):
    """Open Inference Protocol v2: one tensor of all features, or with the input "*" one for each."""

    path = "/infer"

    def __init__(self, options: Options, model: str, features: Sequence[str] | None) -> None:
        super().__init__(options, model, features)
        if options.datatype not in (None, *DATATYPES):
            raise SettingError("datatype", options.datatype, f"one of {', '.join(DATATYPES)}")

    def row(self, item: Item) -> Any:
        if type(item) is dict and self.options.input != "*":  # mostly
            return [*map(_in_tensor, item.values())]
        if self.options.input == "*":
            if not isinstance(item, Mapping):
                raise ClassifierError(f"input '*' needs items with names for their features, got {shown(item)}")
            return {str(name): _in_tensor(value) for name, value in item.items()}
        values = item.values() if isinstance(item, Mapping) else item
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            values = [values]
        return [_in_tensor(value) for value in values]

    def body(self, rows: Sequence[Any]) -> Any:
        first, name = rows[0], self.options.input
        if {*map(len, rows)} != {len(first)} or (name == "*" and any(row.keys() != first.keys() for row in rows)):
            fail("the items of one request must have the same features", "item", each_alone=True)
        if name == "*":
            columns = [self._tensor(each, [row[each] for row in rows], 1) for each in first]
            return {
                "inputs": columns,
                "parameters": {"content_type": "pd"},
            }  # a table: for MLServer, others pass it over
        return {"inputs": [self._tensor(name, [value for row in rows for value in row], len(first))]}

    def _tensor(self, name: str, data: list[Any], width: int) -> dict[str, Any]:
        kinds = {*map(type, data)}
        datatype = self.options.datatype or _datatype(kinds)
        if any(issubclass(kind, str) != (datatype == "BYTES") for kind in kinds):
            fail(f"input {name!r} is of {datatype}, and gets {listed(data)}", "item", each_alone=True)
        tensor = {"name": name, "shape": [len(data) // width, width], "datatype": datatype, "data": data}
        return tensor | ({"parameters": {"content_type": "str"}} if datatype == "BYTES" else {})  # for MLServer

    def read(self, reply: Any, count: int) -> list[Any]:
        outputs, wanted = at(reply, ["outputs"]), self.options.output
        named_so = (
            [each for each in outputs if wanted in (None, at(each, ["name"]))] if isinstance(outputs, list) else []
        )
        if not named_so:
            fail(f"the reply has no output {wanted or ''}: {cut(shown(outputs), MOST_SAID)}")
        values = at(named_so[0], ["data"])
        if not isinstance(values, list) or list in map(type, values):
            values = [*_flat(values)]
        width = len(values) // count
        if not width or width * count != len(values):
            fail(f"the reply has {len(values)} answers for {count} item{'s' * (count != 1)}")
        if width > 1:
            values = [values[n : n + width] for n in range(0, len(values), width)]
        return self.allowed.each(values, count)


def _in_tensor(value: Any) -> Any:
    if type(value) in (float, int) and -LARGEST <= value <= LARGEST:  # mostly
        return value
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float) and (isinstance(value, str) or is_number(value)):
        as_json(value)  # raises for half a character
        return value
    raise ClassifierError(f"a tensor takes text, numbers and truth values, got {shown(value)}")


def _datatype(kinds: Collection[type]) -> str:
    if all(issubclass(kind, str) for kind in kinds):
        return "BYTES"
    return "BOOL" if all(issubclass(kind, bool) for kind in kinds) else "FP64"


def _flat(data: Any) -> Iterator[Any]:
    if not isinstance(data, list):
        yield data
        return
    for each in data:
        yield from _flat(each)


class Chat(Wire):
    """Chat completions: a template makes the prompt, and the reply says the label."""

    path = "/chat/completions"

    def __init__(self, options: Options, model: str, features: Sequence[str] | None) -> None:
        super().__init__(options, model, features)
        self._template = None if options.template is None else template_of(options.template)
        self._system = options.system
        if self._system is None and self.allowed.labels is not None:
            said = ", ".join(map(str, self.allowed.labels))
            self._system = f"Classify what the user sends. Answer with one of these labels, and nothing else: {said}"
        self._find = self._parser(options.parse)

    def _parser(self, parse: str | None) -> Callable[[str], Any]:
        if parse is None:
            return str.strip
        if parse.startswith("/"):
            parts = parts_of("parse", parse)
            return lambda text: at(_json_in(text), parts)
        try:
            pattern = re.compile(parse)
        except re.error as error:
            raise SettingError("parse", parse, f"a JSON pointer or a regular expression ({error})") from error

        def find(text: str) -> str:
            found = pattern.search(text)
            if found is None:
                fail(f"the reply says {shown(text)}, in which parse finds nothing", "label")
            return found[1] if pattern.groups else found[0]

        return find

    def row(self, item: Item) -> Any:
        return as_json(self._template(item) if self._template is not None else in_words(item))

    def body(self, rows: Sequence[Any]) -> Any:
        messages = [{"role": "user", "content": rows[0]}]
        if self._system:
            messages.insert(0, {"role": "system", "content": self._system})
        more = {"max_tokens": self.options.max_tokens, "temperature": self.options.temperature}
        return {"model": self.model, "messages": messages, **{name: n for name, n in more.items() if n is not None}}

    def read(self, reply: Any, count: int) -> list[Any]:
        text = at(reply, ["choices", "0", "message", "content"])
        if not isinstance(text, str):
            fail(f"the reply says {shown(text)} instead of a text", "label")
        value = self._find(text)
        if value is None or value == "":
            fail(f"the reply says {shown(text)}, in which there is no label", "label")
        return [Answer(self.allowed.label(value), None, self._cost(reply))]

    def _cost(self, reply: Any) -> float | None:
        """Return what the tokens of a reply cost, None if it does not say how many there were."""
        prices = self.options.price_in, self.options.price_out
        usage = reply.get("usage")
        if not any(prices) or not isinstance(usage, dict):
            return None
        tokens: list[Any] = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        if not all(isinstance(each, int) and 0 <= each <= MOST_TOKENS for each in tokens):
            return None
        spent: float = sum(map(mul, tokens, prices))
        return min(1.0, spent / MILLION)


def _json_in(text: str) -> Any:
    """Return the JSON that a language model says, with or without the fence that many put around it."""
    try:
        return msgspec.json.decode(text.strip().removeprefix("```json").strip("`"))
    except (msgspec.DecodeError, ValueError, RecursionError):
        fail(f"the reply says {shown(text)}, which is not JSON", "label")


def in_words(item: Item) -> str:
    """Return an item as a line for every feature, or the text that it is."""
    if isinstance(item, Mapping):
        return "\n".join(f"{name}: {_word(value)}" for name, value in item.items())
    return _word(item)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else bytes(as_json(value)).decode()


def template_of(template: str) -> Callable[[Item], str]:
    """Return what fills the features of an item into {feature}; {{ and }} are braces.

    A name is looked up literally: nothing of an object is reached, and nothing is formatted.
    """
    if set("{}") & set(PLACE.sub("", template)):
        raise SettingError("template", template, "text with {feature} in it; a brace itself is {{ or }}")
    names = [found for found in PLACE.findall(template) if found]
    if "{}" in template.replace("{{", "").replace("}}", ""):
        raise SettingError("template", template, "text with the names of features in braces, and {} has none")

    def fill(item: Item) -> str:
        features = dict(zip(names, by_name(item, names), strict=True)) if names else {}

        def filled(found: re.Match[str]) -> str:
            return found[0][0] if found[1] is None else _word(features[found[1]])

        return PLACE.sub(filled, template)

    return fill


class MLflow(Wire):
    """MLflow: rows in, predictions out."""

    def __init__(self, options: Options, model: str, features: Sequence[str] | None) -> None:
        super().__init__(options, model, features)
        if not isinstance(options.reply, str):
            raise SettingError("reply", options.reply, "a JSON pointer into each prediction")
        self._inside = parts_of("reply", options.reply)

    def row(self, item: Item) -> Any:
        return isinstance(item, Mapping), as_json(item)

    def body(self, rows: Sequence[Any]) -> Any:
        has_names = all(has_name for has_name, _ in rows)
        return {"dataframe_records" if has_names else "inputs": [row for _, row in rows]}

    def read(self, reply: Any, count: int) -> list[Any]:
        values = reply if isinstance(reply, list) else at(reply, ["predictions"])
        if not self._inside or not isinstance(values, list):
            return self.allowed.each(values, count)
        return self.allowed.each([at(value, self._inside) for value in values], count)


class Pointers(Wire):
    """Any JSON: an item or its features go to JSON pointers, and its label is at one."""

    def __init__(self, options: Options, model: str, features: Sequence[str] | None) -> None:
        super().__init__(options, model, features)
        request, reply = options.request, options.reply
        self._whole = parts_of("request", request) if isinstance(request, str) else None
        places = {} if isinstance(request, str) else request
        self._places = [(parts_of("request", pointer), name) for pointer, name in places.items()]
        found = {"label": reply} if isinstance(reply, str) else reply
        if "label" not in found or not found.keys() <= {"label", "confidence", "cost"}:
            raise SettingError("reply", reply, "a JSON pointer, or a table of them: label, and confidence and cost")
        self._found = {name: parts_of("reply", pointer) for name, pointer in found.items()}

    def row(self, item: Item) -> Any:
        if self._whole is not None:
            return put(None, self._whole, as_json(item))
        body: Any = None
        names = [name for _, name in self._places]
        for (parts, _), value in zip(self._places, by_name(item, names), strict=True):
            body = put(body, parts, as_json(value))
        return body

    def body(self, rows: Sequence[Any]) -> Any:
        return rows[0]

    def read(self, reply: Any, count: int) -> list[Any]:
        answer = self.allowed.answer(at(reply, self._found["label"]))
        sure, cost = (self._unit(reply, name) for name in ("confidence", "cost"))
        return [Answer(answer.label, answer.confidence if sure is None else sure, cost)]

    def _unit(self, reply: Any, name: str) -> float | None:
        if name not in self._found:
            return None
        value = at(reply, self._found[name])
        if not is_number(value) or not 0.0 <= value <= 1.0:
            fail(f"the reply says {shown(value)} for its {name}: a number in [0, 1] is needed")
        return float(value)


WIRES: Final[Mapping[str, type[Wire]]] = {"oip": OpenInference, "openai": Chat, "mlflow": MLflow, "http": Pointers}


# An event loop for programs that have none, or whose own must not wait


class _Loop:
    """A loop in a thread, for all endpoints of the process; a forked process gets its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            loop = self._loops.get(os.getpid())
            if loop is None:
                loop = self._loops[os.getpid()] = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="endpoints", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_here: Final = _Loop().run
