"""Decisions under the ids that clients give them: the same id gets the same answer again, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from cosend.errors import SettingError
from cosend.node.deciding import Deciding
from cosend.node.flight import Decided, Result
from cosend.node.labelling import number_of
from cosend.node.recall import Past, recall_all
from cosend.node.setup import Setup
from cosend.node.store import Store

SLICE: Final = 1_000  # ids that are looked up before others have their turn
K = TypeVar("K")
V = TypeVar("V")


class Naming:
    """The ids of clients."""

    def __init__(self, setup: Setup, deciding: Deciding, store: Store) -> None:
        self.setup, self.deciding, self.store = setup, deciding, store
        self._looked_up: dict[str, asyncio.Future[None]] = {}  # ids of which somebody is finding out what was told

    async def classify(self, items: Sequence[Any], names: Sequence[str | None]) -> list[Result]:
        """Label items that clients have given ids, None where they gave none."""
        given = list(dict.fromkeys(name for name in names if name is not None))
        while others := {self._looked_up[name] for name in given if name in self._looked_up}:
            await asyncio.wait(others)
        flying = {name: self.deciding.requests.flying[name] for name in given if name in self.deciding.requests.flying}
        results: dict[str | int, Result] = {}
        with self._looking_up([name for name in given if name not in flying]) as unknown:
            await self._numbers_are_settled(unknown)
            results.update(await self._told_before(unknown))
            await self._check_names([name for name in unknown if name not in results])
            first = {name: place for place, name in reversed([*enumerate(names)])}
            places = [
                place
                for place, name in enumerate(names)
                if name is None or (name not in results and name not in flying and first[name] == place)
            ]
            request = self.deciding.take([items[n] for n in places], [names[n] for n in places]) if places else None
        if request is not None:
            answers = await asyncio.shield(request.done)  # others may wait for it too
            for place, result in zip(places, answers, strict=True):
                results[names[place] or place] = result
        for other in {*flying.values()}:
            both = zip(other.names or (), await asyncio.shield(other.done), strict=True)
            results.update((name, answer) for name, answer in both if name is not None and flying.get(name) is other)
        return [results[name or place] for place, name in enumerate(names)]

    @contextmanager
    def _looking_up(self, names: list[str]) -> Iterator[list[str]]:
        """Keep ids for one request: others that give them wait, and no decision without a name gets such a number."""
        done = asyncio.get_running_loop().create_future()
        self._looked_up.update(dict.fromkeys(names, done))
        self.deciding.requests.has_numbers_as_names |= any(map(number_of, names))
        try:
            yield names
        finally:
            for name in names:
                del self._looked_up[name]
            done.set_result(None)

    async def _told_before(self, names: Sequence[str]) -> dict[str, Decided]:
        """Return what was told of decisions that have one of these names; of what was removed, nothing is known."""
        named = await _in_slices(self.store.index.named, names)
        known = await self._recalled(named.values()) if named else {}
        return {name: known[number].decided(name) for name, number in named.items() if number in known}

    async def _recalled(self, numbers: Iterable[int]) -> dict[int, Past]:
        return await self.store.look(recall_all, [*numbers], self.setup.most_flights)

    async def _unnamed(self, names: Sequence[str]) -> dict[int, str]:
        """Return which of the names are numbers of decisions that got no name, by number."""
        last = self.deciding.rules.learner.last_id
        numbers = {number: name for name in names if 0 < (number := number_of(name)) <= last}
        named = await _in_slices(self.store.index.names_of, [*numbers]) if numbers else {}
        return {number: name for number, name in numbers.items() if number not in named}

    async def _numbers_are_settled(self, names: Sequence[str]) -> None:
        """Wait until the disk says whose the numbers are that a client wants as names; nobody gets them meanwhile."""
        if await self._unnamed(names):
            await self.deciding.commits.done()

    async def _check_names(self, names: Sequence[str]) -> None:
        """Raise if a client's new id is that of a decision to which another client gave none."""
        for name in names:
            if name.startswith("#") and number_of(name):
                raise SettingError("an id", name, "not a number after '#': these are the site's own")
        unnamed = await self._unnamed(names)
        for number in await self._recalled(unnamed) if unnamed else ():
            raise SettingError("an id", unnamed[number], "one that no other decision has")

    def is_taken(self, number: int) -> bool:
        """Tell whether a client has named a decision by this number."""
        name = str(number)
        return name in self._looked_up or name in self.deciding.requests.flying or bool(self.store.index.named([name]))


async def _in_slices(ask: Callable[[Sequence[K]], dict[K, V]], about: Sequence[K]) -> dict[K, V]:
    """Ask the index about many things, and let others have their turn in between."""
    found = ask(about[:SLICE]) if about else {}
    for start in range(SLICE, len(about), SLICE):
        await asyncio.sleep(0)
        found |= ask(about[start : start + SLICE])
    return found
