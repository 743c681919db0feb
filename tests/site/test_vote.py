"""A vote at a site: the others are run once, it learns from every label, and it is part of what a site keeps."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cosend import MixedViews, Network, Site, Vote, ZoomingKLUCB
from cosend.algorithm.values import ScoreLocal
from cosend.axes import Feature
from cosend.errors import ArmError
from cosend.models.vote import NEWEST

Row = tuple[dict[str, float], str]


class Counting:
    """A function that counts how often it was run on which item."""

    def __init__(self, axis: str) -> None:
        self.axis, self.runs = axis, Counter[float]()

    def __call__(self, item: Any) -> str:
        self.runs[item["n"]] += 1
        return "low" if item[self.axis] < 0.5 else "high"


def rows(count: int, seed: int = 0) -> list[Row]:
    """Return items of which the truth is: both are high, or both are low."""
    draw = random.Random(seed)
    items = [{"x": draw.random(), "y": draw.random(), "n": float(n)} for n in range(count)]
    return [(item, "same" if (item["x"] < 0.5) == (item["y"] < 0.5) else "other") for item in items]


def site_of(name: str = "s", score_local: ScoreLocal = "all", **options: Any) -> Site:
    models = {"x": Counting("x"), "y": Counting("y"), "vote": Vote()}
    policy = MixedViews() if score_local == "all" else ZoomingKLUCB()
    context = Feature("x", range=(0, 1))
    return Site(
        name, **{"classifiers": models, "context": context, "policy": policy, **options}, score_local=score_local
    )


def play(site: Site, stream: list[Row], late: int = 1) -> list[tuple[Any, str]]:
    made: list[tuple[Any, str]] = []
    for n, (item, truth) in enumerate(stream):
        made.append((site.classify(item), truth))
        if n >= late:
            site.learn(*made[n - late])
    return made


def test_batches_are_as_one_by_one_and_a_log_leads_to_the_same_vote(tmp_path: Path) -> None:
    log: list[Any] = []
    one, many = site_of(seed=3, journal=log.append), site_of(seed=3)
    stream = rows(120, 4)
    for start in range(0, 120, 10):
        part = stream[start : start + 10]
        batch = many.classify_many([item for item, _ in part])
        assert [one.classify(item) for item, _ in part] == batch
        for each in (one, many):
            each.learn_many(batch[:8], [truth for _, truth in part][:8])  # some labels never come
    assert one.engine.state.votes["vote"].facts() == many.engine.state.votes["vote"].facts()
    many.save(tmp_path / "state")
    loaded, folded = site_of(seed=3), site_of(seed=3)
    loaded.load(tmp_path / "state")
    folded.recover(log)
    for again in (loaded, folded):
        assert again.engine.state.votes["vote"].facts() == many.engine.state.votes["vote"].facts()
        assert [each.label for each in again.classify_many([item for item, _ in stream])] == [
            each.label for each in (site_like(many, tmp_path).classify_many([item for item, _ in stream]))
        ]
    assert {*log[-2].opinions} == {"x", "y", "vote"}


@pytest.mark.filterwarnings("ignore::cosend.errors.LabelWarning")
def test_a_log_teaches_a_vote_what_came_since_it_joined() -> None:
    log: list[Any] = []
    live = site_of(journal=log.append)
    play(live, rows(60, 5))
    learnt = live.engine.state.votes["vote"]
    live.remove("vote")
    play(live, rows(20, 6))
    live.add_classifier("vote", learnt)  # which it has to learn again
    play(live, rows(20, 7))
    live.add_classifier("z", Counting("y"))
    live.add_classifier("other", Vote(over=["x", "z"]))
    play(live, rows(20, 8))
    live.remove("z")
    play(live, rows(20, 9))
    models = {name: Counting("y" if name == "z" else name) for name in "xyz"}
    again = site_of(classifiers={**models, "vote": Vote(), "other": Vote(over=["x", "z"])})
    again.remove("z")
    again.recover(log)
    for name in ("vote", "other"):
        assert again.engine.state.votes[name].facts() == live.engine.state.votes[name].facts()


def site_like(site: Site, folder: Path) -> Site:
    site.save(folder / "copy")
    other = site_of(seed=3)
    other.load(folder / "copy")
    return other


def test_votes_learn_from_labels_that_peers_pass_on_and_see_no_peer() -> None:
    sites = [site_of(name) for name in ("here", "there")]
    network = Network(sites)
    turns = list(network.run({"here": rows(200, 6)}))
    arms = Counter(turn.decision.arm for turn in turns)
    assert arms["there"] > 0
    heard = {name for (key) in sites[0].engine.state.votes["vote"]._tables[0].rows for name, _ in key}
    assert heard <= {NEWEST, "x", "y"}
    taught = sum(count for (*key, count) in sites[1].engine.state.votes["vote"].facts()["bayes"][1][1] if len(key) == 1)
    assert taught == arms["there"]


@pytest.mark.parametrize("name", ["zz", "vote", "second"])
def test_a_vote_over_what_it_cannot_combine_is_refused_when_it_comes(name: str) -> None:
    wrong = f"over names {name!r}, and what a vote can combine here is x, y"
    models = {"x": Counting("x"), "y": Counting("y"), "vote": Vote(over=["x", name]), "second": Vote()}
    with pytest.raises(ArmError, match=f"vote 'vote' of site 's': {wrong}"):
        site_of(classifiers=models)
    site = site_of()
    with pytest.raises(ArmError, match=f"vote 'second' of site 's': {wrong}"):
        site.add_classifier("second", Vote(over=["x", name]))
    assert [*site.engine.state.votes] == ["vote"]
    assert [*site.learner.arms.own] == ["x", "y", "vote"]
