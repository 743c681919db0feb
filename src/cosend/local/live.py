"""A scenario played through real processes: its sites are served, ask each other over a broker, and are asked in turn.

One item at a time, and a label is known everywhere before the next: so the same is decided as in one process.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from rich.console import Console

from cosend.client import Client
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import Phase
from cosend.errors import CosendError, ServiceError, SettingError
from cosend.experiments.scenario.world import World
from cosend.local.log import Log
from cosend.local.plan import Wishes, make_plan
from cosend.local.processes import Family
from cosend.local.running import Running
from cosend.simulation.network import Playing
from cosend.site.messages import Decision
from cosend.site.recovery import recover
from cosend.stores.event_log import EventLog

READY_S: Final = 600.0  # that sites have time to start: they may have to compile the rules and train their models


class ServedSite:
    """A site that runs as a service, played as if it were here."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._names: list[str] = []  # of decisions, which are numbered from 1 here

    def classify(self, item: Any) -> Decision:
        """Label an item."""
        told = self.client.classify(item)
        propensity = float("nan") if told.propensity is None else told.propensity
        self._names.append(told.id)
        return Decision(len(self._names), told.label, told.arm, Phase[told.phase.upper()], told.cell, (), propensity)

    def waits(self, decision: int) -> bool:
        """Tell whether a decision waits for its label: the site says so itself when the label comes."""
        return decision <= len(self._names)

    def learn(self, decision: int, truth: Any) -> None:
        """Learn the true label of an item, and let the peers learn it."""
        self.client.learn_many([self._names[decision - 1]], [truth], wait_for_peers=True)


class Served:
    """The sites of a network file as processes, for as long as a block takes, with folders in `store`."""

    def __init__(self, file: Path, store: Path, log: Log) -> None:
        self._plan = make_plan(file, Wishes(store=store, durable=False, any_ports=True))
        self._store, self._log = store, log
        self._clients = {site.name: Client(site.url) for site in self._plan.sites}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._sites = {name: ServedSite(client) for name, client in self._clients.items()}
        self._ended = False
        self._running: tuple[asyncio.AbstractEventLoop, Running] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _run(self) -> None:
        with Family() as family:
            running, loop = Running(self._plan, family, self._log), asyncio.get_running_loop()
            self._running = loop, running
            if not self._ended:
                await running.run()
        self._ended = True

    def stop(self) -> None:
        """Stop all processes; what they know is in their folders then."""
        self._ended = True
        if self._thread.is_alive():
            if self._running is not None:
                loop, running = self._running
                with suppress(RuntimeError):  # it is over
                    loop.call_soon_threadsafe(running.stop)
            self._thread.join()
        for client in self._clients.values():
            client.close()

    @property
    def sites(self) -> Mapping[str, Playing]:
        """The sites by name."""
        return self._sites

    def wait_until_ready(self) -> None:
        """Wait until all sites run and find each other."""
        until = time.monotonic() + READY_S
        while not all(self._is_ready(client) for client in self._clients.values()):
            if self._ended or time.monotonic() > until:
                raise CosendError(f"the sites did not find each other within {READY_S:g} s")
            time.sleep(0.1)

    def _is_ready(self, client: Client) -> bool:
        try:
            return client.summary().ready and all(arm.present for arm in client.arms())
        except ServiceError:
            return False

    def check(self, world: World) -> None:
        """Raise if the sites are not those that the scenario stands for."""
        context = [axis.description for axis in world.axes]
        for name, client in self._clients.items():
            said = client.summary()
            if said.policy != world.way.by_site[name][0].facts() or list(said.context) != context:
                allowed = "what the file says: options that change the policy or the context do not reach its sites"
                raise SettingError(f"what site {name!r} is made of", f"{said.policy}, {said.context}", allowed)

    def learners(self) -> list[Learner]:
        """Stop the sites and return what they know, from the folders that they have left."""
        self.stop()
        found = []
        for name in self._clients:
            with EventLog(self._store / name, site=name) as log:
                found.append(recover(log)[0].learner)
        return found


@contextmanager
def served(file: Path, console: Console, world: World) -> Iterator[Served]:
    """Run the sites of a file as processes in a folder of their own, for as long as a block takes."""
    with TemporaryDirectory(prefix="cosend-live-") as folder:
        quiet = Quiet(console, [site.name for site in world.scenario.sites], "text")
        with Served(file, Path(folder), quiet) as sites:
            sites.wait_until_ready()
            sites.check(world)
            yield sites


class Quiet(Log):
    """A log that shows what goes wrong, and leaves out what goes as it should."""

    def line(self, name: str, line: str) -> None:
        """Print what a process has said, if it is a warning or worse."""
        if any(word in line for word in (" warning ", " error ", "Error", "cannot")):
            super().line(name, line)
