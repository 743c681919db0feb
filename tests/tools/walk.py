"""`python -m tests.tools.walk`: how much of cosend one item passes, as functions, files and calls that change file.

Each way is traced in a process of its own, without the compiler, after a warm-up. A service is `cosend serve` with a
network file, so that only public surfaces are used. Functions that run at import, comprehensions and lambdas do not
count; a coroutine that is resumed is not called again.
"""

from __future__ import annotations

import argparse
import dis
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, TextIO

from tests.tools.processes import Service, broker, environment, free_port, run_command

PACKAGE = f"{Path('src', 'cosend')}{os.sep}"
WARM_UP = 12  # items before the one that is traced
TRIES = 60  # items until a peer is used
IDLE_S = 1.0
QUIET_S = 0.3  # after a reply: what follows it is part of the way
RUN = ["run", "clinics", "--items", "60", "--seeds", "1", "--out", "out"]
LIMITS = {  # files, as issue 24 asks for
    "Site.classify": 14,
    "POST /v1/classify": 20,
    "POST /v1/classify, answered by a peer": 30,
    "cosend run clinics": 40,
}
NETWORK = """
[[sites]]
name = "north"
[[sites.classifiers]]
name = "wrong"
model = "models:wrong"
[[sites.classifiers]]
name = "always"
model = "models:always"
"""
SOUTH = """
[[sites]]
name = "south"
[[sites.classifiers]]
name = "right"
model = "models:right"
[network]
deadline_s = 20.0
"""
MODELS = """
def right(item):
    return "ill" if item["age"] < 30 else "well"

def wrong(item):
    return "well" if item["age"] < 30 else "ill"

def always(item):
    return "odd"
"""


Step = tuple[str, str, str]  # file and name of the function that is called, and the file of the caller


class Walk(NamedTuple):
    """What was passed: how often each step was taken, in the order of the first times."""

    steps: dict[Step, int]

    @property
    def functions(self) -> list[tuple[str, str]]:
        """Return the functions with their files, in the order of their first calls."""
        return list(dict.fromkeys((file, name) for file, name, _ in self.steps))

    @property
    def files(self) -> list[str]:
        """Return the files in the order in which they were entered."""
        return list(dict.fromkeys(file for file, _ in self.functions))

    @property
    def calls(self) -> int:
        """Return the number of calls."""
        return sum(self.steps.values())

    @property
    def changes(self) -> int:
        """Return the number of calls into another file than that of the caller."""
        return sum(count for (file, _, caller), count in self.steps.items() if caller not in ("", file))

    def without(self, functions: Collection[tuple[str, str]]) -> Walk:
        """Return the walk without some functions, such as those that run when nothing is asked either."""
        return Walk({step: count for step, count in self.steps.items() if step[:2] not in functions})


def together(walks: Iterable[Walk]) -> Walk:
    """Return the walks of several processes as one."""
    steps = Counter[Step]()
    for walk in walks:
        steps.update(walk.steps)
    return Walk(steps)


def written(walks: dict[str, Walk]) -> str:
    """Return walks as a line of text."""
    return json.dumps({name: [[*step, count] for step, count in walk.steps.items()] for name, walk in walks.items()})


def read(line: str) -> dict[str, Walk]:
    """Return the walks of a line of text."""
    return {
        name: Walk({(file, function, caller): count for file, function, caller, count in steps})
        for name, steps in json.loads(line).items()
    }


class Tracer:
    """Notes the calls within cosend in all threads that start after it was installed."""

    def __init__(self) -> None:
        self.is_on = False
        self._steps: list[Step] = []

    def install(self) -> None:
        """Trace this thread and all that start from now on."""
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def start(self) -> None:
        """Begin a walk."""
        self._steps.clear()
        self.is_on = True

    def stop(self) -> Walk:
        """End a walk and return it."""
        self.is_on = False
        return Walk(Counter(self._steps))

    def _trace(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call":
            code = frame.f_code
            file = _within(code.co_filename)
            if file and frame.f_lasti <= _first(code) and not code.co_qualname.endswith(">"):
                self._steps.append((file, code.co_qualname, _caller(frame)))


@cache
def _first(code: CodeType) -> int:
    """Return where a function stands when it is called; a coroutine that is resumed stands further on."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")


def _within(file: str) -> str:
    """Return the path of a file within the package, "" of any other."""
    return file.rpartition(PACKAGE)[2] if PACKAGE in file else ""


def _caller(frame: FrameType) -> str:
    """Return the file of the cosend function that called, "" if an event loop or a thread did."""
    back = frame.f_back
    while back is not None and not _within(back.f_code.co_filename):
        back = back.f_back
    return "" if back is None else _within(back.f_code.co_filename)


# In the processes that are traced


def trace_site(_: list[str], output: TextIO) -> None:
    """Trace a `Site` of the library."""
    from cosend import Site

    tracer = Tracer()
    site = Site("north", classifiers={"a": lambda _: "ill", "b": lambda item: "ill" if item["age"] < 30 else "well"})
    items = [{"age": float(n * 37 % 100), "weight": float(n * 11 % 90)} for n in range(WARM_UP + 1)]
    for item in items[:-1]:
        site.learn(site.classify(item), "ill")
    tracer.install()
    tracer.start()
    decision = site.classify(items[-1])
    classify = tracer.stop()
    tracer.start()
    site.learn(decision, "ill")
    learn = tracer.stop()
    sys.settrace(None)
    print(written({"Site.classify": classify, "Site.learn": learn}), file=output)


def trace_command(arguments: list[str], output: TextIO) -> None:
    """Run a command of cosend twice, and trace it the second time."""
    tracer = Tracer()
    _command(arguments)
    tracer.install()
    tracer.start()
    _command(arguments)
    walk = tracer.stop()
    sys.settrace(None)
    print(written({"walk": walk}), file=output)


def trace_service(arguments: list[str], output: TextIO) -> None:
    """Run `cosend serve`; lines of the standard input start and stop its walks."""
    tracer = Tracer()

    def obey() -> None:
        for line in sys.stdin:
            if line.strip() == "start":
                tracer.start()
            else:
                print(written({"walk": tracer.stop()}), file=output, flush=True)

    threading.Thread(target=obey, daemon=True).start()
    tracer.install()
    _command(arguments)


def _command(arguments: list[str]) -> None:
    try:
        run_command(arguments)
    except SystemExit as end:
        if end.code:
            raise


# In the process that prints the table


class Traced(Service):
    """A service that is traced, in a process."""

    def __init__(self, folder: Path, site: str, *options: str) -> None:
        port = free_port()
        command = ["serve", "network.toml", "--site", site, "--port", str(port), "--no-dashboard", *options]
        self.child = _child("service", *command, folder=folder)
        super().__init__(port, self.child.pid)

    def start(self) -> None:
        """Begin a walk."""
        self._say("start")

    def stop(self) -> Walk:
        """End a walk and return it."""
        self._say("stop")
        assert self.child.stdout is not None
        return read(self.child.stdout.readline())["walk"]

    def _say(self, word: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{word}\n")
        self.child.stdin.flush()


def _child(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.tools.walk", "--child", *arguments]
    return subprocess.Popen(  # noqa: S603 - our own
        command,
        cwd=folder,
        env=environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _said(*arguments: str, folder: Path) -> dict[str, Walk]:
    """Return the walks that a process prints as its last line."""
    with _child(*arguments, folder=folder) as process:
        lines = process.communicate()[0].splitlines()
    if process.returncode:
        raise RuntimeError(f"{arguments} has failed")
    return read(lines[-1])


@contextmanager
def services(folder: Path, *sites: str, options: tuple[str, ...] = ()) -> Iterator[list[Traced]]:
    """Run sites of the network file of a folder until the block ends."""
    with ExitStack() as stack:
        running = []
        for site in sites:
            running.append(Traced(folder, site, *options))
            stack.callback(running[-1].child.communicate)
            stack.callback(running[-1].child.kill)
        for each in running:
            each.wait_until_ready()
        yield running


class Traces:
    """Traces requests to the first of some services in all of them."""

    def __init__(self, services: Sequence[Traced]) -> None:
        self.services = services
        time.sleep(IDLE_S)  # until nothing is left of the warm-up
        for each in services:
            each.start()
        time.sleep(IDLE_S)
        self._idle = {function for each in services for function in each.stop().functions}

    def one(self, path: str, body: Any) -> tuple[Walk, Any]:
        """Return the walk of a request, and its answer."""
        for each in self.services:
            each.start()
        told = self.services[0].ask(path, body)
        time.sleep(QUIET_S)
        return together(each.stop() for each in self.services).without(self._idle), told


def an_item(number: int) -> dict[str, Any]:
    """Return the body of a request with an item."""
    return {"items": [{"features": {"age": number * 37 % 100, "weight": number * 11 % 90}}]}


def labels_of(decided: Any) -> dict[str, Any]:
    """Return the body of a request with labels for what was decided, which the local models of north never give."""
    return {"labels": [{"id": each["id"], "label": "ill"} for each in decided["decisions"]]}


def walk_service(folder: Path) -> dict[str, Walk]:
    """Trace an item and its label at a service without peers."""
    folder.mkdir()
    (folder / "network.toml").write_text(NETWORK)
    (folder / "models.py").write_text(MODELS)
    with services(folder, "north") as running:
        for number in range(WARM_UP):
            running[0].ask("/v1/labels", labels_of(running[0].ask("/v1/classify", an_item(number))))
        traces = Traces(running)
        classify, decided = traces.one("/v1/classify", an_item(WARM_UP))
        labels, _ = traces.one("/v1/labels", labels_of(decided))
    return {"POST /v1/classify": classify, "POST /v1/labels": labels}


def walk_peer(folder: Path) -> dict[str, Walk]:
    """Trace an item that a peer answers, and its label, in both processes."""
    folder.mkdir()
    (folder / "network.toml").write_text(NETWORK + SOUTH)
    (folder / "models.py").write_text(MODELS)
    with broker() as url, services(folder, "north", "south", options=("--nats", url)) as running:
        for number in range(WARM_UP):
            item = {"items": [{"features": {"age": number, "weight": number}}]}
            labels = labels_of(running[0].ask("/v1/classify", item))
            running[0].ask("/v1/labels", {**labels, "wait_for_peers": True})
        traces = Traces(running)
        for number in range(TRIES):
            item = {"items": [{"features": {"age": number % 30, "weight": number}}]}
            classify, decided = traces.one("/v1/classify", item)
            learn, _ = traces.one("/v1/labels", labels_of(decided))
            if decided["decisions"][0]["arm"] == "south":
                break
        else:
            raise RuntimeError("the peer is never used")
    return {"POST /v1/classify, answered by a peer": classify, "POST /v1/labels, of that item": learn}


def all_walks(folder: Path) -> dict[str, Walk]:
    """Trace all ways; `folder` is a new one for what they write."""
    run = _said("command", *RUN, folder=folder)["walk"]
    return {
        **_said("site", folder=folder),
        **walk_service(folder / "alone"),
        **walk_peer(folder / "two"),
        "cosend run clinics": run,
    }


def table(walks: dict[str, Walk]) -> str:
    """Return a row for each way."""
    lines = [
        "| way | calls | functions | files | calls that change file | files at most |",
        "|---|---|---|---|---|---|",
    ]
    for name, walk in walks.items():
        row = name, walk.calls, len(walk.functions), len(walk.files), walk.changes, LIMITS.get(name, "")
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def listing(name: str, walk: Walk) -> str:
    """Return the files of a way in order, each with its functions."""
    names: dict[str, list[str]] = {}
    for file, function in walk.functions:
        names.setdefault(file, []).append(function)
    return "\n".join([f"\n{name}", *(f"  {file}: {', '.join(functions)}" for file, functions in names.items())])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.walk", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the files in order with their functions too")
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    wishes = parser.parse_args()
    if wishes.child:
        kind, *arguments = wishes.child
        output, sys.stdout = sys.stdout, sys.stderr  # what cosend prints is not part of the answer
        {"site": trace_site, "command": trace_command, "service": trace_service}[kind](arguments, output)
        return
    with tempfile.TemporaryDirectory() as folder:
        walks = all_walks(Path(folder))
    print(table(walks))
    if wishes.list:
        for name, walk in walks.items():
            print(listing(name, walk))


if __name__ == "__main__":
    main()
