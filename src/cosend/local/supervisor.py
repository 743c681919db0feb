"""The processes of a network on this machine: started, restarted when they end, and stopped together."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from cosend.errors import CosendError, in_one_line
from cosend.local.plan import Part, Plan
from cosend.local.precompile import is_compiled
from cosend.local.process_log import ProcessLog

GRACE_S: Final = 5  # for processes whose supervisor is gone
GUARD: Final = f"trap '' INT TERM HUP; read -r _; kill -TERM 0; sleep {GRACE_S}; kill -KILL 0"
LONGEST_LINE: Final = 2**20  # bytes of a line that is shown
BROKER_S: Final = 10.0  # how long a broker has time to listen
STOP_S: Final = 5.0  # how long sites have time to leave a snapshot; what they have answered is on disk anyway
FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 30.0  # before a restart
STEADY_S: Final = 60.0  # after running this long, a process is restarted after the first delay again
WRONG_COMMAND: Final = "exit code 2"  # of a command that cannot work as it was given
# Output goes through a pipe: unbroken, without colours, and at once.
PLAIN: Final = {"COLUMNS": "10000", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "FORCE_COLOR": "", "TTY_COMPATIBLE": "0"}
BROKER_TROUBLE: Final = ("[WRN]", "[ERR]", "[FTL]")  # lines of a nats-server that are worth showing
STOP_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")  # names, because Windows does not know the last one
NO_SITE, KILLED = 1, 130  # exit codes


class Child(NamedTuple):
    """A process and its output.

    The pipe is our own: `Process.wait` of asyncio would wait until all that the process has started close theirs.
    """

    process: Process
    output: asyncio.StreamReader  # with errors
    transport: asyncio.ReadTransport


class ProcessGroup:
    """A group of processes that end with this one, however it ends, and that Ctrl-C in a terminal does not reach.

    A shell leads the group and reads from a pipe whose other end only this process holds. The kernel closes it even at
    a SIGKILL, and then the shell ends the group.
    """

    def __enter__(self) -> Self:
        self._guard = subprocess.Popen(  # noqa: S603 - our own
            ["/bin/sh", "-c", GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    async def start(self, command: Sequence[str], **environment: str) -> Child:
        """Start a process."""
        read, write = os.pipe()
        pipe = os.fdopen(read, "rb")
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                env={**os.environ, **environment},
                process_group=self._guard.pid,
            )
        except BaseException:
            pipe.close()
            raise
        finally:
            os.close(write)
        output = asyncio.StreamReader(limit=LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(output)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        return Child(process, output, transport)

    def kill(self) -> None:
        """End all of them at once, also those that they have started."""
        if self._guard.returncode is None:  # nobody has waited for it, so its pid is still that of the group
            os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.communicate()


class Supervisor:
    """Runs the processes of a plan."""

    def __init__(self, plan: Plan, group: ProcessGroup, log: ProcessLog) -> None:
        self._plan, self._group, self._log = plan, group, log
        self._processes: dict[str, Process] = {}
        self._stopping = asyncio.Event()
        self._down: dict[str, asyncio.Event] = {}  # killed by a person, until they may run again
        self._given_up: set[str] = set()

    def stop(self) -> None:
        """Have everything stop."""
        self._stopping.set()

    def toggle(self, name: str) -> None:
        """Kill a process, as a crash would, and keep it down; or start it again."""
        down = self._down.pop(name, None)
        if down is not None:
            down.set()
            self._log.say(f"{name} is started again")
            return
        self._down[name] = asyncio.Event()
        process = self._processes.get(name)
        if process is not None and process.returncode is None:
            process.kill()
        self._log.say(f"{name} was killed, and stays down until you start it again")

    async def run(self) -> bool:
        """Run all of it until `stop`; return whether any site could be run."""
        sites, broker = self._plan.sites, self._plan.broker
        tasks = [] if broker is None else [asyncio.create_task(self._keep_up(broker))]
        try:
            if broker is not None:
                await self._until_it_listens(broker)
            await self._precompile()
            tasks += [asyncio.create_task(self._keep_up(site)) for site in sites]
            await self._stopping.wait()
        finally:
            self._stopping.set()
            await self._end([site.name for site in sites])
            await self._end([] if broker is None else [broker.name])
            await _cancel(tasks)
        return len(self._given_up) < len(sites)

    async def _precompile(self) -> None:
        """Compile the rules once, and not in every site."""
        if self._stopping.is_set() or is_compiled():
            return
        self._log.say("compiling the rules, which takes a while the first time")
        part = Part("compiling", [sys.executable, "-m", "cosend.local.precompile"], "")
        await self._first_of(self._run_once(part), self._stopping.wait())  # if it fails, the sites find out

    async def _keep_up(self, part: Part) -> None:
        """Run a process, and restart it when it has ended, unless that is of no use."""
        delay_s, starts = FIRST_DELAY_S, 0
        while not self._stopping.is_set():
            if part.name in self._down:
                await self._first_of(self._down[part.name].wait(), self._stopping.wait())
                continue
            began, starts = time.monotonic(), starts + 1
            how = await self._run_once(part)
            if self._stopping.is_set() or part.name in self._down:
                continue
            if how == WRONG_COMMAND and starts == 1:
                self._give_up(part)
                return
            delay_s = FIRST_DELAY_S if time.monotonic() - began > STEADY_S else delay_s
            self._log.say(f"{part.name} has ended ({how}), and restarts in {delay_s:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)
            delay_s = min(LONGEST_DELAY_S, 2 * delay_s)

    def _give_up(self, part: Part) -> None:
        self._log.say(f"{part.name} cannot be started, and is left out")
        self._given_up.add(part.name)
        if len(self._given_up) == len(self._plan.sites) or part is self._plan.broker:
            self.stop()

    async def _run_once(self, part: Part) -> str:
        """Run a process to its end, and return how it ended."""
        try:
            child = await self._group.start(part.command, **PLAIN)
        except OSError as error:
            return in_one_line(error)
        self._processes[part.name] = child.process
        showing = asyncio.create_task(self._show(part, child.output))
        try:
            code = await child.process.wait()
            await asyncio.wait([showing], timeout=1.0)  # what it has started may hold the pipe for longer
        finally:
            await _cancel([showing])
            child.transport.close()
        return described(code)

    async def _show(self, part: Part, output: asyncio.StreamReader) -> None:
        shows_all = part is not self._plan.broker
        while True:
            try:
                line = await output.readline()
            except ValueError:  # longer than LONGEST_LINE
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            if text and (shows_all or any(word in text for word in BROKER_TROUBLE)):
                self._log.line(part.name, text)

    async def _until_it_listens(self, broker: Part) -> None:
        address, until = urlsplit(broker.url), time.monotonic() + BROKER_S
        while not self._stopping.is_set():
            with suppress(OSError):
                _, writer = await asyncio.open_connection(address.hostname, address.port)
                writer.close()
                return
            if time.monotonic() > until:
                raise CosendError(f"{broker.command[0]} does not listen on {broker.url} after {BROKER_S:g} s")
            await asyncio.sleep(0.02)

    async def _end(self, names: list[str]) -> None:
        """Stop processes, and kill those that take too long."""
        found = {name: self._processes[name] for name in names if name in self._processes}
        running = {name: process for name, process in found.items() if process.returncode is None}
        for process in running.values():
            with suppress(ProcessLookupError):
                process.terminate()
        waits = [asyncio.create_task(process.wait()) for process in running.values()]
        if waits:
            await asyncio.wait(waits, timeout=STOP_S)
        for name, process in running.items():
            if process.returncode is None:
                self._log.say(f"{name} took too long to stop, and was killed; what it had answered is on the disk")
                process.kill()
        await asyncio.gather(*waits)

    async def _first_of(self, *waits: Awaitable[Any]) -> None:
        tasks = [asyncio.ensure_future(each) for each in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await _cancel(tasks)


async def run_plan(
    plan: Plan, log: ProcessLog, meanwhile: Callable[[Supervisor], Awaitable[None]] | None = None
) -> int:
    """Run a network until a signal says stop, and return the exit code; a second signal kills everything.

    meanwhile  what else to do; the network stops when that is done
    """
    if os.name != "posix":
        raise CosendError("processes are started on Linux and macOS only; start each site with `cosend serve`")
    signals = 0
    with ProcessGroup() as group:
        supervisor = Supervisor(plan, group, log)

        def stop() -> None:
            nonlocal signals
            signals += 1
            if signals == 1:
                log.say("stopping; Ctrl-C again stops it at once")
                supervisor.stop()
            else:
                group.kill()

        log.when_closed = supervisor.stop
        if log.is_closed:
            supervisor.stop()
        for each in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(getattr(signal, each), stop)
        network = asyncio.create_task(supervisor.run())
        other = None if meanwhile is None else asyncio.ensure_future(meanwhile(supervisor))
        await asyncio.wait([network, *([other] if other else [])], return_when=asyncio.FIRST_COMPLETED)
        supervisor.stop()
        has_run = await network
        if other is not None and not other.cancel():
            await other  # it may have failed
        elif other is not None:
            await asyncio.wait([other])
    log.say("stopped" if has_run else "no site could be started")
    return KILLED if signals > 1 else 0 if has_run else NO_SITE


def described(code: int) -> str:
    """Return how a process has ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


async def _cancel(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
