"""What labels over time say, what always using one local model earns, and the traffic between sites."""

from __future__ import annotations

from types import SimpleNamespace

from cosend.pages.site_view import (
    Flow,
    Local,
    TrafficWindow,
    best_model,
    estimated_local,
)
from cosend.runtime.gossip import MOST_PEERS, Traffic, read, traffic_of, written
from cosend.runtime.label_history import Stretch
from tests.pages.snapshots import a_snapshot, arm


def stretch(labels: int, gain: float, cost: float = 0.0, **local: tuple[float, int]) -> Stretch:
    return Stretch(labels, gain, cost, local)


def test_the_best_local_model_has_enough_labels_and_earns_what_it_did_on_the_last_thousand() -> None:
    assert best_model([]) is None
    few = [stretch(1, 1.0, young=(49.0, 49), old=(20.0, 60))]
    assert best_model(few) == Local("old", 1 / 3, True)
    assert best_model([*few, stretch(1, 1.0, young=(1.0, 1))]) == Local("young", 1.0, True)
    late = [stretch(1, 0.0, young=(0.0, 5_000)), *(stretch(1, 0.0, young=(300.0, 600)) for _ in range(2))]
    assert best_model(late) == Local("young", 0.5, True)


def test_an_estimate_needs_labels_in_nearly_all_cells() -> None:
    arms = [arm("young", labels=10), arm("old"), arm("dear", cost=0.3), arm("south", kind="peer")]
    found = estimated_local([(0.99, 1.0), (0.8, 1.0), (0.95, 1.0)], arms)
    assert found is not None
    assert (found.name, found.reward, found.is_exact) == ("old", 0.8, False)
    assert estimated_local([(0.99, 1.0), (0.8, 0.5), (0.95, 0.8)], arms) is None


def test_sites_have_the_same_order_on_all_pages() -> None:
    assert a_snapshot().sites == ["north", "south"]
    assert a_snapshot(traffic={}).sites == ["north", "south"]
    assert a_snapshot(arms=[arm("young")], traffic={}).sites == ["north"]


def told(kept: int, since: float = 1.0, **sent: int) -> Traffic:
    return Traffic(since, kept, sent)


def test_flows_are_what_arrived_within_the_window_and_a_restarted_site_began_with_nothing() -> None:
    window = TrafficWindow(window_s=10.0)
    for now in range(0, 31, 5):
        window.add(float(now), {"north": told(10 * now, south=2 * now)})
    assert window.seconds == 10.0
    assert window.flows() == [Flow("north", 100, {"south": 20})]
    window.add(35.0, {"north": told(3, since=2.0, south=1), "west": told(9, north=1)})  # west is new
    assert window.flows() == [Flow("north", 0, {"south": 0}), Flow("west", 0, {"north": 0})]
    window.add(40.0, {"north": told(13, since=2.0, south=5)})  # west is offline
    assert window.flows() == [Flow("north", 10, {"south": 4})]


def test_traffic_is_read_as_it_was_written_and_unreadable_news_are_none() -> None:
    traffic = Traffic(1.5, 7, {"south": 3}, 0.25, 0.7)
    assert read(written(traffic)) == traffic
    for news in ("", "{}", "[1]", "[1,-1,{},null,null]", "[1,1,{},2.0,null]", "\0", None):
        assert read(news) is None


def test_news_name_the_peers_that_are_asked_most() -> None:
    decisions = {("own", "exploit"): 5, **{(f"p{n}", "explore"): n + 1 for n in range(40)}}
    arms = SimpleNamespace(own={"own": 0.0})
    site = SimpleNamespace(
        state=SimpleNamespace(learner=SimpleNamespace(arms=arms)),
        counts=SimpleNamespace(decisions=decisions, error=None, reward=None, score=None),
        started_at=2.0,
    )
    found = traffic_of(site)  # type: ignore[arg-type]  # all that it looks at
    assert (found.kept, len(found.sent), found.sent["p39"]) == (5, MOST_PEERS, 40)
