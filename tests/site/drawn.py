"""Random items for sites with learnt arms, and what must be the same whatever comes in which order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from cosend import Site, fold, verify
from cosend.algorithm import boosting
from cosend.engine import learnt_arms
from cosend.engine.events import decode, encode
from tests.engine.world import whole


@pytest.fixture
def fits_begin_early_and_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "FIRST_FIT", 8)
    monkeypatch.setattr(boosting, "ROUNDS", 2)


def half(item: Any) -> Any:
    """Say which half it is, and how sure that is."""
    return ("a" if item["x"] < 0.5 else "b", max(item["x"], 1.0 - item["x"]))


def drawn_items(draw: random.Random, count: int) -> list[dict[str, Any]]:
    return [{"x": draw.random(), "kind": draw.choice("abc"), "y": draw.randrange(4)} for _ in range(count)]


def truth_of(item: dict[str, Any]) -> Any:
    return item["kind"] if item["x"] < 0.3 else "ab"[item["x"] > 0.6]


def assert_log_is_the_state(log: list[Any], site: Site) -> None:
    """Fold the log, as it is when it was written, and decide everything again."""
    read = [decode(encode(event)) for event in log]
    assert whole(fold(read)) == whole(site.engine.state)
    assert verify(read) == []


def played_both_ways(
    a_site: Callable[[list[Any] | None], Site], seed: int, change: Callable[[Any], Any] = lambda item: item
) -> Site:
    """Play items one by one, and in batches with restarts; return the first site, when both are the same.

    a_site  makes a site that writes to a log, if it is given one
    change  makes an item of a drawn one
    """
    draw, log = random.Random(seed), list[Any]()
    one, many = a_site(log), a_site(None)
    waiting = list[tuple[int, Any]]()
    for _ in range(14):
        items = [change(item) for item in drawn_items(draw, draw.choice([1, 2, 9]))]
        decisions = [one.classify(item) for item in items]
        assert many.classify_many(items) == decisions
        waiting += [(made.id, truth_of(item)) for made, item in zip(decisions, items, strict=True)]
        draw.shuffle(waiting)
        labelled, waiting = waiting[::2], waiting[1::2][:20]  # some labels never come
        labelled = [(id_, truth) for id_, truth in labelled if one.is_pending(id_)]
        for id_, truth in labelled:
            one.learn(id_, truth)
        many.learn_many([id_ for id_, _ in labelled], [truth for _, truth in labelled])
        if draw.random() < 0.4:
            again = a_site(None)
            if draw.random() < 0.5:
                again.restore(many.state())()
            else:
                again.recover(log)
            many = again
    assert whole(many.engine.state) == whole(one.engine.state)
    assert_log_is_the_state(log, one)
    return one


def learnt_alike(one: Site, many: Site, items: list[Any]) -> None:
    """Let one site decide and learn items one by one, and the other one all of them together."""
    decisions = [one.classify(item) for item in items]
    assert many.classify_many(items) == decisions
    for made, item in zip(decisions, items, strict=True):
        one.learn(made, truth_of(item))
    many.learn_many(decisions, [truth_of(item) for item in items])
