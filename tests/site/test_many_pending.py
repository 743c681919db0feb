"""A million decisions may wait for their labels for months: that must not slow down what goes on meanwhile."""

from __future__ import annotations

import gc

from cosend import Site


def test_the_garbage_collector_need_not_look_at_pending_decisions() -> None:
    """With a million it would hold a service for 0.15 s whenever it looks at everything."""
    site = Site("here", classifiers={"one": lambda item: 1, "two": lambda item: 2})
    items = [{"x": n % 7, "y": n % 11} for n in range(2_000)]
    site.classify_many(items[:500])
    gc.collect()
    before = len(gc.get_objects())
    site.classify_many(items)
    gc.collect()
    assert len(site.pending()) == 2_500
    gc.collect()
    assert len(gc.get_objects()) - before < 100
