"""What routing costs within one process: a replay, a learner and a site, and the memory of what is learnt."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.rows import Row, yes
from cosend import CoS, Learner, MixedViews, Site, simulate
from cosend.algorithm.boosting import Trees
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import AskPeer, ScoreLocal
from cosend.axes import Feature
from cosend.engine.learnt_arms import Window, grow, warm_up

ARMS = ("a", "b", "c", "d", "e")
ACCURACIES = (0.5, 0.6, 0.7, 0.8, 0.9)
FEATURES = 20
VALUES = 20  # of every axis of `MixedViews`: most features of real streams repeat


def learner(policy: Policy, dimensions: int = 1, score_local: ScoreLocal = "used") -> Learner:
    own = dict.fromkeys(ARMS, 0.0)
    return Learner("bench", own=own, dimensions=dimensions, policy=policy, score_local=score_local)


def cos(horizon: int, dimensions: int = 1) -> Learner:
    return learner(CoS(horizon=horizon, slices=12, exploration_exponent=0.125), dimensions)


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Return the shortest of several times: the others were disturbed."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def stream(items: int, axes: int, values: int | None = None) -> tuple[Any, Any]:
    """Return contexts with this many different values, and what each arm gains."""
    random = np.random.default_rng(0)
    contexts = random.random((items, axes))
    contexts = contexts if values is None else np.floor(contexts * values) / values
    return contexts, (random.random((items, len(ARMS))) < ACCURACIES).astype(np.uint8)


def replayed(items: int, make: Callable[[], Learner], axes: int = 1, values: int | None = None) -> float:
    """Return seconds for one decision of a whole replay: checks, choices, labels and trace."""
    contexts, gains = stream(items, axes, values)
    simulate([make()], contexts[:100], gains[:100])  # compile
    return best_of(5, lambda: simulate([make()], contexts, gains)) / items


def one_by_one(items: int) -> float:
    """Return seconds for one choose and one learn from Python."""
    contexts = np.random.default_rng(0).random(items).tolist()
    subject = cos(items)

    def work() -> None:
        for context in contexts:
            choice = subject.choose(context)
            assert not isinstance(choice, AskPeer)  # noqa: S101 - for the type checker; there are no peers
            subject.learn(choice.id, 1.0)

    return best_of(5, work) / items


def batched(items: int, size: int) -> float:
    """Return seconds for one choose and one learn in batches."""
    contexts = np.random.default_rng(0).random(items).tolist()
    subject = cos(items)

    def work() -> None:
        for start in range(0, items, size):
            choices = subject.choose_many(contexts[start : start + size]).choices
            subject.learn_many([choice.id for choice in choices], [1.0] * len(choices))

    return best_of(5, work) / items


def said(label: int, _: Any) -> int:
    """Return the same label for every item."""
    return label


def routed(items: int, size: int, score_local: ScoreLocal | None = "used") -> float:
    """Return seconds for deciding and learning one item at a site, in batches, beside models that cost nothing."""
    models = {f"always {n}": partial(said, n) for n in range(len(ARMS))}
    axis = Feature("x", range=(0, 1))
    site = Site("bench", classifiers=models, context=axis, score_local=score_local, learnt=False)
    rows = [{"x": x} for x in np.random.default_rng(0).random(items).tolist()]

    def work() -> None:
        for first in range(0, items, size):
            if size == 1:
                site.learn(site.classify(rows[first]), 1)
            else:
                made = site.classify_many(rows[first : first + size])
                site.learn_many(made, [1] * len(made))

    return best_of(5, work) / items


def learning(items: int, size: int) -> tuple[float, float]:
    """Return seconds for an item at a site that is told nothing: to decide and learn it, and to fit trees for that.

    Items have twenty features, of which two tell the class; the site has two models that know one feature each.
    """
    draws = np.random.default_rng(0).random((items, FEATURES))
    rows = [{f"x{n}": value for n, value in enumerate(row)} for row in draws.tolist()]
    truths = (draws[:, 0] + draws[:, 1] > 1).astype(int).tolist()
    site = Site("bench", classifiers={name: partial(high, name) for name in ("x0", "x1")})
    fits: list[float] = []

    def timed(window: Window) -> Trees:
        begun = time.perf_counter()
        trees = grow(window)
        fits.append(time.perf_counter() - begun)
        return trees

    with patch("cosend.engine.learnt_arms.grow", timed):
        begun = time.perf_counter()
        for first in range(0, items, size):
            if size == 1:
                site.learn(site.classify(rows[first]), truths[first])
            else:
                site.learn_many(site.classify_many(rows[first : first + size]), truths[first : first + size])
        spent = time.perf_counter() - begun
    return spent / items, sum(fits) / items


def high(name: str, item: dict[str, float]) -> tuple[int, float]:
    """Return whether a feature is high, and how sure that makes one of the class."""
    return int(item[name] > 0.5), max(item[name], 1 - item[name])


def learning_rows(scale: float) -> list[Row]:
    """Measure a site with learnt arms, from its first item on."""
    warm_up()
    found = []
    for size, items, most in ((256, max(512, int(40_000 * scale)), 25e-6), (1, max(200, int(4_000 * scale)), None)):
        each, fits = learning(items, size)
        how = f"batches of {size}" if size > 1 else "one by one"
        what = f"a site learns trees and a stack, {FEATURES} features, {how}"
        told = f"{each * 1e6:.1f} us, of which fits {fits * 1e6:.1f}"
        found.append(Row(what, told, "<= 25" if most else "", yes(each <= most) if most else ""))
    return found


def memory(items: int) -> float:
    """Return bytes per (visited cell, arm) of a sparse partition in six dimensions."""
    subject = cos(items, dimensions=6)
    contexts, _ = stream(items, 6)
    simulate([subject], contexts, np.ones((items, len(ARMS)), np.uint8))
    ledger = subject.ledger
    used = ledger.slots.nbytes + ledger.cells.nbytes + ledger.rewards.nbytes + ledger.counts.nbytes
    return float(used / (len(subject.cells()) * len(ARMS)))


def mixed_rows(scale: float) -> list[Row]:
    """Measure how fast `MixedViews` chooses and learns in a replay, and how much memory that takes."""
    found = []
    for axes, most in ((3, 2e-6), (41, 6e-6)):
        items, what = max(200, int(20_000 * scale)), f"MixedViews, {axes} axes"
        subject = learner(MixedViews(), axes, "all")
        each = replayed(items, partial(learner, MixedViews(), axes, "all"), axes, VALUES)
        simulate([subject], *stream(items, axes, VALUES))
        ledger = subject.ledger
        row = (ledger.cells.nbytes + ledger.rewards.nbytes + ledger.counts.nbytes) // len(ledger.cells)
        held = f"{row} bytes a row, {8 * subject.memory.memo_width:,} a decision that waits"
        found += [
            Row(f"{what}, 5 arms", f"{each * 1e6:.2f} us", f"<= {most * 1e6:.0f}", yes(each <= most)),
            Row(f"{what}, memory", held, "", ""),
            Row(f"{what}, views and rows", f"{len(subject.views())} and {len(subject.cells()):,}", "", ""),
        ]
    return found


def rows(scale: float) -> list[Row]:
    """Measure everything, with `scale` times the usual number of items."""
    many = int(4_000_000 * scale)
    per_second = 1 / replayed(many, partial(cos, many))
    single, held = one_by_one(int(100_000 * scale)), memory(int(200_000 * scale))
    few, more = max(20, int(4_000 * scale)), max(256, int(40_000 * scale))
    one, batch = routed(few, 1), routed(more, 256)
    return [
        Row("replay, 5 arms, one core", f"{per_second / 1e6:.1f} M decisions/s", ">= 15", yes(per_second >= 15e6)),
        Row("choose + learn from Python", f"{single * 1e6:.2f} us", "<= 3", yes(single <= 3e-6)),
        Row("the same in batches of 64", f"{batched(int(100_000 * scale), 64) * 1e6:.2f} us", "", ""),
        Row("memory, 6 axes of 12 slices", f"{held:.1f} bytes per (cell, arm)", "<= 64", yes(held <= 64)),
        Row("a site routes, one by one", f"{one * 1e6:.1f} us", "<= 30", yes(one <= 30e-6)),
        Row("a site routes, batches of 256", f"{batch * 1e6:.2f} us", "<= 4", yes(batch <= 4e-6)),
        Row("a site scores all five models, one by one", f"{routed(few, 1, None) * 1e6:.1f} us", "", ""),
        Row("a site scores all five models, batches of 256", f"{routed(more, 256, None) * 1e6:.2f} us", "", ""),
        *learning_rows(scale),
        *mixed_rows(scale),
    ]
