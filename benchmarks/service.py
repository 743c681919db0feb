"""The service of a site under load, beside servers that only echo: `python -m benchmarks.service`, and in `make bench`.

    pydantic    FastAPI and Pydantic, in and out: what most would write
    msgspec     routes as the service has them, with nothing behind them
    durable     a site; all that it answers is on the disk
    memory      a site that does not wait for the disk
    default     as durable, but a site that is told no policy: it runs all its models on every item, and mixes views
    features    as default, but it looks at every feature: it gets items with twenty
    learnt      the same, and it learns trees and a stack from its labels: what a site is that is told nothing

All take the same items and give replies of the same form and size. Each is a process; the load comes from one more.
They are measured in turns, several times, and medians are shown: a machine that does other things disturbs all alike.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row, show, yes
from benchmarks.service_processes import Load, Seen, Server, put_under, server, start_load
from benchmarks.service_servers import KINDS

OUT = Path("out")  # not the system's folder for temporary files, which may be in memory
ONE, MANY, WIDE = Load(1, 32), Load(64, 8), Load(1, 64)
LEARN = (Load(64, 8, features=20), Load(64, 8, labels=True, features=20))
LOADS = (ONE, MANY, Load(1, 32, labels=True), Load(64, 8, labels=True), WIDE, *LEARN)
ROUNDS = 3
ROUND_S = 1.0
EVENTS = 1_000_000
SOAK_S = 180.0
SOAK_KEEP_S = 10  # that decisions are remembered
SOAK_EVERY_S = 2.0
SOAK_LOAD = Load(64, 8, labels=True, pause=0.1)  # the same rate all the time, whatever else the machine does
MEGABYTE = 2**20
Key = tuple[str, Load]


def measured(rounds: int, seconds: float, tell: Callable[[str], None]) -> dict[Key, list[Seen]]:
    """Return what clients have seen of every server under every load, once for each round."""
    seen: dict[Key, list[Seen]] = {}
    with Place() as place, ExitStack() as stack:
        servers = [stack.enter_context(server(kind, place / kind)) for kind in KINDS]
        for each in servers:
            wide = each.kind in ("features", "learnt")
            put_under(LEARN[1] if wide else Load(64, 8, labels=True), each, 0.5)  # compiled code is loaded now
        for number in range(rounds):
            for load in LOADS:
                tell(f"service: round {number + 1} of {rounds}, {load}")
                for each in asked(servers, load):
                    seen.setdefault((each.kind, load), []).append(put_under(load, each, seconds))
    return seen


def asked(servers: Iterable[Server], load: Load) -> list[Server]:
    """Return the servers that are put under a load: 64 clients only compare a site with itself."""
    kinds: Sequence[str] = KINDS[:-2]
    if load in LEARN:
        kinds = ("pydantic", "features", "learnt")
    elif load is WIDE:
        kinds = ("durable", "memory")
    return [each for each in servers if each.kind in kinds]


class Place:
    """A folder on the disk that is removed afterwards."""

    def __enter__(self) -> Path:
        OUT.mkdir(exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(dir=OUT, prefix="bench-", ignore_cleanup_errors=True)
        return Path(self._folder.name)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def figures(seen: dict[Key, list[Seen]]) -> Table:
    """Return the medians as a table."""
    columns = ("server", "batch x clients", "items/s", "p50 ms", "p99 ms", "processor us/item")
    table = Table(*columns, title="the service under load")
    for load in LOADS:
        for kind in KINDS:
            if (kind, load) in seen:
                speed, middle, slow, busy = (median(values) for values in zip(*seen[kind, load], strict=True))
                ms = f"{middle * 1e3:.1f}", f"{slow * 1e3:.1f}"
                table.add_row(kind, str(load), f"{speed:,.0f}", *ms, f"{busy * 1e6:.1f}")
        table.add_section()
    return table


def ratio(seen: dict[Key, list[Seen]], load: Load, other: str, what: str, *, site: str = "durable") -> float:
    """Return how a site compares with another server: the median of the rounds, each by itself."""
    pairs = zip(seen[site, load], seen[other, load], strict=True)
    found: float = median(getattr(ours, what) / getattr(theirs, what) for ours, theirs in pairs)
    return found


def compared(seen: dict[Key, list[Seen]]) -> list[Row]:
    """Return what must hold between the servers."""
    rows = []
    for load, least in ((ONE, 1.2), (MANY, 0.9)):
        speed, slow = ratio(seen, load, "pydantic", "items_per_s"), ratio(seen, load, "pydantic", "p99")
        rows.append(Row(f"durable / pydantic, {load}", f"{speed:.2f} x items/s", f">= {least}", yes(speed >= least)))
        rows.append(Row("", f"{slow:.1f} x p99", "<= 3", yes(slow <= 3)))
    speed = ratio(seen, WIDE, "memory", "items_per_s")
    rows.append(Row(f"durable / memory, {WIDE}", f"{speed:.2f} x items/s", ">= 0.5", yes(speed >= 0.5)))
    for load, least in zip(LEARN, (0.4, 0.3), strict=True):
        speed = ratio(seen, load, "pydantic", "items_per_s", site="learnt")
        slow = ratio(seen, load, "features", "p99", site="learnt")
        rows.append(Row(f"learnt / pydantic, {load}", f"{speed:.2f} x items/s", f">= {least}", yes(speed >= least)))
        rows.append(Row("learnt / features", f"{slow:.1f} x p99", "<= 1.2", yes(slow <= 1.2)))
    return rows


def start_row(events: int, tell: Callable[[str], None]) -> Row:
    """Measure a start from a long log, in a process of its own."""
    tell(f"service: writing {events:,} events, then starting from them")
    with Place() as place:
        command = [sys.executable, "-m", "benchmarks.service_start", str(place / "site"), str(events)]
        told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603 - ours
    found = json.loads(told)
    spent, busy, size = found["start_s"], found["busy_s"], found["bytes"] / MEGABYTE
    shown = f"{spent:.2f} s, processor {busy:.2f} s, {size:.0f} MB"
    return Row(f"start with {events:,} events", shown, "<= 3 s", yes(spent <= 3))


def soak_rows(seconds: float, tell: Callable[[str], None]) -> list[Row]:
    """Put a durable site with a short memory under load for minutes: its process and its files must not go on growing.

    What it had in the second third of the time is compared with the last third: the first is for filling up.
    """
    sizes: list[tuple[int, int]] = []
    begun = time.monotonic()
    with (
        Place() as place,
        server("durable", place / "site", "--keep-s", str(SOAK_KEEP_S)) as running,
        start_load(SOAK_LOAD, running, seconds) as clients,
    ):
        try:
            while (now := time.monotonic() - begun) < seconds:
                sizes.append((running.memory(), running.on_disk()))
                memory, files = (size / MEGABYTE for size in sizes[-1])
                tell(f"soak: {now:.0f} of {seconds:.0f} s, memory {memory:.0f} MB, files {files:.0f} MB")
                time.sleep(SOAK_EVERY_S)
            clients.wait(30)
        finally:
            clients.kill()
    if clients.returncode:
        raise SystemExit("the load of the soak failed")
    memory_sizes, file_sizes = zip(*sizes, strict=True)
    return [_growth(f"memory, soak of {seconds:.0f} s", memory_sizes), _growth("its files", file_sizes)]


def _growth(what: str, sizes: Sequence[int]) -> Row:
    """Return a row of the soak; a tenth more in the last third is noise, twice as much would be a leak."""
    third = len(sizes) // 3
    before, after = max(sizes[third : 2 * third]), max(sizes[2 * third :])
    shown = f"{before / MEGABYTE:.0f} -> {after / MEGABYTE:.0f} MB"
    return Row(what, shown, "<= 1.1 x", yes(after <= 1.1 * max(1, before)))


def measure(console: Console, given: argparse.Namespace) -> list[Row]:
    """Measure everything, print the figures, and return what has a goal."""
    with console.status("service") as status:
        rows = []
        if given.rounds:
            seen = measured(given.rounds, given.seconds, status.update)
            console.print(figures(seen))
            rows += compared(seen)
        if given.events:
            rows.append(start_row(given.events, status.update))
        if given.soak:
            rows += soak_rows(given.soak, status.update)
    return rows


def options(scale: float = 1.0) -> argparse.ArgumentParser:
    """Return what can be chosen, with `scale` times the usual durations; 0 leaves a part out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of all servers and loads")
    parser.add_argument("--seconds", type=float, default=max(0.3, ROUND_S * scale), help="for each of them")
    parser.add_argument("--events", type=int, default=int(EVENTS * scale), help="in the log of the start")
    parser.add_argument("--soak", type=float, default=max(12.0, SOAK_S * scale), help="seconds of the soak")
    return parser


if __name__ == "__main__":
    try:
        show(measure(Console(), options().parse_args()), "the service")
    except KeyboardInterrupt:
        sys.exit(130)
