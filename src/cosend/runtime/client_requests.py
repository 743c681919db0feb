"""Requests of clients: items that came together are answered together, when all are decided and on the disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from cosend.engine.arm_health import PHASE_NAMES
from cosend.engine.engine import Batch
from cosend.engine.events import Named
from cosend.errors import NoAnswer, Unavailable
from cosend.runtime.log_writer import Commits
from cosend.store.log_index import NAME

OWN_ID: Final = "d-"  # and its number: the id of a decision whose client gave none
MOST_DIGITS: Final = 18  # that fit into 64 bits


def id_text(id_: int) -> str:
    """Return the id of a decision whose client gave none."""
    return f"d-{id_}"


def id_number(text: str) -> int:
    """Return the number of a decision whose client gave no id, 0 if this is not one."""
    digits = text[len(OWN_ID) :]
    is_own = text.startswith(OWN_ID) and len(digits) <= MOST_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_own and digits[0] != "0" else 0


class Decided(msgspec.Struct, gc=False, omit_defaults=True):
    """The answer for an item: its label, and how it came about."""

    id: str  # the client's own, or the site's
    label: Any
    arm: str
    phase: str  # train, explore or exploit
    cell: int
    cost: float
    propensity: float  # nan, which JSON has as null, if it is not known
    answered_by: str | None = None  # the model whose label this is, in shadow mode


Result = Decided | NoAnswer


class Request:
    """Items that came together and are answered together; `names` are the ids that their client gave them."""

    __slots__ = ("done", "items", "left", "names", "results")

    def __init__(self, items: Sequence[Any], names: Sequence[str | None] | None) -> None:
        self.items, self.names = items, names
        self.left = len(items)  # answers that are still missing
        self.results: list[Any] = [None] * len(items)
        self.done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()


class Owners(NamedTuple):
    """Whose the items of a batch are: the request of each row, and its place there."""

    requests: Sequence[Request]
    places: Sequence[int]


class Requests:
    """The requests that are not answered yet."""

    def __init__(self, site: str, commits: Commits) -> None:
        self.site, self.commits = site, commits
        self.by_name: dict[str, Request] = {}  # by client's id
        self._open: set[Request] = set()

    def take(self, items: Sequence[Any], names: Sequence[str | None] | None) -> Request:
        request = Request(items, names)
        self._open.add(request)
        for name in names or ():
            if name is not None:
                self.by_name[name] = request
        return request

    def refused(self, request: Request, error: Exception) -> None:
        """Tell a client that its items cannot be decided: nothing has happened to any of them."""
        self._forget(request)
        if not request.done.done():
            request.done.set_exception(error)

    def answer(self, batch: Batch, rows: Sequence[int]) -> None:
        """Take the decisions on items."""
        owners: Owners = batch.owner
        requests, places = owners.requests, owners.places
        named: dict[int, str] = {}  # by id: the client's own
        ids, labels, arms, kinds, cells = batch.ids, batch.labels, batch.arms, batch.kinds, batch.cells
        costs, propensities, answered_by, errors = batch.costs, batch.propensities, batch.answered_by, batch.errors
        for row in rows:
            request, place = requests[row], places[row]
            name = None if request.names is None else request.names[place]
            if errors and row in errors:
                request.results[place] = errors[row]
                continue
            arm = arms[row]
            if name is not None:
                named[ids[row]] = name
            request.results[place] = Decided(
                name or f"d-{ids[row]}",
                labels[row],
                arm,
                PHASE_NAMES[kinds[row]],
                cells[row],
                costs[arm],
                propensities[row],
                answered_by.get(row) if answered_by else None,
            )
        if named:  # in the transaction of the answer: a retry after a crash gets the same
            self.commits.also(NAME, [(name, id_) for id_, name in named.items()])
            self.commits.event(Named(tuple(named), tuple(named.values())))
        mine = [requests[row] for row in rows]
        for request, count in Counter(mine).items() if len(mine) > 1 else ((mine[0], 1),):
            request.left -= count
            if not request.left:
                request.done.add_done_callback(partial(self._forget, request))
                self.commits.when_done(request.done, request.results)

    def _forget(self, request: Request, _: object = None) -> None:
        self._open.discard(request)
        for name in request.names or ():
            if name is not None and self.by_name.get(name) is request:
                del self.by_name[name]

    def close(self, reason: str) -> None:
        """Tell all who wait that there will be no answer."""
        for request in self._open:
            if not request.done.done():
                request.done.set_exception(Unavailable(reason))
