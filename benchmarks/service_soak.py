"""A soak: a site under load for minutes, with a short memory; its process and its files must not go on growing.

What it had in the second third of the time is compared with the last third: the first is for filling up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.service_processes import Load, Server, server, start_load

KEEP_S = 10  # that decisions are remembered
EVERY_S = 2.0
LOAD = Load(64, 8, labels=True, pause=0.1)  # the same rate all the time, whatever else the machine does
MEGABYTE = 2**20


class Sample(NamedTuple):
    """How large a site was at a time."""

    at_s: float
    memory: int
    on_disk: int


class Soaked(NamedTuple):
    """What the soak has shown; sizes in bytes, the largest of a third of the time."""

    memory: tuple[int, int]
    on_disk: tuple[int, int]

    @property
    def memory_growth(self) -> float:
        return self.memory[1] / max(1, self.memory[0])

    @property
    def disk_growth(self) -> float:
        return self.on_disk[1] / max(1, self.on_disk[0])


def soak(folder: Path, seconds: float, tell: Callable[[str], None]) -> Soaked:
    """Put a durable site under load, and watch it."""
    with server("durable", folder, "--keep-s", str(KEEP_S)) as running, start_load(LOAD, running, seconds) as clients:
        try:
            samples = watched(running, seconds, tell)
            clients.wait(30)
        finally:
            clients.kill()
    if clients.returncode:
        raise SystemExit("the load of the soak failed")
    return compared(samples)


def watched(running: Server, seconds: float, tell: Callable[[str], None]) -> list[Sample]:
    samples, begun = list[Sample](), time.monotonic()
    while (now := time.monotonic() - begun) < seconds:
        samples.append(Sample(now, running.memory(), running.on_disk()))
        memory, files = samples[-1].memory / MEGABYTE, samples[-1].on_disk / MEGABYTE
        tell(f"soak: {now:.0f} of {seconds:.0f} s, memory {memory:.0f} MB, files {files:.0f} MB")
        time.sleep(EVERY_S)
    return samples


def compared(samples: Sequence[Sample]) -> Soaked:
    third = len(samples) // 3
    second, last = samples[third : 2 * third], samples[2 * third :]
    return Soaked(
        (max(each.memory for each in second), max(each.memory for each in last)),
        (max(each.on_disk for each in second), max(each.on_disk for each in last)),
    )
