"""What can be asked of a service: which requests that takes, and what their replies mean.

Nothing is sent here. Every function is a generator of calls and rests (`retries.py`), which a client with or without
asyncio carries out; so both do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec
import numpy as np

from cosend.client import replies
from cosend.client.retries import NO_ANSWER, Call, Lost, Outcome, Reply, Retries, Steps
from cosend.core.checks import as_list, check_kind
from cosend.core.missing import is_missing
from cosend.errors import NoAnswer, ServiceError, SettingError, SomeUnanswered, Unreachable, cut, in_one_line

MOST_ITEMS: Final = 10_000  # that a service takes at once
MOST_BYTES: Final = 8 * 2**20
PAGE: Final = 1_000
T = TypeVar("T")
_ENCODE: Final = msgspec.json.Encoder(enc_hook=lambda value: _plain(value)).encode


class Truth(NamedTuple):
    """The true label of a decision, and what that really cost, if it is known only now."""

    id: str
    label: Any
    cost: float | None = None


class Requests:
    """The requests to one service."""

    def __init__(self, url: str, retries: Retries) -> None:
        self.url, self.retries = url, retries

    def classify_many(self, items: Iterable[Any], ids: Iterable[str | None] | None) -> Steps[list[replies.Decision]]:
        """Have items labelled, in as many requests as they need."""
        given = as_list("items", items, "a list of items, which are dicts of their features")
        rows = [{"id": name, "features": item} for name, item in zip(_ids(ids, len(given)), given, strict=True)]
        told: list[replies.Decision | NoAnswer] = []
        try:
            for body, count in _bodies("items", rows):
                told += yield from self._decided(body, count)
        except ServiceError as error:
            error.so_far = [each if isinstance(each, replies.Decision) else None for each in told]
            raise
        decisions = [each for each in told if isinstance(each, replies.Decision)]
        if len(decisions) == len(told):
            return decisions
        errors = {place: each for place, each in enumerate(told) if isinstance(each, NoAnswer)}
        places = [None if isinstance(each, NoAnswer) else each for each in told]
        raise SomeUnanswered(self.url, places, errors)

    def classify(self, item: Any, name: str | None) -> Steps[replies.Decision]:
        """Have one item labelled."""
        if isinstance(item, list) or type(item) is tuple:
            raise SettingError("item", f"{len(item)} of them", "one item; classify_many takes several")
        try:
            (decision,) = yield from self.classify_many([item], [name])
        except SomeUnanswered as error:
            raise error.errors[0] from None
        return decision

    def _decided(self, body: bytes, count: int) -> Steps[list[replies.Decision | NoAnswer]]:
        try:
            reply = yield from self._ask(Call("POST", "/v1/classify", body), replies.Decided)
        except ServiceError as error:
            if error.problem != NO_ANSWER:
                raise
            return [NoAnswer.told(self.url, error.detail) for _ in range(count)]
        if len(reply.decisions) != count:
            raise self._odd(f"{len(reply.decisions)} decisions for {count} items")
        return [self._decision(told) for told in reply.decisions]

    def _decision(self, told: replies.Told) -> replies.Decision | NoAnswer:
        if told.error is not None:
            return NoAnswer.told(self.url, told.error)
        if told.id is None or not told.arm:
            raise self._odd("a decision without an id or an arm")
        facts = msgspec.structs.asdict(told)
        del facts["error"]
        return replies.Decision(**facts)

    def learn_many(
        self,
        decisions: Iterable[replies.Decision | str],
        truths: Iterable[Any],
        costs: Iterable[float | None] | None,
        *,
        wait_for_peers: bool = False,
    ) -> Steps[replies.Heard]:
        """Pass true labels on, in as many requests as they need."""
        given = as_list("decisions", decisions, "a list of decisions or of their ids")
        ids = [each.id if isinstance(each, replies.Decision) else each for each in given]
        labels = as_list("truths", truths, "a list of labels")
        paid = [None] * len(ids) if costs is None else as_list("costs", costs, "a list of costs, or None")
        for what, values in (("truths", labels), ("costs", paid)):
            if len(values) != len(ids):
                raise SettingError(what, f"{len(values)} of them", f"as many as decisions ({len(ids)})")
        rows = [_truth(each)._asdict() for each in zip(ids, labels, paid, strict=True)]
        heard = replies.Heard()
        try:
            for body, _ in _bodies("labels", rows, {"wait_for_peers": True} if wait_for_peers else {}):
                heard.add((yield from self._ask(Call("POST", "/v1/labels", body), replies.Heard)))
        except ServiceError as error:
            error.so_far = heard
            raise
        return heard

    def learn(self, decision: replies.Decision | str, truth: Any, cost: float | None) -> Steps[replies.Fate]:
        """Pass one true label on."""
        heard = yield from self.learn_many([decision], [truth], [cost])
        return heard.fate()

    def decision(self, name: str) -> Steps[replies.Story]:
        """Look at a decision."""
        return (yield from self._ask(Call("GET", f"/v1/decisions/{_quoted('id', name)}"), replies.Story))

    def summary(self) -> Steps[replies.Summary]:
        """Ask how the site fares."""
        return (yield from self._ask(Call("GET", "/v1/summary"), replies.Summary))

    def arms(self) -> Steps[list[replies.Arm]]:
        """Look at all arms, page by page."""
        found, start = list[replies.Arm](), 0
        while True:
            page = yield from self._ask(_page("/v1/arms", start), replies.ArmsPage)
            found += page.arms
            if page.next is None:
                return found
            start = page.next

    def cells(self) -> Steps[list[replies.Cell]]:
        """Look at all cells, page by page."""
        found, start = list[replies.Cell](), 0
        while True:
            page = yield from self._ask(_page("/v1/cells", start), replies.CellsPage)
            found += page.cells
            if page.next is None:
                return found
            start = page.next

    def events(self, start: int) -> Steps[list[dict[str, Any]]]:
        """Read some events from a number on; none are left if there are none."""
        reply = yield from self._good(_page("/v1/events", start))
        return [self._read(line, dict[str, Any]) for line in reply.body.splitlines()]

    def change_arm(self, name: str, cost: float | None, paused: bool | None) -> Steps[replies.Arm]:
        """Change an arm."""
        body = _encoded("the change of an arm", {"cost": cost, "paused": paused})
        return (yield from self._ask(Call("POST", f"/v1/arms/{_quoted('name', name)}", body), replies.Arm))

    def set_mode(self, mode: Literal["apply", "observe"], classifier: str) -> Steps[replies.Summary]:
        """Change the mode."""
        body = _encoded("the mode", {"mode": mode, "classifier": classifier})
        return (yield from self._ask(Call("POST", "/v1/mode", body), replies.Summary))

    def ready(self) -> Steps[bool]:
        """Ask, once, whether the site can decide and learn now."""
        outcome: Outcome = yield Call("GET", "/health/ready")
        return isinstance(outcome, Reply) and outcome.status == 200

    def _ask(self, call: Call, kind: type[T]) -> Steps[T]:
        reply = yield from self._good(call)
        return self._read(reply.body, kind)

    def _good(self, call: Call) -> Steps[Reply]:
        """Return the reply to a request that was not refused."""
        outcome = yield from self.retries.exchange(call)
        if isinstance(outcome, Lost):
            raise Unreachable(self.url, f"the service does not answer: {outcome.why}")
        if outcome.status != 200:
            raise self._refused(outcome)
        return outcome

    def _refused(self, reply: Reply) -> ServiceError:
        try:
            problem = replies.DECODERS[replies.Problem].decode(reply.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            problem = replies.Problem(detail=cut(reply.body.decode(errors="replace").strip(), 200))
        return ServiceError(self.url, reply.status, problem.detail or problem.title or "no reason given", problem.type)

    def _read(self, body: bytes, kind: type[T]) -> T:
        try:
            decoded: T = replies.DECODERS[kind].decode(body)
            return decoded
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._odd(str(error)) from error

    def _odd(self, what: str) -> ServiceError:
        return ServiceError(self.url, 200, f"not the reply of a cosend site of this version: {what}")


def _ids(ids: Iterable[str | None] | None, count: int) -> list[str]:
    """Return an id for every item: what is sent again is then known to be the same."""
    given = [None] * count if ids is None else as_list("ids", ids, "a list of texts, one for each item")
    if len(given) != count:
        raise SettingError("ids", f"{len(given)} of them", f"as many as there are items, {count}")
    return [uuid4().hex if name is None else name for name in given]


def _truth(label: Sequence[Any]) -> Truth:
    name, truth, *cost = label
    truth = None if is_missing(truth) else truth
    if any(isinstance(each, float | np.floating) and not np.isfinite(each) for each in (name, truth, *cost)):
        raise SettingError("a label", label, "without numbers that are not finite: JSON would carry them as nothing")
    return Truth(name, truth, *cost)


def _bodies(
    name: str, rows: Sequence[Any], also: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[tuple[bytes, int]]:
    """Return the bodies of the requests that these rows need, and how many are in each; all say `also`."""
    for start in range(0, len(rows), MOST_ITEMS):
        yield from _halved(name, rows[start : start + MOST_ITEMS], also)


def _halved(name: str, rows: Sequence[Any], also: Mapping[str, Any]) -> Iterator[tuple[bytes, int]]:
    body = _encoded(name, {name: rows, **also})
    if len(body) <= MOST_BYTES or len(rows) == 1:
        yield body, len(rows)
        return
    middle = len(rows) // 2
    yield from _halved(name, rows[:middle], also)
    yield from _halved(name, rows[middle:], also)


def _encoded(what: str, value: Any) -> bytes:
    try:
        return _ENCODE(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SettingError(what, in_one_line(error), "what JSON can carry") from error


def _plain(value: Any) -> Any:
    """Return a value of NumPy as one of Python."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _quoted(what: str, name: str) -> str:
    check_kind(what, name, str, "text")
    return quote(name, safe="") if name.strip(".") else "%2E" * len(name)  # dots alone are a step in a path


def _page(path: str, start: int) -> Call:
    return Call("GET", path, None, {"start": start, "count": PAGE})
