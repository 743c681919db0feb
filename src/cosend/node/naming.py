"""Decisions under the ids that clients give them: the same id gets the same answer again, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cosend.errors import SettingError
from cosend.node.deciding import Deciding
from cosend.node.flight import Decided, Result
from cosend.node.labelling import number_of
from cosend.node.recall import Past, recall_all
from cosend.node.setup import Setup
from cosend.stores.log_index import LogIndex


class Naming:
    """The ids of clients."""

    def __init__(self, setup: Setup, deciding: Deciding, index: LogIndex) -> None:
        self.setup, self.deciding, self.index = setup, deciding, index
        self._wanted: set[str] = set()  # numbers that clients want as names, and are waiting to have

    async def classify(self, items: Sequence[Any], names: Sequence[str | None]) -> list[Result]:
        """Label items that clients have given ids, None where they gave none."""
        given = list(dict.fromkeys(name for name in names if name is not None))
        await self._numbers_are_settled(given)
        flying = {name: self.deciding.requests.flying[name] for name in given if name in self.deciding.requests.flying}
        results: dict[str | int, Result] = dict(self._told_before([name for name in given if name not in flying]))
        self._check_names([name for name in given if name not in results and name not in flying])
        first = {name: place for place, name in reversed([*enumerate(names)])}
        places = [
            place
            for place, name in enumerate(names)
            if name is None or (name not in results and name not in flying and first[name] == place)
        ]
        if places:
            request = self.deciding.take([items[n] for n in places], [names[n] for n in places])
            answers = await asyncio.shield(request.done)  # others may wait for it too
            for place, result in zip(places, answers, strict=True):
                results[names[place] or place] = result
        for other in {*flying.values()}:
            both = zip(other.names or (), await asyncio.shield(other.done), strict=True)
            results.update((name, answer) for name, answer in both if name is not None and flying.get(name) is other)
        return [results[name or place] for place, name in enumerate(names)]

    def _told_before(self, names: Sequence[str]) -> Iterator[tuple[str, Decided]]:
        """Yield what was told of decisions that have one of these names; of what was removed, nothing is known."""
        named = self.index.named(names) if names else {}
        known = self._recalled(named.values())
        for name, number in named.items():
            if number in known:
                yield name, known[number].decided(name)

    def _recalled(self, numbers: Iterable[int]) -> dict[int, Past]:
        return recall_all(self.index, numbers, self.setup.most_flights)

    async def _numbers_are_settled(self, names: Sequence[str]) -> None:
        """Wait until the disk says whose the numbers are that a client wants as names; nobody gets them meanwhile."""
        last = self.deciding.rules.learner.last_id
        wanted = {name for name in names if 0 < number_of(name) <= last}
        if not wanted or self._are_settled({number_of(name) for name in wanted}):
            return
        self.deciding.requests.has_numbers_as_names = True
        self._wanted |= wanted
        try:
            await self.deciding.commits.done()
        finally:
            self._wanted -= wanted

    def _are_settled(self, numbers: set[int]) -> bool:
        unnamed = numbers - {*self.index.names_of(numbers)}
        return unnamed <= self._recalled(unnamed).keys()

    def _check_names(self, names: Sequence[str]) -> None:
        """Raise if a client's new id is that of a decision to which another client gave none."""
        numbers = {number_of(name): name for name in names if number_of(name)}
        for name in numbers.values():
            if name.startswith("#"):
                raise SettingError("an id", name, "not a number after '#': these are the site's own")
        taken = [number for number in numbers if number <= self.deciding.rules.learner.last_id]
        unnamed = {*taken} - {*self.index.names_of(taken)} if taken else set()
        for number in self._recalled(unnamed):
            raise SettingError("an id", numbers[number], "one that no other decision has")
        self.deciding.requests.has_numbers_as_names |= bool(numbers)

    def is_taken(self, number: int) -> bool:
        """Tell whether a client has named a decision by this number."""
        name = str(number)
        return name in self._wanted or name in self.deciding.requests.flying or bool(self.index.named([name]))
