"""`python -m tests.tools.walk`: how much of cosend one item passes, as functions, files and calls that change file.

Each way is traced after a warm-up, without the compiler. Functions that run at import, comprehensions and lambdas do
not count; a coroutine that is resumed is not called again. What a service does is counted with its client, without what
it does all the time, whether items come or not.
"""

from __future__ import annotations

import asyncio
import dis
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = f"{Path('src', 'cosend')}{os.sep}"
WARM_UP = 12  # items before the one that is traced
QUIET_S = 0.3  # after a reply: what follows it is part of the way
IDLE_S = 1.3  # before it: what a service does every second
RUN = ["run", "clinics", "--items", "60", "--seeds", "1", "--out"]

Step = tuple[str, str, str]  # file and name of the function that is called, and the file of the caller


def _within(file: str) -> str:
    """Return the path of a file within the package, "" of any other."""
    return file.rpartition(PACKAGE)[2] if PACKAGE in file else ""


def _caller(frame: FrameType) -> str:
    """Return the file of the cosend function that called, "" if an event loop or a thread did."""
    back = frame.f_back
    while back is not None and not _within(back.f_code.co_filename):
        back = back.f_back
    return "" if back is None else _within(back.f_code.co_filename)


@cache
def _first(code: CodeType) -> int:
    """Return where a function stands when it is called; a coroutine that is resumed stands further on."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")


class Tracer:
    """Notes the calls within cosend in all threads that start after it was made."""

    def __init__(self) -> None:
        self._steps: list[Step] | None = None
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, _: Any) -> None:
        code, steps = frame.f_code, self._steps
        file = _within(code.co_filename) if steps is not None and event == "call" else ""
        if steps is not None and file and frame.f_lasti <= _first(code) and not code.co_qualname.endswith(">"):
            steps.append((file, code.co_qualname, _caller(frame)))

    @contextmanager
    def walk(self, name: str) -> Iterator[None]:
        """Print a row of the table for what is done in the block, and its functions if they are wanted."""
        self._steps = []
        time.sleep(IDLE_S)
        always, self._steps = {step[:2] for step in self._steps}, []
        yield
        time.sleep(QUIET_S)
        steps, self._steps = Counter(step for step in self._steps if step[:2] not in always), None
        functions = list(dict.fromkeys((file, function) for file, function, _ in steps))
        changes = sum(count for (file, _, caller), count in steps.items() if caller not in ("", file))
        files = len({file for file, _ in functions})
        print(f"| {name} | {steps.total()} | {len(functions)} | {files} | {changes} |")
        if "--list" in sys.argv:
            print("\n".join(f"  {file}: {function}" for file, function in functions))


def an_item(number: int) -> dict[str, Any]:
    return {"age": float(number * 37 % 100), "weight": float(number * 11 % 90)}


def walk_two(tracer: Tracer, name: str, classify: Callable[[Any], Any], learn: Callable[[Any], Any]) -> None:
    for number in range(WARM_UP):
        learn(classify(an_item(number)))
    with tracer.walk(f"{name}: an item"):
        decided = classify(an_item(WARM_UP))
    with tracer.walk(f"{name}: its label"):
        learn(decided)


@contextmanager
def in_a_loop() -> Iterator[Callable[[Any], Any]]:
    """Give what runs a coroutine in the event loop of another thread, and waits for it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def walk_to_a_peer(tracer: Tracer, folder: Path) -> None:
    """Walk the way of an item through two running sites, without HTTP: only the peer has a model that is right."""
    from cosend.runtime.label_intake import Given
    from cosend.transport.in_process import Hub
    from tests.node.pairs import two

    def classify(item: Any) -> Any:
        (decided,) = done(north.classify([item]))
        asked.append(decided.arm)
        return decided

    asked = list[str]()
    with in_a_loop() as done:
        sites = two(folder, Hub(), lambda _: "well", lambda _: "ill")
        north, _ = done(sites.__aenter__())
        walk_two(tracer, "a peer", classify, lambda decided: done(north.label([Given(decided.id, "ill")])))
        done(sites.__aexit__(None, None, None))
    assert asked[-1] == "south"


def main() -> None:
    """Print the table."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    tracer = Tracer()

    from typer.testing import CliRunner

    from cosend import Site
    from cosend.cli.main import app
    from cosend.client import Client
    from tests.server.services import served

    print("| way | calls | functions | files | calls that change file |\n|---|---|---|---|---|")
    models: dict[str, Any] = {"a": lambda _: "ill", "b": lambda item: "ill" if item["age"] < 30 else "well"}
    site = Site("north", classifiers=models)
    walk_two(tracer, "Site", site.classify, lambda decision: site.learn(decision, "ill"))
    with tempfile.TemporaryDirectory() as folder:
        with served(Path(folder)) as (address, _), Client(address) as client:
            walk_two(tracer, "a service", client.classify, lambda decision: client.learn(decision, "ill"))
        walk_to_a_peer(tracer, Path(folder))
        command = [*RUN, folder]
        CliRunner().invoke(app, command)
        with tracer.walk("cosend run clinics"):
            CliRunner().invoke(app, command)


if __name__ == "__main__":
    main()
