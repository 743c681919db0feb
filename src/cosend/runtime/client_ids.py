"""Decisions under the ids that clients give them: the same id gets the same answer again, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from cosend.errors import SettingError
from cosend.runtime.client_requests import Decided, Result, id_number
from cosend.runtime.driver import Driver
from cosend.runtime.label_intake import Labelling
from cosend.runtime.past_decisions import recall_all
from cosend.runtime.site_setup import Setup
from cosend.runtime.site_store import Store

SLICE: Final = 1_000  # ids that are looked up before others have their turn
K = TypeVar("K")
V = TypeVar("V")


class Naming:
    """The ids of clients."""

    def __init__(self, setup: Setup, driver: Driver, labelling: Labelling, store: Store) -> None:
        self.setup, self.driver, self.labelling, self.store = setup, driver, labelling, store
        self._looked_up: dict[str, asyncio.Future[None]] = {}  # ids of which somebody is finding out what was told

    async def classify(self, items: Sequence[Any], names: Sequence[str | None]) -> list[Result]:
        """Label items that clients have given ids, None where they gave none."""
        given = list(dict.fromkeys(name for name in names if name is not None))
        for name in given:
            if id_number(name):
                raise SettingError("an id", name, "not 'd-' and a number: these are the site's own")
        while others := {self._looked_up[name] for name in given if name in self._looked_up}:
            await asyncio.wait(others)
        by_name = self.driver.requests.by_name
        flying = {name: by_name[name] for name in given if name in by_name}
        results: dict[str | int, Result] = {}
        with self._looking_up([name for name in given if name not in flying]) as unknown:
            results.update(await self._told_before(unknown))
            first = {name: place for place, name in reversed([*enumerate(names)])}
            places = [
                place
                for place, name in enumerate(names)
                if name is None or (name not in results and name not in flying and first[name] == place)
            ]
            self.labelling.has_names |= bool(given)
            request = self.driver.take([items[n] for n in places], [names[n] for n in places]) if places else None
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
        """Keep ids for one request: others that give them wait."""
        done = asyncio.get_running_loop().create_future()
        self._looked_up.update(dict.fromkeys(names, done))
        try:
            yield names
        finally:
            for name in names:
                del self._looked_up[name]
            done.set_result(None)

    async def _told_before(self, names: Sequence[str]) -> dict[str, Decided]:
        """Return what was told about decisions that have one of these names; what was removed is not known any more."""
        named = await _in_slices(self.store.index.named, names)
        known = await self.store.look(recall_all, [*named.values()], self.setup.most_flights) if named else {}
        return {name: known[id_].decided(name) for name, id_ in named.items() if id_ in known}


async def _in_slices(ask: Callable[[Sequence[K]], dict[K, V]], about: Sequence[K]) -> dict[K, V]:
    """Ask the index about many things, and let others have their turn in between."""
    found = ask(about[:SLICE]) if about else {}
    for start in range(SLICE, len(about), SLICE):
        await asyncio.sleep(0)
        found |= ask(about[start : start + SLICE])
    return found
