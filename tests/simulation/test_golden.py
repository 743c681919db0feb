"""What networks of sites decided before their rules became transitions, they decide now, one item at a time.

The digests were taken from the last version in which a site decided and entered in one call. A rule that changes on
purpose changes its digests: take them anew, and say so in the changelog.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from cosend import (
    CellKLUCB,
    CellThompson,
    ChangeAware,
    Context,
    ContextSelection,
    CoS,
    Network,
    Patience,
    Policy,
    Site,
    Zooming,
    ZoomingKLUCB,
)
from cosend.errors import DecisionError

pytestmark = pytest.mark.compiled

PATIENCE = (Patience(), Patience(wait_limit=5), Patience(max_waiting=4, overdue=0.5))
NETWORKS = 12
GOLDEN: list[tuple[Policy, str]] = [
    (CoS(slices=2, exploration_exponent=0.1), "03ce0a621848"),
    (CoS(exploration_exponent=0.1, share_labels="always"), "764eb4549599"),
    (
        CoS(time_dimension=True, order="train_first", training_count="own_and_mine", exploration_exponent=0.1),
        "513f70fd3fc4",
    ),
    (CoS(slices=1, order="random", exploration_exponent=0.05), "a7de0e1b6257"),
    (CellKLUCB(slices=3, peer_training=0.5), "b2a5cb0605a3"),
    (CellKLUCB(), "eaff7efd46d1"),
    (CellThompson(horizon=200, time_dimension=True), "787747d8e617"),
    (CellThompson(doubling="reset", peer_training=0.5), "a7420148f924"),
    (Zooming(split_after=3.0), "509908f53f25"),
    (Zooming(contexts="concentrated", inherit=2.0, max_cells=9, order="random"), "220a7736a586"),
    (ZoomingKLUCB(peer_training=0.5, share_labels="always"), "c919acb3dcaf"),
    (ZoomingKLUCB(peer_training=2, split_after=4), "23363de08758"),
    (ZoomingKLUCB(), "0ddf1eee7e68"),
    (ChangeAware(CellKLUCB(slices=1, peer_training=0.2), rising=True), "e2cc4789597f"),
    (ContextSelection(), "10d71038f1db"),
    (ContextSelection(CellKLUCB(peer_training=0.5)), "91de42e71cd8"),
]


def function(site: int, number: int) -> Callable[[Any], int]:
    return lambda item: int((item["x"] * 7 + site * 3 + number * 5 + int(item["s"])) % 3 < 1.7)


def sites(policy: Policy, seed: int, draw: random.Random) -> list[Site]:
    second = Context("s", scale="log", range=(0, 1e6)) if seed % 2 else Context("s", scale="rank", window=9)
    two = isinstance(policy, ContextSelection) or seed % 3 == 0
    axes = [Context("x", range=(0, 1)), second][: 1 + two]
    return [
        Site(
            f"s{i}",
            classifiers={f"s{i}c{k}": function(i, k) for k in range(draw.randint(1, 3))},
            context=axes,
            policy=policy,
            patience=PATIENCE[seed % 3],
            seed=seed,
        )
        for i in range(draw.randint(2, 3))
    ]


def played(policy: Policy, seed: int) -> list[str]:
    """Play a network one item at a time, with labels that come late, and return what was decided, in words."""
    draw, told, waiting = random.Random(seed), list[str](), list[tuple[Site, int, int]]()
    network = sites(policy, seed, draw)
    Network(network, call_cost=draw.choice([0, 0.1]))
    for _ in range(120):
        site, item = draw.choice(network), {"x": draw.random(), "s": draw.randrange(10**6)}
        made = site.classify(item)
        context = tuple(map(float, made.context))
        told.append(repr((made.id, made.label, made.arm, made.phase.name, made.cell, context, repr(made.propensity))))
        waiting.append((site, made.id, int(draw.random() < 0.6)))
        draw.shuffle(waiting)
        while len(waiting) > 6:
            site, ticket, truth = waiting.pop()
            try:
                site.learn(ticket, truth)
            except DecisionError as error:
                told.append(type(error).__name__)
    return told


@pytest.mark.parametrize(
    ("policy", "digest"), GOLDEN, ids=[f"{n}-{type(policy).__name__}" for n, (policy, _) in enumerate(GOLDEN)]
)
def test_networks_decide_what_they_always_did(policy: Policy, digest: str) -> None:
    told = [line for seed in range(NETWORKS) for line in played(policy, seed)]
    assert hashlib.sha256("".join(told).encode()).hexdigest()[:12] == digest
