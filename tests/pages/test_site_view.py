"""What labels over time say, what always using one local model earns, and the traffic between sites."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from cosend.axes import AllFeatures
from cosend.pages.rendering import render_charts, render_parts
from cosend.pages.site_view import Flow, Local, SiteView, TrafficWindow, best_model
from cosend.runtime.gossip import MOST_PEERS, Traffic, read, traffic_of, written
from cosend.runtime.label_history import Stretch
from cosend.runtime.label_intake import Given
from tests.node.sites import running, setup_of
from tests.pages.snapshots import a_snapshot, arm


def stretch(labels: int, gain: float, cost: float = 0.0, **local: tuple[float, int]) -> Stretch:
    return Stretch(labels, gain, cost, local)


def test_the_best_local_model_has_enough_labels_and_earns_what_it_did_on_the_last_thousand() -> None:
    assert best_model([]) is None
    few = [stretch(1, 1.0, young=(49.0, 49), old=(20.0, 60))]
    assert best_model(few) == Local("old", 1 / 3)
    assert best_model([*few, stretch(1, 1.0, young=(1.0, 1))]) == Local("young", 1.0)
    late = [stretch(1, 0.0, young=(0.0, 5_000)), *(stretch(1, 0.0, young=(300.0, 600)) for _ in range(2))]
    assert best_model(late) == Local("young", 0.5)


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
        counts=SimpleNamespace(decisions=decisions, error=None, reward=None, score=0.5),
        engine=SimpleNamespace(units=(1.0, 5.0)),
        started_at=2.0,
    )
    found = traffic_of(site)  # type: ignore[arg-type]  # all that it looks at
    assert (found.kept, len(found.sent), found.sent["p39"], found.score) == (5, MOST_PEERS, 40, 3.0)


async def test_nothing_is_said_of_a_model_alone_where_labels_score_only_the_arm_that_was_used(tmp_path: Path) -> None:
    setups = {False: setup_of(score_local="used"), True: setup_of(score_local="all")}
    for is_known, setup in setups.items():
        async with running(setup, tmp_path / f"{is_known}") as site:
            made = await site.classify([{"age": 50.0 * (n % 2)} for n in range(200)])
            await site.label([Given(each.id, "well") for each in made])  # type: ignore[union-attr]
            view = SiteView(site)
            snapshot = view.snapshot(0.0)
            assert (snapshot.local is not None) == is_known
            parts = render_parts(snapshot) | render_charts(view.series("all", snapshot.local), snapshot, view.moment)
            for words in (" vs ", "lways using", "dvantage", " alone"):
                assert is_known or words not in "".join(parts.values())


async def test_a_feature_with_few_values_has_each_as_one_tick(tmp_path: Path) -> None:
    async with running(replace(setup_of(), axes=[AllFeatures()]), tmp_path) as site:
        await site.classify([{"age": 10.0, "kind": "chat" if n % 5 > 2 else "sum"} for n in range(400)])
        view = SiteView(site)
        ticks = {axis.name: [words for _, words in axis.ticks] for axis in map(view.axis, range(len(view.axes())))}
    assert {*ticks["kind"]} == {"chat", "sum"}
    assert all(len({*words}) == len(words) for words in ticks.values())
