"""What `summary()` and `_repr_html_` of sites, networks and decisions say is what happened."""

from __future__ import annotations

from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest

from cosend import Decision, Network, Site
from cosend.axes import Feature

AXIS = Feature("x", range=(0, 1))


def site_of(name: str = "here", **options: Any) -> Site:
    return Site(name, classifiers={"zero": lambda _: 0, "one": lambda _: 1}, context=AXIS, learnt=False, **options)


def rows(html: str) -> list[list[str | None]]:
    """Return the rows of a table; that it can be parsed says that all its tags are closed."""
    return [[cell.text for cell in row] for row in ElementTree.fromstring(html).iter("tr")]  # noqa: S314 - our own


def test_a_summary_has_the_decisions_labels_and_rewards_of_every_arm() -> None:
    site = site_of(costs={"one": 0.25})
    decisions = [site.classify({"x": n / 20}) for n in range(20)]
    for decision in decisions[:15]:
        site.learn(decision, 1)
    used, labelled = Counter(each.arm for each in decisions), Counter(each.arm for each in decisions[:15])
    summary = site.summary()
    assert (summary.site, summary.items, summary.pending) == ("here", 20, 5)
    assert [(arm.name, arm.kind, arm.cost, arm.decisions, arm.labels, arm.mean_reward) for arm in summary.arms] == [
        ("zero", "local", 0.0, used["zero"], labelled["zero"], 0.0),
        ("one", "local", 0.25, used["one"], labelled["one"], 0.75),
    ]
    assert labelled["zero"] < 15
    assert [arm.scored for arm in summary.arms] == [15, labelled["one"]]  # all labels score what costs nothing


def test_a_cost_that_came_with_the_label_takes_the_place_of_the_known_one() -> None:
    site = Site("here", classifiers={"one": lambda _: 1}, context=AXIS, costs={"one": 0.5})
    decisions = site.classify_many([{"x": 0.1}, {"x": 0.2}])
    site.learn_many(decisions, [1, 1], [None, 0.1])
    assert site.summary().arms[0].mean_reward == pytest.approx((0.5 + 0.9) / 2)


def test_a_summary_is_a_table_as_text_and_as_html() -> None:
    site = Site("here", classifiers={"a<b": lambda _: 1}, context=AXIS, learnt=False)
    site.learn(site.classify({"x": 0.5}), 1)
    site.pause("a<b")
    expected = ["a<b", "local", "0", "1", "100%", "1", "1.000", "paused"]
    title, heading, row = str(site.summary()).splitlines()
    assert title == "here: 1 item, 0 labels pending"
    assert row.split("  ")[0] == "a<b"
    assert len(heading) == len(row)
    assert rows(site._repr_html_())[1] == expected
    assert rows(site.summary()._repr_html_())[1] == expected


def test_a_network_shows_how_much_its_sites_send() -> None:
    network = Network([Site("a", classifiers={"wrong": lambda _: 0}, context=AXIS, learnt=False), site_of("b")])
    sent = sum(turn.decision.arm == "b" for turn in network.run({"a": [({"x": 0.5}, 1)] * 30}, label_delay=0))
    first, second = rows(network._repr_html_())[1:]
    assert first[:5] == ["a", "1", "30", f"{100 * sent / 30:.0f}%", "0"]
    assert second[:4] == ["b", "2", "0", None]
    assert str(network.summary()) == network.summary().text()
    assert network.summary().text().splitlines()[0] == "network"


def test_a_decision_shows_its_fields() -> None:
    decision = site_of().classify({"x": 0.5})
    shown = {str(name): value for name, value in rows(decision._repr_html_())[1:]}
    assert list(shown) == list(Decision._fields)
    assert shown["arm"] == decision.arm
    assert shown["phase"] == decision.phase.name.lower()
