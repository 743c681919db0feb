"""How long a site takes to start with a long log, after its process has imported everything and has its compiled code.

    python -m benchmarks.service_start FOLDER EVENTS

It makes the folder as a site leaves it that was killed just before its next snapshot was due. Every decision came alone
and has its label: three events each.
Prints, as JSON, seconds to make the folder, to start from it, of the processor for that, and the bytes of the log.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.service_servers import a_setup
from cosend.axes import read_columns
from cosend.engine.events import Event, encode
from cosend.engine.snapshot import state_of
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.log_writer import span
from cosend.runtime.running_site import SNAPSHOT_EVERY, RunningSite
from cosend.store.event_log import EventLog
from cosend.store.log_index import LABEL
from cosend.store.recovery import write_snapshot

PART = 6_000  # decisions that are written at once, so that a snapshot is due after every part


class Filling:
    """A log that is filled with decisions that came one by one, and their labels."""

    def __init__(self, folder: Path) -> None:
        self.log = EventLog(folder, site="bench", durable=False)
        self.events: list[Event] = []
        self.state = a_setup().new_state(self.events.append)

    def fill(self, events: int) -> None:
        draw = np.random.default_rng(0)
        while self.log.position + 3 * PART <= events:
            self.write(draw.uniform(0, 100, PART).tolist())
            if self.log.position + SNAPSHOT_EVERY <= events:
                write_snapshot(self.log, state_of(self.state), self.log.position)
        left = (events - self.log.position) // 3
        self.write(draw.uniform(0, 100, left).tolist())

    def write(self, ages: Sequence[float]) -> None:
        """Decide for items one by one, and learn that their labels are right."""
        labels = [self.decide(age) for age in ages]
        also = [*LABEL.statements(labels)]
        self.log.append([encode(event) for event in self.events], [span(event) for event in self.events], also)
        self.events.clear()

    def decide(self, age: float) -> tuple[int, int]:
        """Decide for one item; returns its number and that of the event in which its label has come."""
        state = self.state
        step = state.choose(state.encode(read_columns(state.encoder.axes, [{"age": age}]))[0])
        id_, arm = step.first, step.arms[0]
        state.complete([id_], [arm])
        state.settle([id_], ["well"], [float(arm == "well")])
        return id_, self.log.position + len(self.events) - 1


async def started(folder: Path) -> tuple[float, float]:
    """Return the seconds that a site takes to start from a folder, and of the processor; it is then stopped."""
    node, begun, busy = RunningSite(a_setup(), folder), time.perf_counter(), time.process_time()
    await node.start()
    spent = time.perf_counter() - begun, time.process_time() - busy
    for decided in await node.classify([{"age": 50.0}]):
        if isinstance(decided, Decided):
            await node.label([Given(decided.id, "well")])
    await node.stop()
    return spent


async def measured(folder: Path, events: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as other:
        for _ in range(2):  # so that all compiled code is there: for deciding, and for starting again
            await started(Path(other))
    begun = time.perf_counter()
    filling = Filling(folder)
    filling.fill(events)
    filling.log.close()
    size = filling.log.file.stat().st_size
    made = time.perf_counter() - begun
    spent, busy = await started(folder)
    return {"made_s": made, "start_s": spent, "busy_s": busy, "bytes": float(size)}


def main() -> None:
    print(json.dumps(asyncio.run(measured(Path(sys.argv[1]), int(float(sys.argv[2]))))))


if __name__ == "__main__":
    main()
