"""Features whose names are new with every item cost no more than a look: none of them gets an axis."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Any

import pytest

from cosend import Site

Make = Callable[[int], dict[str, Any]]


def plain(draw: Random) -> Make:
    return lambda _: {"who": draw.choice(["a", "b"]), "v": draw.random()}


def with_new_names(draw: Random) -> Make:
    few = plain(draw)
    return lambda n: {**few(n), f"f{n}": n, f"g{n}": "text", f"h{n}": True}


def routed(make: Make, count: int) -> tuple[Site, float]:
    """Return a site after so many items, and the seconds that the last quarter of them took."""
    site = Site("here", classifiers={"yes": lambda _: True, "no": lambda _: False}, learnt=False)
    for n in range(count):
        if n == count - count // 4:
            start = perf_counter()
        site.learn(site.classify(make(n)), n % 2 == 0)
    return site, perf_counter() - start


def test_new_names_get_no_axes() -> None:
    few, _ = routed(plain(Random(1)), 300)
    many, _ = routed(with_new_names(Random(1)), 300)
    assert {*many.weights()} == {*few.weights()}
    assert len(many.classify(with_new_names(Random(1))(300)).context) == 2


@pytest.mark.compiled
@pytest.mark.claims
def test_new_names_slow_nobody_down_for_good() -> None:
    routed(plain(Random(1)), 200)  # compiles
    _, few_s = routed(plain(Random(1)), 1_200)
    _, many_s = routed(with_new_names(Random(1)), 1_200)
    assert many_s < 8 * few_s  # it was more than thirty times as long
