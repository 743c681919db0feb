"""Who sends how much to whom of late."""

from __future__ import annotations

import pytest

from cosend.dashboard.flows import Flow, Window, as_shares
from cosend.node.traffic import Traffic, read, written


def told(kept: int, since: float = 1.0, **sent: int) -> Traffic:
    return Traffic(since, kept, sent)


def test_flows_are_what_came_within_the_window() -> None:
    window = Window(window_s=10.0)
    for now in range(0, 31, 5):
        window.add(float(now), {"north": told(10 * now, south=2 * now)})
    assert window.seconds == 10.0
    assert window.flows() == [Flow("north", 100, {"south": 20})]


def test_a_site_that_started_again_began_with_nothing() -> None:
    window = Window(window_s=60.0)
    window.add(0.0, {"north": told(1_000, south=500)})
    window.add(5.0, {"north": told(3, since=2.0, south=1)})
    window.add(10.0, {"north": told(13, since=2.0, south=5)})
    assert window.flows() == [Flow("north", 10, {"south": 4})]


def test_a_site_that_is_heard_of_once_has_no_flow_yet_and_one_that_is_gone_none_at_all() -> None:
    window = Window()
    assert (window.flows(), window.seconds) == ([], 0.0)
    window.add(0.0, {"north": told(5), "west": told(4)})
    window.add(1.0, {"north": told(6), "south": told(9, north=1)})
    assert window.flows() == [Flow("north", 1, {}), Flow("south", 0, {"north": 0})]


def test_shares_are_percentages_of_every_site_and_nobody_else_is_counted() -> None:
    flows = [Flow("a", 3, {"b": 1, "unknown": 96}), Flow("b", 0, {})]
    assert as_shares(flows, ["a", "b", "c"])["flows"]["percent"] == [[75.0, 25.0, 0.0], [0.0] * 3, [0.0] * 3]


def test_traffic_is_read_as_it_was_written_and_what_is_none_is_nothing() -> None:
    traffic = Traffic(1.5, 7, {"south": 3}, 0.25, 0.7)
    assert read(written(traffic)) == traffic
    assert [read(news) for news in ("", "{}", "[1]", "[1,-1,{},null,null]", "[1,1,{},2.0,null]", "\0", None)] == [
        None
    ] * 7


@pytest.mark.parametrize("count", [1, 40])
def test_news_name_the_peers_that_are_asked_most(count: int) -> None:
    from types import SimpleNamespace

    from cosend.node.traffic import MOST_PEERS, traffic_of

    decisions = {("own", "exploit"): 5, **{(f"p{n}", "explore"): n + 1 for n in range(count)}}
    counts = SimpleNamespace(decisions=decisions, error=None, reward=None)
    arms = SimpleNamespace(own={"own": 0.0})
    node = SimpleNamespace(rules=SimpleNamespace(learner=SimpleNamespace(arms=arms)), counts=counts, started_at=2.0)
    found = traffic_of(node)  # type: ignore[arg-type]  # all that it looks at
    assert found.kept == 5
    assert len(found.sent) == min(count, MOST_PEERS)
    assert found.sent[f"p{count - 1}"] == count
