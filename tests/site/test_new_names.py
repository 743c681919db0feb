"""Features whose names are new with every item cost no more than a look: none of them gets an axis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import pytest

from cosend import Site
from cosend.axes import AllFeatures
from cosend.client import Client
from cosend.runtime.site_setup import Setup
from tests.server.services import a_setup, served

Make = Callable[[int], dict[str, Any]]


def plain(draw: Random) -> Make:
    return lambda _: {"who": draw.choice(["a", "b"]), "v": draw.random()}


def with_new_names(draw: Random) -> Make:
    few = plain(draw)
    return lambda n: {**few(n), f"f{n}": n, f"g{n}": "text", f"h{n}": True}


def routed(make: Make, count: int) -> tuple[Site, float]:
    """Return a site after so many items, and the seconds that the last quarter of them took."""
    site = Site("here", classifiers={"yes": lambda _: True, "no": lambda _: False})
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
def test_new_names_slow_nobody_down_for_good() -> None:
    routed(plain(Random(1)), 200)  # compiles
    _, few_s = routed(plain(Random(1)), 1_200)
    _, many_s = routed(with_new_names(Random(1)), 1_200)
    assert many_s < 8 * few_s  # it was more than thirty times as long


def test_a_name_that_some_items_have_still_gets_an_axis() -> None:
    draw = Random(1)
    site, _ = routed(lambda n: {"v": draw.random(), **({"rare": n} if n % 20 == 0 else {})}, 200)
    assert "rare" in site.weights()


def test_a_service_takes_them_too(tmp_path: Path) -> None:
    setup: Setup = a_setup(axes=[AllFeatures()])
    draw = Random(1)
    make = with_new_names(draw)
    with served(tmp_path, setup) as (url, _), Client(url) as client:
        for n in range(0, 400, 100):
            client.classify_many([{**make(k), "age": k % 100} for k in range(n, n + 100)])
        names = {name for view in client.summary().weights for name in view.split(" + ")}
    assert not {name for name in names if name[1:].isdigit()}
