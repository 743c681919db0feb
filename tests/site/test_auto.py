"""A site that finds out which of several contexts to trust."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosend import (
    CellThompson,
    ChangeAware,
    Context,
    ContextSelection,
    CoS,
    Decision,
    Network,
    Site,
    ZoomingKLUCB,
    read_state,
    write_state,
)
from cosend.core.policy.parts import Policy
from cosend.errors import ContextError, SettingError, StateError

UNIT = Context("x", range=(0, 1))

NEW: Any = Site
CANDIDATES: dict[str, Any] = {
    "size": Context("size", scale="log", range=(0, 1000)),
    "hour": Context("hour", range=(0, 24)),
    "rank": Context("noise", scale="rank", window=50),
    "last": Context.previous_label("day", "night"),
}


def day(_: Any) -> str:
    return "day"


def night(_: Any) -> str:
    return "night"


def truth(item: dict[str, float]) -> str:
    return "day" if item["hour"] < 12 else "night"


def items(count: int, seed: int = 1) -> list[dict[str, float]]:
    draw = random.Random(seed)
    return [{"size": draw.random() * 1000, "hour": draw.random() * 24, "noise": draw.gauss(0, 1)} for _ in range(count)]


def auto(name: str = "lab", **options: Any) -> Site:
    settings: dict[str, Any] = {"candidates": CANDIDATES, **options}
    return Site(name, classifiers={"day": day, "night": night}, context="auto", **settings)


def play(site: Site, rows: list[dict[str, float]]) -> list[Decision]:
    made = []
    for item in rows:
        made.append(site.classify(item))
        site.learn(made[-1].id, truth(item))
    return made


def everything(site: Site) -> str:
    state = site.state()
    return json.dumps([state.facts, {name: array.tolist() for name, array in state.arrays.items()}], sort_keys=True)


POLICIES: dict[str, Policy | None] = {
    "unless given": None,
    "CoS": CoS(slices=4, exploration_exponent=0.05),
    "CellThompson": CellThompson(slices=4),
    "ChangeAware": ChangeAware(ZoomingKLUCB(), rising=True),
    "ContextSelection": ContextSelection(ZoomingKLUCB(), ((0,), (1,), (2, 3), ())),
}


@pytest.mark.parametrize("name", POLICIES)
def test_the_useful_candidate_is_found_and_used(name: str) -> None:
    site = auto(policy=POLICIES[name])
    made = play(site, rows := items(500))
    assert [part for part, view in site.trust().items() if view.trusted] == ["hour"]
    right = [decision.label == truth(item) for decision, item in zip(made, rows, strict=True)]
    assert sum(right[-100:]) > 85
    assert sum(right[-100:]) > sum(right[:100])


def test_trust_is_told_by_the_names_of_the_candidates() -> None:
    site = auto()
    before = site.trust()
    assert sorted(before) == ["hour", "last", "rank", "size", "size + hour + rank + last"]
    assert [view.share for view in before.values()] == pytest.approx([0.2] * 5)
    assert [view.trusted for view in before.values()] == [True, False, False, False, False]
    play(site, items(300))
    after = site.trust()
    assert sum(view.share for view in after.values()) == pytest.approx(1.0)
    assert sum(view.decided for view in after.values()) == 300
    assert after["hour"].share > 0.9
    assert list(auto(policy=POLICIES["ContextSelection"]).trust()) == ["size", "hour", "rank + last", "none"]


def test_a_site_with_a_context_of_its_own_trusts_that() -> None:
    site = Site("lab", classifiers={"day": day}, context=Context("hour", range=(0, 24)), policy=ZoomingKLUCB())
    (name, view), *_ = site.trust().items()
    assert "hour" in name
    assert (view.trusted, view.share) == (True, 1.0)
    timed = Site("lab", classifiers={"day": day}, context=UNIT, policy=CoS(horizon=9, time_dimension=True))
    (name,) = timed.trust()
    assert name.endswith(" + time")


def test_one_candidate_is_as_that_context() -> None:
    one, other = (
        auto(candidates={"hour": CANDIDATES["hour"]}),
        NEW("lab", classifiers={"day": day, "night": night}, context=CANDIDATES["hour"], policy=ZoomingKLUCB()),
    )
    assert [d[1:6] for d in play(one, items(100))] == [d[1:6] for d in play(other, items(100))]
    assert list(one.trust()) == ["hour"]


REFUSED: dict[str, tuple[Callable[[], object], list[str]]] = {
    "auto without candidates": (
        lambda: NEW("lab", classifiers={"day": day}, context="auto"),
        ["the candidates of site 'lab'", "given with context='auto'", "None"],
    ),
    "candidates without auto": (
        lambda: NEW("lab", classifiers={"day": day}, context=UNIT, candidates=CANDIDATES),
        ["the candidates of site 'lab'", "and only then"],
    ),
    "no mapping": (
        lambda: auto(candidates=[UNIT]),
        ["the candidates of site 'lab'", "a mapping from names"],
    ),
    "one axis": (
        lambda: auto(candidates=UNIT),
        ["the candidates of site 'lab'", "a mapping from names"],
    ),
    "empty": (lambda: auto(candidates={}), ["the context of site 'lab'", "at least one"]),
    "no axis": (lambda: auto(candidates={"x": "hour"}), ["the context of site 'lab'", "a Context", "'hour'"]),
    "several axes": (
        lambda: auto(candidates={"x": [UNIT]}),
        ["the context of site 'lab'", "a Context"],
    ),
    "a number as a name": (
        lambda: auto(candidates={1: UNIT}),
        ["the name of a candidate", "'lab'", "text", "1"],
    ),
    "no name": (lambda: auto(candidates={"": UNIT}), ["the name of a candidate", "not empty"]),
    "another word": (lambda: NEW("lab", classifiers={"day": day}, context="best"), ["the context of site", "'best'"]),
    "an axis too far": (
        lambda: auto(policy=ContextSelection(ZoomingKLUCB(), ((0,), (4,)))),
        ["candidates", "(4,)", "0 to 3"],
    ),
    "too many for cubes": (
        lambda: auto(candidates={f"x{n}": Context(f"x{n}") for n in range(25)}),
        ["the axes of a context", "at most 24", "25"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_by_name(case: str) -> None:
    build, fragments = REFUSED[case]
    with pytest.raises(SettingError) as caught:
        build()
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)


BAD_ITEMS: list[Any] = [
    {"size": 1, "hour": float("nan"), "noise": 0},
    {"size": 1, "hour": 25, "noise": 0},
    {"size": 1, "noise": 0},
    {"size": "much", "hour": 1, "noise": 0},
    7,
]


@pytest.mark.parametrize("item", BAD_ITEMS, ids=repr)
def test_an_item_that_one_candidate_cannot_read_is_refused_and_changes_nothing(item: Any) -> None:
    """Also if that candidate is not the one that is trusted."""
    site = auto()
    play(site, items(60))
    site.classify_many(items(5, seed=2))
    before = everything(site)
    for refused in (lambda: site.classify(item), lambda: site.classify_many([*items(2), item])):
        with pytest.raises(ContextError):
            refused()
        assert everything(site) == before
    with pytest.raises(ContextError, match="not one of the classes"):
        site.learn(max(site.open), "dusk")
    assert everything(site) == before


@pytest.mark.parametrize("name", POLICIES)
def test_saved_in_the_middle_it_goes_on_the_same(name: str, tmp_path: Path) -> None:
    """With labels that wait, ranks of recent values, and half an opinion about the candidates."""
    steady = auto(policy=POLICIES[name])
    play(steady, items(80))
    late = steady.classify_many(rows := items(10, seed=2))
    write_state(steady.state(), tmp_path / "lab.npz")
    restored = auto(seed=9)  # what was saved wins over what the site was built with
    restored.restore(read_state(tmp_path / "lab.npz"))()
    assert everything(restored) == everything(steady)
    for site in (steady, restored):
        site.learn_many([decision.id for decision in late], [truth(item) for item in rows])
    assert repr(play(restored, items(150, seed=3))) == repr(play(steady, items(150, seed=3)))
    assert everything(restored) == everything(steady)
    assert restored.trust() == steady.trust()


def test_a_state_of_other_candidates_is_refused_and_the_site_stays_as_it_was() -> None:
    site, fewer = auto(), auto(candidates={"hour": CANDIDATES["hour"], "size": CANDIDATES["size"]})
    for each in (site, fewer):
        play(each, items(20))
    before = everything(site)
    with pytest.raises(StateError, match="the saved state has the context"):
        site.restore(fewer.state())
    assert everything(site) == before


def test_a_network_of_such_sites_learns_saves_and_goes_on(tmp_path: Path) -> None:
    """South has no useful classifier of its own: it must find out where to send what."""

    def network() -> Network:
        south = Site("south", classifiers={"none": lambda _: "dusk"}, context="auto", candidates=CANDIDATES)
        return Network([auto("north"), south], call_cost=0.05)

    steady = network()
    rows = [(item, truth(item)) for item in items(400)]
    decided = list(steady.run({"north": rows, "south": rows}, label_delay=3))
    newest = [event for event in decided if event.site == "south"][-100:]
    assert sum(event.decision.arm == "north" for event in newest) > 90
    assert sum(event.decision.label == event.truth for event in newest) > 75
    assert steady.sites["north"].trust()["hour"].trusted
    steady.save(tmp_path)
    loaded = network()
    loaded.load(tmp_path)
    more = [(item, truth(item)) for item in items(60, seed=5)]
    streams = {"north": more, "south": more}
    assert repr(list(loaded.run(streams))) == repr(list(steady.run(streams)))
    for name, site in loaded.sites.items():
        assert everything(site) == everything(steady.sites[name])


def test_sites_of_a_network_may_have_their_candidates_in_another_order() -> None:
    other = auto("other", candidates=dict(reversed(CANDIDATES.items())))
    network = Network([auto(), other])
    rows = [(item, truth(item)) for item in items(40)]
    assert len(list(network.run({"lab": rows, "other": rows}))) == 80


def test_in_batches_is_as_one_by_one() -> None:
    """As far as no context looks at labels: the newest label is known later in a batch."""
    candidates = {name: axis for name, axis in CANDIDATES.items() if name != "last"}
    single, batched = auto(candidates=candidates), auto(candidates=candidates)
    rows = items(200)
    for first in range(0, 200, 20):
        part = rows[first : first + 20]
        expected = [single.classify(item) for item in part]
        made = batched.classify_many(part)
        assert repr(made) == repr(expected)
        for decision, item in zip(expected, part, strict=True):
            single.learn(decision.id, truth(item))
        batched.learn_many([decision.id for decision in made], [truth(item) for item in part])
    assert everything(single) == everything(batched)
