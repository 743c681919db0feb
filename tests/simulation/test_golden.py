"""What networks of sites decided before their rules became transitions, they decide now, one item at a time.

The digests were taken from the last version in which a site decided and entered in one call, the first of each policy
with late labels, the second with labels that come at once. A rule that changes on purpose changes its digests: take
them anew, and say so in the changelog. That has happened to `CellKLUCB` where labels are late.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from cosend import CellKLUCB, CoS, MixedViews, Network, Patience, Site, Zooming, ZoomingKLUCB
from cosend.algorithm.policies import Policy
from cosend.axes import Feature
from cosend.errors import DecisionError

pytestmark = pytest.mark.compiled

PATIENCE = (Patience(), Patience(wait_limit=5), Patience(max_pending=4, overdue=0.5))
NETWORKS = 12
LATE = 6  # labels that are awaited at any time, where they do not come at once
GOLDEN: list[tuple[Policy, str, str]] = [
    (CoS(slices=2, exploration_exponent=0.1), "03ce0a621848", "5e9db6666cd0"),
    (CoS(exploration_exponent=0.1, share_labels="always"), "764eb4549599", "e15ec53cef84"),
    (
        CoS(order="train_first", training_count="own_and_mine", exploration_exponent=0.1),
        "86b6b359c55a",
        "f6c7d3174f1a",
    ),
    (CoS(slices=1, order="random", exploration_exponent=0.05), "a7de0e1b6257", "c5f3df9a74b8"),
    (CellKLUCB(slices=3), "3c7bdb03d50f", "1d6783e867da"),
    (CellKLUCB(), "eaff7efd46d1", "1397b841f365"),
    (Zooming(split_after=3.0), "509908f53f25", "42f347314b63"),
    (Zooming(contexts="concentrated", inherit=2.0, max_cells=9, order="random"), "220a7736a586", "adc88187cb08"),
    (ZoomingKLUCB(share_labels="training"), "01a69196566e", "7b77fd3ac159"),
    (ZoomingKLUCB(split_after=4), "fcca6dfb2a7c", "46c1a713a4a3"),
    (ZoomingKLUCB(), "0ddf1eee7e68", "ffad968cef94"),
    (MixedViews(), "a6bf7dd31d00", "feb682de677e"),
    (MixedViews(bonus=0.2), "a1ec2944a0c7", "40b0065b8622"),
    (MixedViews(max_cells=20, share_labels="training", adds_up=False, bonus=0.2), "0492e89070bd", "2958cc10266b"),
]


def function(site: int, number: int) -> Callable[[Any], int]:
    return lambda item: int((item["x"] * 7 + site * 3 + number * 5 + int(item["s"])) % 3 < 1.7)


def sites(policy: Policy, seed: int, draw: random.Random) -> list[Site]:
    second = Feature("s", scale="log", range=(0, 1e6)) if seed % 2 else Feature("s", scale="rank", window=9)
    axes = [Feature("x", range=(0, 1)), second][: 1 + (seed % 3 == 0)]
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


def played(policy: Policy, seed: int, late: int) -> list[str]:
    """Play a network one item at a time, so many labels of which are late, and return what was decided, in words."""
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
        while len(waiting) > late:
            site, ticket, truth = waiting.pop()
            try:
                site.learn(ticket, truth)
            except DecisionError as error:
                told.append(type(error).__name__)
    return told


def digest_of(policy: Policy, late: int) -> str:
    told = [line for seed in range(NETWORKS) for line in played(policy, seed, late)]
    return hashlib.sha256("".join(told).encode()).hexdigest()[:12]


NAMES = [f"{n}-{type(policy).__name__}" for n, (policy, *_) in enumerate(GOLDEN)]


@pytest.mark.parametrize(("policy", "digest"), [(policy, late) for policy, late, _ in GOLDEN], ids=NAMES)
def test_networks_decide_what_they_always_did(policy: Policy, digest: str) -> None:
    assert digest_of(policy, LATE) == digest


@pytest.mark.claims
@pytest.mark.parametrize(("policy", "digest"), [(policy, at_once) for policy, _, at_once in GOLDEN], ids=NAMES)
def test_where_labels_come_at_once_they_do_too(policy: Policy, digest: str) -> None:
    assert digest_of(policy, 0) == digest
