"""`make bench`: how fast the core decides and how much memory it takes, beside the slow twin in the same run.

After it the service of a site under load, its start and its soak (benchmarks/service.py), what open pages cost
(benchmarks/dashboard.py), sites that ask each other over NATS (benchmarks/network.py), and workers
(benchmarks/workers.py): eleven minutes or so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.oracle.twin import Twin, TwinSettings

from benchmarks import dashboard, mixed, network, service, workers
from benchmarks.routing import routed
from benchmarks.rows import Row, yes
from cosend import CoS, Learner, simulate
from cosend.algorithm.values import AskPeer

ARMS = ("a", "b", "c", "d", "e")
ACCURACIES = (0.5, 0.6, 0.7, 0.8, 0.9)


def learner(horizon: int, dimensions: int = 1, slices: int | None = 12) -> Learner:
    policy = CoS(horizon=horizon, slices=slices, exploration_exponent=0.125)
    return Learner("bench", own=dict.fromkeys(ARMS, 0.0), dimensions=dimensions, policy=policy)


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Return the shortest of several times: the others were disturbed."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def simulated(items: int) -> float:
    """Return decisions per second of a whole replay: checks, choices, labels and trace."""
    random = np.random.default_rng(0)
    contexts = random.random((items, 1))
    gains = (random.random((items, len(ARMS))) < ACCURACIES).astype(np.uint8)
    simulate([learner(items)], contexts[:100], gains[:100])  # compile
    return items / best_of(5, lambda: simulate([learner(items)], contexts, gains))


def one_by_one(items: int) -> float:
    """Return seconds for one choose and one learn from Python."""
    contexts = np.random.default_rng(0).random(items).tolist()
    subject = learner(items)

    def work() -> None:
        for context in contexts:
            choice = subject.choose(context)
            assert not isinstance(choice, AskPeer)  # noqa: S101 - for the type checker; there are no peers
            subject.learn(choice.id, 1.0)

    work()
    return best_of(5, work) / items


def batched(items: int, size: int) -> float:
    """Return seconds for one choose and one learn in batches."""
    contexts = np.random.default_rng(0).random(items).tolist()
    subject = learner(items)

    def work() -> None:
        for start in range(0, items, size):
            choices = subject.choose_many(contexts[start : start + size]).choices
            subject.learn_many([choice.id for choice in choices], [1.0] * len(choices))

    work()
    return best_of(5, work) / items


def twin(items: int) -> float:
    """Return seconds for one choose and one learn of the slow twin."""
    contexts = np.random.default_rng(0).random(items).tolist()
    settings = TwinSettings(
        name="bench",
        seed=0,
        own=dict.fromkeys(ARMS, 0.0),
        peers={},
        dimensions=1,
        slices=12,
        exploration_exponent=0.125,
    )
    subject = Twin(settings)

    def work() -> None:
        for context in contexts:
            subject.learn(subject.choose((context,), lambda peer: (0, 0)).id, 1.0)

    return best_of(2, work) / items


def memory(items: int) -> float:
    """Return bytes per (visited cell, arm) of a sparse partition in six dimensions."""
    subject = learner(items, dimensions=6)
    contexts = np.random.default_rng(0).random((items, 6))
    gains = np.ones((items, len(ARMS)), np.uint8)
    simulate([subject], contexts, gains)
    ledger = subject.ledger
    used = ledger.slots.nbytes + ledger.cells.nbytes + ledger.rewards.nbytes + ledger.counts.nbytes
    return float(used / (len(subject.cells()) * len(ARMS)))


def rows(scale: float) -> list[Row]:
    """Measure everything, with `scale` times the usual number of items."""
    per_second = simulated(int(4_000_000 * scale))
    single = one_by_one(int(100_000 * scale))
    batch = batched(int(100_000 * scale), 64)
    slow = twin(int(5_000 * scale))
    held = memory(int(200_000 * scale))
    few, more = max(20, int(4_000 * scale)), max(256, int(40_000 * scale))
    one, many = routed(few, 1), routed(more, 256)
    one_by_all, many_by_all = routed(few, 1, None), routed(more, 256, None)
    return [
        Row("replay, 5 arms, one core", f"{per_second / 1e6:.1f} M decisions/s", ">= 15", yes(per_second >= 15e6)),
        Row("choose + learn from Python", f"{single * 1e6:.2f} us", "<= 3", yes(single <= 3e-6)),
        Row("the same in batches of 64", f"{batch * 1e6:.2f} us", "", ""),
        Row("the slow twin, one by one", f"{slow * 1e6:.1f} us = {slow * per_second:.0f} x a replayed one", "", ""),
        Row("memory, 6 axes of 12 slices", f"{held:.1f} bytes per (cell, arm)", "<= 64", yes(held <= 64)),
        Row("a site routes, one by one", f"{one * 1e6:.1f} us", "<= 30", yes(one <= 30e-6)),
        Row("a site routes, batches of 256", f"{many * 1e6:.2f} us", "<= 4", yes(many <= 4e-6)),
        Row("a site scores all five models, one by one", f"{one_by_all * 1e6:.1f} us", "", ""),
        Row("a site scores all five models, batches of 256", f"{many_by_all * 1e6:.2f} us", "", ""),
    ]


def main() -> None:
    """Print the table."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    console, table = Console(), Table("what", "measured", "goal", "reached", title="cosend benchmarks")
    shown = [*rows(scale), *mixed.rows(scale), *service.show(console, service.options(scale).parse_args([]))]
    with console.status("a site with open pages, sites over NATS, and workers"):
        shown += dashboard.rows(dashboard.ROUNDS, dashboard.ROUND_S * scale)
        shown += network.rows(network.ROUNDS, network.ROUND_S * scale)
        shown += workers.rows(workers.ROUNDS, workers.ROUND_S * scale)
    for row in shown:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
