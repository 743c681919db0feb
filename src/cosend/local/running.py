"""A network that runs on this machine: its processes are started, started again when they end, and stopped together."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from cosend.errors import CosendError, in_one_line
from cosend.local.compiling import is_compiled
from cosend.local.log import Log
from cosend.local.plan import Part, Plan
from cosend.local.processes import Family

BROKER_S: Final = 10.0  # how long a broker has time to listen
STOP_S: Final = 5.0  # how long sites have time to leave a snapshot; what they have answered is on the disk anyway
FIRST_REST_S, LONGEST_REST_S = 1.0, 30.0  # before a process is started again
STEADY_S: Final = 60.0  # who ran so long before it ended is started again as quickly as the first time
HOPELESS: Final = "exit code 2"  # the exit code of a command that cannot work as it was given
# What is said goes through a pipe: unbroken, without colours, and at once.
PLAIN: Final = {"COLUMNS": "10000", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "FORCE_COLOR": "", "TTY_COMPATIBLE": "0"}
TROUBLE: Final = ("[WRN]", "[ERR]", "[FTL]")  # what is worth showing of what a nats-server says


class Running:
    """The processes of a plan."""

    def __init__(self, plan: Plan, family: Family, log: Log) -> None:
        self._plan, self._family, self._log = plan, family, log
        self._processes: dict[str, Process] = {}
        self._stopping = asyncio.Event()
        self._held: dict[str, asyncio.Event] = {}  # those that somebody has stopped, until they may run again
        self._hopeless: set[str] = set()
        self.killed: list[str] = []  # who had to be ended the hard way

    def stop(self) -> None:
        """Have everything stop."""
        self._stopping.set()

    def is_held(self, name: str) -> bool:
        """Tell whether somebody has stopped a process."""
        return name in self._held

    def hold(self, name: str) -> None:
        """End a process the hard way, as a crash would, and do not start it again before `release`."""
        self._held.setdefault(name, asyncio.Event())
        process = self._processes.get(name)
        if process is not None and process.returncode is None:
            process.kill()
        self._log.say(f"{name} was killed, and stays down until you start it again")

    def release(self, name: str) -> None:
        """Start a process again that was held."""
        held = self._held.pop(name, None)
        if held is not None:
            held.set()
            self._log.say(f"{name} is started again")

    async def run(self) -> bool:
        """Run all of it until `stop`; tells whether that was it, and not that no site could be run."""
        sites, broker = self._plan.sites, self._plan.broker
        tasks = [] if broker is None else [asyncio.create_task(self._keep(broker))]
        try:
            if broker is not None:
                await self._until_it_listens(broker)
            await self._compile()
            tasks += [asyncio.create_task(self._keep(site)) for site in sites]
            await self._stopping.wait()
        finally:
            self._stopping.set()
            await self._end([site.name for site in sites])
            await self._end([] if broker is None else [broker.name])
            await _cancelled(tasks)
        return len(self._hopeless) < len(sites)

    async def _compile(self) -> None:
        """Have the rules compiled once, and not by every site."""
        if self._stopping.is_set() or is_compiled():
            return
        self._log.say("compiling the rules, which takes a while the first time")
        compiling = Part("compiling", [sys.executable, "-m", "cosend.local.compiling"], "")
        stopping = asyncio.create_task(self._stopping.wait())
        done = asyncio.create_task(self._one_run(compiling))  # if it fails, it says why, and the sites find out
        await asyncio.wait([stopping, done], return_when=asyncio.FIRST_COMPLETED)
        await _cancelled([stopping, done])

    async def _keep(self, part: Part) -> None:
        """Run a process, and again when it has ended, unless there is no use in that."""
        rest_s, starts = FIRST_REST_S, 0
        while not self._stopping.is_set():
            if part.name in self._held:
                await self._until_released(part.name)
                continue
            began, starts = time.monotonic(), starts + 1
            how = await self._one_run(part)
            if self._stopping.is_set():
                return
            if part.name in self._held:
                continue
            if how == HOPELESS and starts == 1:
                self._give_up(part)
                return
            rest_s = FIRST_REST_S if time.monotonic() - began > STEADY_S else rest_s
            self._log.say(f"{part.name} has ended ({how}), and is started again in {rest_s:g} s")
            await self._rest(rest_s)
            rest_s = min(LONGEST_REST_S, 2 * rest_s)

    async def _until_released(self, name: str) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._held[name], self._stopping)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(waits)

    def _give_up(self, part: Part) -> None:
        self._log.say(f"{part.name} cannot be started, and is left out")
        self._hopeless.add(part.name)
        if len(self._hopeless) == len(self._plan.sites) or part is self._plan.broker:
            self._stopping.set()

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _one_run(self, part: Part) -> str:
        """Run a process to its end, and return how that was."""
        try:
            child = await self._family.start(part.command, **PLAIN)
        except OSError as error:
            return in_one_line(error)
        self._processes[part.name] = child.process
        said = asyncio.create_task(self._pass_on(part, child.said))
        try:
            code = await child.process.wait()
            await asyncio.wait([said], timeout=1.0)  # what it has started may hold the pipe for longer
        finally:
            await _cancelled([said])
            child.transport.close()
        return described(code)

    async def _pass_on(self, part: Part, said: asyncio.StreamReader) -> None:
        """Print what a process says."""
        while True:
            try:
                line = await said.readline()
            except ValueError:  # longer than anybody wants to read
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            if text and (part is not self._plan.broker or any(word in text for word in TROUBLE)):
                self._log.line(part.name, text)

    async def _until_it_listens(self, broker: Part) -> None:
        address = urlsplit(broker.url)
        until = time.monotonic() + BROKER_S
        while not self._stopping.is_set():
            with suppress(OSError):
                _, writer = await asyncio.open_connection(address.hostname, address.port)
                writer.close()
                return
            if time.monotonic() > until:
                raise CosendError(f"{broker.command[0]} does not listen on {broker.url} after {BROKER_S:g} s")
            await asyncio.sleep(0.02)

    async def _end(self, names: list[str]) -> None:
        """Stop processes, those that take too long the hard way."""
        running = {name: self._processes[name] for name in names if name in self._processes}
        running = {name: process for name, process in running.items() if process.returncode is None}
        for process in running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        waits = [asyncio.create_task(process.wait()) for process in running.values()]
        if waits:
            await asyncio.wait(waits, timeout=STOP_S)
        for name, process in running.items():
            if process.returncode is None:
                self.killed.append(name)
                process.kill()
        await asyncio.gather(*waits)


def described(code: int) -> str:
    """Return how a process has ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """End tasks, whatever they are doing."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
