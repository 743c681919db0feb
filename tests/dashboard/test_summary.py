"""What is made of labels over time, and what always using one local classifier earns."""

from __future__ import annotations

from cosend.dashboard.summary import Means, best_local, curve_of, estimated_local, recently
from cosend.node.history import Stretch
from tests.dashboard.summaries import a_summary, arm


def stretch(labels: int, gain: float, cost: float = 0.0, **local: tuple[float, int]) -> Stretch:
    return Stretch(labels, gain, cost, local)


def test_a_curve_has_the_means_of_stretches_with_labels() -> None:
    stretches = [stretch(4, 3.0, 1.0, young=(2.0, 4)), stretch(0, 0.0), stretch(2, 2.0)]
    assert curve_of(stretches, 2.0, "young") == [
        Means(2.0, 0.5, 0.25, 0.25, 0.5),
        Means(6.0, 1.0, 0.0, 0.0, None),
    ]
    assert [each.local for each in curve_of(stretches, 2.0, None)] == [None, None]


def test_the_best_local_classifier_has_enough_labels() -> None:
    assert best_local([]) is None
    few = [stretch(1, 1.0, young=(49.0, 49), old=(20.0, 60))]
    assert best_local(few) == "old"
    assert best_local([*few, stretch(1, 1.0, young=(1.0, 1))]) == "young"


def test_of_late_is_the_last_thousand_labels_or_so() -> None:
    stretches = [stretch(1, 0.0, young=(0.0, 5_000)), *(stretch(1, 0.0, young=(300.0, 600)) for _ in range(2))]
    assert recently(stretches, "young") == 0.5
    assert recently(stretches, "old") is None


def test_an_estimate_needs_labels_in_nearly_all_cells() -> None:
    arms = [arm("young", labels=10), arm("old"), arm("dear", cost=0.3), arm("south", kind="peer")]
    found = estimated_local([(0.99, 1.0), (0.8, 1.0), (0.95, 1.0)], arms)
    assert found is not None
    assert (found.name, found.reward, found.is_exact) == ("old", 0.8, False)
    assert estimated_local([(0.99, 1.0), (0.8, 0.5), (0.95, 0.8)], arms) is None


def test_sites_have_the_same_order_on_all_pages() -> None:
    assert a_summary().sites == ["north", "south"]
    assert a_summary(told={}).sites == ["north", "south"]
    assert a_summary(arms=[arm("young")], told={}).sites == ["north"]
