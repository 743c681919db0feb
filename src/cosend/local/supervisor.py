"""The processes of a network on this machine: started, restarted when they end, and stopped together; their log."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from cosend.errors import CosendError, in_one_line
from cosend.local.plan import Part, Plan

GRACE_S: Final = 5  # for processes whose supervisor is gone
GUARD: Final = f"trap '' INT TERM HUP; read -r _; kill -TERM 0; sleep {GRACE_S}; kill -KILL 0"
LONGEST_LINE: Final = 2**20  # characters that are shown as a line
BROKER_S: Final = 10.0  # how long a broker has time to listen
FIRST_S: Final = 300.0  # how long the first site may compile before the others start
STOP_S: Final = 5.0  # how long sites have time to leave a snapshot; what they have answered is on disk anyway
FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 30.0  # before a restart
STEADY_S: Final = 60.0  # after running this long, a process is restarted after the first delay again
LOOK_S: Final = 0.05  # how often is looked at what is awaited
WRONG_COMMAND: Final = "exit code 2"  # of a command that cannot work as it was given
# Output goes through a pipe: unbroken, without colours, and at once.
PLAIN: Final = {"COLUMNS": "10000", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "FORCE_COLOR": "", "TTY_COMPATIBLE": "0"}
BROKER_TROUBLE: Final = ("[WRN]", "[ERR]", "[FTL]")  # lines of a nats-server that are worth showing
STOP_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")  # names, because Windows does not know the last one
NO_SITE, KILLED = 1, 130  # exit codes
COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")
OWN: Final = "cosend"  # the name of the supervisor


class ProcessLog:
    """Prints what processes say, a line at a time, with a name and a colour for each or as lines of JSON."""

    def __init__(self, console: Console, names: Sequence[str], form: Literal["json", "text"] = "text") -> None:
        self._console, self._form = console, form
        self._width = max(map(len, (OWN, *names)))
        self._colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
        self.is_closed = False  # it has no reader any more

    def line(self, name: str, line: str) -> None:
        shown = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)
        if self._form == "json":
            text = Text(shown if line.startswith("{") else json.dumps({"site": name, "event": line}))
        else:
            text = Text.assemble((f"{name:{self._width}} | ", self._colours.get(name, "bold")), shown)
        try:
            self._console.print(text, soft_wrap=True)
        except SystemExit:  # how rich reports a broken pipe; from now on it prints nothing
            self.is_closed = True

    def say(self, line: str) -> None:
        self.line(OWN, line)


class ProcessGroup:
    """A group of processes that end with this one, however it ends, and that Ctrl-C in a terminal does not reach.

    A shell leads the group and reads from a pipe whose other end only this process holds. The kernel closes it even at
    a SIGKILL, and then the shell ends the group.
    """

    def __enter__(self) -> Self:
        quiet = subprocess.DEVNULL
        self._guard = subprocess.Popen(  # noqa: S603 - our own
            ["/bin/sh", "-c", GUARD], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, process_group=0
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 - our own
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **PLAIN},
            process_group=self._guard.pid,
        )

    def kill(self) -> None:
        """End all of them at once, also those that they have started."""
        if self._guard.returncode is None:  # it was not waited for, so its pid still names the group
            os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.communicate()


class Supervisor:
    """Runs the processes of a plan, with a thread for each; what is awaited is looked at a few times in a second."""

    def __init__(self, plan: Plan, group: ProcessGroup, log: ProcessLog) -> None:
        self._plan, self._group, self._log = plan, group, log
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._starting = Lock()  # so that nothing starts during the end
        self._told_to_stop = False
        self._down: set[str] = set()  # killed by a person
        self._ended: set[str] = set()  # at least once
        self._given_up: set[str] = set()

    def stop(self) -> None:
        """Have everything stop; a signal handler may call this, so that nothing is locked."""
        self._told_to_stop = True

    @property
    def is_stopping(self) -> bool:
        return self._told_to_stop or self._log.is_closed

    def toggle(self, name: str) -> None:
        """Kill a process, as a crash would, and keep it down; or restart it."""
        if name in self._down:
            self._log.say(f"{name} restarts")
            self._down.discard(name)
            return
        self._down.add(name)
        if name in self._processes:
            self._processes[name].kill()
        self._log.say(f"{name} was killed, and stays down until you restart it")

    def run(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Run all of it until `stop`, or until something is so; return whether any site could be run."""
        sites, broker = self._plan.sites, self._plan.broker
        threads = [Thread(target=self._keep_up, args=[part]) for part in (*sites, *([broker] if broker else []))]
        try:
            if broker is not None:
                threads[-1].start()
                self._wait_for_broker(broker)
            threads[0].start()  # it compiles the rules if need be, and the others find them in the cache
            self._wait(lambda: sites[0].name in self._ended or is_ready(sites[0].url), FIRST_S)
            for thread in threads[1 : len(sites)]:
                thread.start()
            self._wait(until)
            if self._told_to_stop and len(self._given_up) < len(sites):
                self._log.say("stopping; press Ctrl-C once more to stop at once")
        finally:
            self.stop()
            self._end({name for name in self._processes if broker is None or name != broker.name})
            self._end(set(self._processes))
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        return len(self._given_up) < len(sites)

    def _wait(self, until: Callable[[], bool], seconds: float = float("inf")) -> None:
        """Wait until something is so, at most some seconds, and not when all stops."""
        end = time.monotonic() + seconds
        while not self.is_stopping and not until() and time.monotonic() < end:
            time.sleep(LOOK_S)

    def _keep_up(self, part: Part) -> None:
        """Run a process, and restart it when it has ended, unless that is of no use."""
        delay_s, starts = FIRST_DELAY_S, 0
        while not self.is_stopping:
            if part.name in self._down:
                self._wait(lambda: part.name not in self._down)
                continue
            began, starts = time.monotonic(), starts + 1
            how = self._run_once(part)
            self._ended.add(part.name)
            if self.is_stopping or part.name in self._down:
                continue
            if how == WRONG_COMMAND and starts == 1:
                self._log.say(f"{part.name} cannot be started, and is skipped")
                self._given_up.add(part.name)
                if len(self._given_up) == len(self._plan.sites) or part is self._plan.broker:
                    self.stop()
                return
            delay_s = FIRST_DELAY_S if time.monotonic() - began > STEADY_S else delay_s
            self._log.say(f"{part.name} has ended ({how}), and restarts in {delay_s:g} s")
            self._wait(lambda: False, delay_s)
            delay_s = min(LONGEST_DELAY_S, 2 * delay_s)

    def _run_once(self, part: Part) -> str:
        """Run a process to its end, and return how it ended."""
        with self._starting:
            if self.is_stopping:
                return "not started"
            try:
                process = self._processes[part.name] = self._group.start(part.command)
            except OSError as error:
                return in_one_line(error)
        showing = Thread(target=self._show, args=[part, process], daemon=True)
        showing.start()
        code = process.wait()
        showing.join(1.0)  # what it has started may hold the pipe for longer
        return described(code)

    def _show(self, part: Part, process: subprocess.Popen[str]) -> None:
        pipe: Any = process.stdout
        with pipe:
            while line := pipe.readline(LONGEST_LINE):
                if line.strip() and (part is not self._plan.broker or any(word in line for word in BROKER_TROUBLE)):
                    self._log.line(part.name, line.rstrip())

    def _wait_for_broker(self, broker: Part) -> None:
        address = urlsplit(broker.url)

        def listens() -> bool:
            with suppress(OSError), socket.create_connection((address.hostname, address.port), 1.0):
                return True
            return False

        self._wait(listens, BROKER_S)
        if not self.is_stopping and not listens():
            raise CosendError(f"{broker.command[0]} does not listen on {broker.url} after {BROKER_S:g} s")

    def _end(self, names: set[str]) -> None:
        """Stop processes, and kill those that take too long."""
        with self._starting:
            running = {name: self._processes[name] for name in names if self._processes[name].poll() is None}
        for process in running.values():
            process.terminate()
        end = time.monotonic() + STOP_S
        for name, process in running.items():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._log.say(
                    f"{name} took too long to stop, and was killed; everything it has answered is on the disk"
                )
                process.kill()


def run_plan(plan: Plan, log: ProcessLog, meanwhile: Callable[[Supervisor], None] | None = None) -> int:
    """Run a network until a signal says stop, and return the exit code; a second signal kills everything.

    meanwhile  what else to do, in a thread, until the supervisor stops; the network stops when that is done
    """
    if os.name != "posix":
        raise CosendError("processes are started on Linux and macOS only; start each site with `cosend serve`")
    signals = 0
    with ProcessGroup() as group, ThreadPoolExecutor(1) as executor:
        supervisor = Supervisor(plan, group, log)

        def stop(*_: object) -> None:
            nonlocal signals
            signals += 1
            supervisor.stop()
            if signals > 1:
                group.kill()

        for each in STOP_SIGNALS:
            signal.signal(getattr(signal, each), stop)
        other = None if meanwhile is None else executor.submit(meanwhile, supervisor)
        has_run = supervisor.run(lambda: other is not None and other.done())
        if other is not None:
            other.result()  # it may have failed
    log.say("stopped" if has_run else "no site could be started")
    return KILLED if signals > 1 else 0 if has_run else NO_SITE


def is_ready(url: str) -> bool:
    with suppress(OSError, ValueError), urllib.request.urlopen(f"{url}/health/ready", timeout=1.0):  # noqa: S310 - ours
        return True
    return False


def described(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
