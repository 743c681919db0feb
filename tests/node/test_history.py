"""What labels said over time takes the same room for ever, and loses nothing but when exactly it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cosend.runtime.label_history import History


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_labels_of_a_second_are_one_stretch() -> None:
    clock = Clock()
    history = History(clock)
    history.learnt([1.0, 0.0], [0.1, 0.0], {"young": [1.0, 1.0], "old": [0.0]})
    history.learnt([1.0], [0.0])
    clock.now += 2.5
    history.learnt([0.5], [0.5], {"old": [1.0]})
    first, empty, last = history.stretches
    assert (first.labels, first.gain, first.cost) == (3, 2.0, 0.1)
    assert first.local == {"young": (2.0, 2), "old": (0.0, 1)}
    assert empty.labels == 0
    assert (last.labels, last.local) == (1, {"old": (1.0, 1)})


@given(st.lists(st.floats(0.0, 50.0), max_size=60))
def test_sums_stay_however_long_it_goes_on(rests: list[float]) -> None:
    clock = Clock()
    history = History(clock, most=8)
    for rest in rests:
        clock.now += rest
        history.learnt([1.0], [0.25], {"a": [0.5]})
        assert len(history.stretches) <= 8
    assert sum(each.labels for each in history.stretches) == len(rests)
    assert sum(each.cost for each in history.stretches) == 0.25 * len(rests)
    assert sum(each.local.get("a", (0.0, 0))[0] for each in history.stretches) == 0.5 * len(rests)
    assert len(history.stretches) * history.each_s >= sum(rests)
