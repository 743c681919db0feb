"""Sites to which no context is given, and sites that describe items in different ways."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from cosend import CoS, Learner, MixedViews, Network, Site, ZoomingKLUCB, simulate
from cosend.axes import TEXT_NUMBERS, AllFeatures, Category, Feature, PreviousLabel, Time
from cosend.engine import events
from cosend.engine.events import decode, encode
from cosend.engine.fold import fold, verify
from cosend.engine.needs import Call, Question
from cosend.errors import CosendError, NoAnswer, SettingError, StateError
from tests.engine.world import whole

pytestmark = pytest.mark.usefixtures("few_trees")

Models = dict[str, Callable[[Any], Any]]
MODELS: dict[str, Models] = {
    "north": {"kinds": lambda item: item["kind"] == "a", "coin": lambda item: item["coin"]},
    "south": {"ages": lambda item: item.get("age", 0) > 50},
    "west": {"never": lambda item: False, "weights": lambda item: item["weight"] > 70},
}


def items(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Draw items, some of which lack a feature, and some of which have a new one from the middle on."""
    draw, found = random.Random(seed), list[dict[str, Any]]()
    for n in range(count):
        item: dict[str, Any] = {
            "age": draw.randrange(20, 90),
            "kind": draw.choice("abc"),
            "weight": draw.gauss(70, 10),
            "coin": draw.random() < 0.5,
            "id": str(draw.random()),
            "country": "here",
            "ward": 7 if n < 250 else draw.randrange(7, 9),
        }
        if draw.random() < 0.1:
            del item["age"]
        if n > count // 2:
            item["new"] = draw.randrange(4)
        found.append(item)
    return found


def with_prompts(rows: list[dict[str, Any]], seed: int = 2) -> list[dict[str, Any]]:
    """Return items with texts whose numbers tell the kind."""
    draw = random.Random(seed)
    words = {"a": ["def", "f(x):", "{y};", "12"], "b": ["what", "is", "it"], "c": ["слово", "and", "word"]}
    return [
        {**item, "prompt": " ".join(draw.choices(words[item["kind"]], k=draw.randrange(2, 30))) + "?" * (item["coin"])}
        for item in rows
    ]


def truth(item: dict[str, Any]) -> bool:
    """Return the true label: the age tells it of one kind, the kind of the others."""
    return bool(item.get("age", 0) > 50) if item["kind"] == "b" else item["kind"] == "a"


def site(name: str = "north", **options: Any) -> Site:
    return Site(name, classifiers=MODELS[name], learnt=False, **options)


def network(**options: Any) -> Network:
    return Network([site(name, **options) for name in MODELS], call_cost=0.01)


def test_a_site_without_a_context_finds_out_which_features_matter() -> None:
    here = Site("here", classifiers={**MODELS["north"], **MODELS["south"]}, learnt=False)
    assert isinstance(here.learner.policy, MixedViews)
    assert here.score_local == "all"
    wrong = 0
    for n, item in enumerate(items(500)):
        decision = here.classify(item)
        wrong += n >= 300 and decision.label != truth(item)
        here.learn(decision, truth(item))
    assert wrong < 10
    assert here.axis_names == ("age", "kind", "weight", "coin", "ward", "new")
    trusted = here.weights()
    assert sum(view.share for name, view in trusted.items() if "kind" in name) > 0.75
    by_name = dict(here.explain({"kind": "a"}).views)
    added = by_name.pop("features added up")
    assert max(added.forecasts, key=lambda arm: added.forecasts[arm]) == "kinds"
    name, explained = next(iter(by_name.items()))
    assert "kind" in name
    assert explained.forecasts.keys() == {"kinds", "coin", "ages"}
    with pytest.raises(NoAnswer):
        here.explain("no features at all")


@pytest.mark.parametrize("size", [7, 300])
def test_batches_are_as_one_by_one_and_logs_lead_to_the_same_state(size: int, tmp_path: Path) -> None:
    log = list[events.Event]()
    one, many = site(), site(journal=log.append)
    rows = items(320)
    for first in range(0, 320, size):
        part = rows[first : first + size]
        single = [one.classify(item) for item in part]
        assert many.classify_many(part) == single
        one.learn_many(single, [truth(item) for item in part])
        many.learn_many(single, [truth(item) for item in part])
    assert whole(one.engine.state) == whole(many.engine.state)
    assert one.learner.features == [(4, 2, 0), (1, 0, 1), (1, 0, 0)]
    read = [decode(encode(event)) for event in log]
    assert whole(fold(read)) == whole(one.engine.state)
    assert verify(read) == []
    one.save(tmp_path / "state")
    again = site()
    again.load(tmp_path / "state")
    assert whole(again.engine.state) == whole(one.engine.state)
    assert [again.classify(item) for item in rows[:20]] == [one.classify(item) for item in rows[:20]]


def test_a_log_and_a_state_must_fit() -> None:
    given = site(context=Feature("weight", range=(0, 300), outside="clip"))
    log = list[events.Event]()
    site(journal=log.append).classify_many(items(140))
    start = next(event for event in log if isinstance(event, events.Started))
    bad = replace(start, axes=("x",), features=False, policy=MixedViews().facts())
    for kind in (events.FeaturesSeen, events.AxesCreated):
        event = next(event for event in log if isinstance(event, kind))
        with pytest.raises(StateError, match="the site looks at the given axes only, not at every feature"):
            fold([bad, event])
    state = site().state()
    with pytest.raises(StateError):
        given.restore(state)
    state.facts["site"]["features"]["axes"] = [["x", [0.0] * 63, True, []]]
    with pytest.raises(StateError, match="other features than axes"):
        site().restore(state)


TAMPERED: dict[str, Callable[[dict[str, Any]], object]] = {
    "items": lambda facts: facts.update(items=math.inf),
    "id": lambda facts: facts["notes"][0].__setitem__(0, math.inf),
    "features": lambda facts: facts.update(features=None),
    "no features of a site that has some": lambda facts: facts.update(features=None),
    "a watched value": lambda facts: facts["features"]["seen"]["coin"].__setitem__(4, [[]]),
}


@pytest.mark.parametrize("tampered", TAMPERED)
def test_a_state_that_was_tampered_with_is_refused_and_changes_nothing(tampered: str) -> None:
    saved, other = (Site("a", classifiers={"x": lambda item: 1}) for _ in range(2))
    saved.classify_many(items(60))
    state, before = saved.state(), whole(other.engine.state)
    TAMPERED[tampered](state.facts["site"])
    with pytest.raises(StateError, match="the saved state of site 'a' is damaged"):
        other.restore(state)
    assert whole(other.engine.state) == before
    other.restore(saved.state())()


@pytest.mark.compiled
@pytest.mark.parametrize(("delay", "prompts"), [(0, False), (3, False), (3, True)])
def test_a_replay_decides_as_the_network(delay: int, prompts: bool) -> None:
    rows = with_prompts(items(260)) if prompts else items(260)
    live = network()
    turns = list(live.run({name: [(item, truth(item)) for item in rows] for name in MODELS}, label_delay=delay))
    functions = [model for models in MODELS.values() for model in models.values()]
    gains = np.array([[float(model(item) == truth(item)) for model in functions] for item in rows])
    learners = [
        Learner(name, own=dict.fromkeys(models, 0.0), dimensions=0, policy=live.sites[name].learner.policy,
                score_local="all")
        for name, models in MODELS.items()
    ]  # fmt: skip
    for learner in learners:
        for name, models in MODELS.items():
            if name != learner.name:
                learner.add_peer(name, 0.01, len(models))
    trace = simulate(learners, np.zeros((len(rows), 0)), gains, delay=delay, features=rows)
    for n, learner in enumerate(learners):
        arms = [turn.decision.arm for turn in turns if turn.site == learner.name]
        assert [learner.arms.names[arm] for arm in trace.arms[:, n]] == arms
        ours, theirs = learner.state().arrays, live.sites[learner.name].learner.state().arrays
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert len({turn.decision.arm for turn in turns if turn.site == "north"} & {"south", "west"}) > 0


def test_a_replay_says_what_it_cannot_look_at() -> None:
    rows, gains = items(3), np.zeros((3, 1))
    mixed = Learner("a", own={"x": 0.0}, dimensions=0, policy=MixedViews())
    for learner, few, where, wrong in (
        (Learner("a", own={"x": 0.0}, policy=CoS()), rows, None, "MixedViews"),
        (mixed, rows[:2], None, r"one for each item of contexts \(3\), got 'those of 2 items'"),
        (mixed, [*rows, {}], None, r"one for each item of contexts \(3\), got 'those of 4 items'"),
        (mixed, ["a"] * 3, None, "the features of an item must be a mapping"),
        (mixed, [{}, None, {}], None, "the features of an item must be a mapping"),
        (mixed, (row for row in rows), None, "features must be a list of mappings"),
        (mixed, 5, None, "features must be a list of mappings"),
        (mixed, {"a": 1}, None, "features must be a list of mappings"),
        (mixed, np.zeros((3, 2)), None, "features must be a list of mappings"),
        (mixed, rows, [[-1], [0], [1]], "in the first slot"),
    ):
        before, given = learner.arrivals, cast("Any", few)
        with pytest.raises(CosendError, match=wrong):
            simulate([learner], np.zeros((3, learner.dimensions)), gains, items=where, features=given)
        assert learner.arrivals == before


def test_given_axes_and_every_feature_go_together() -> None:
    axes = [AllFeatures(without=["id"]), PreviousLabel(False, True), Feature("weight")]
    here = site(context=axes, policy=MixedViews(), score_local="all", journal=(log := list[events.Event]()).append)
    for item in items(300):
        here.learn(here.classify(item), truth(item))
    assert here.axis_names[2:] == ("age", "kind", "weight", "coin", "ward", "new")
    assert here.learner.dimensions == 8
    assert whole(fold(log)) == whole(here.engine.state)
    assert any("previous" in name.lower() and "kind" in name for name in here.weights())


def test_sites_that_describe_items_differently_work_together() -> None:
    """The one that is called takes the axes that it knows by name, and reads the others off the item."""
    weight = Feature("weight", range=(0, 300), outside="clip")
    logs: dict[str, list[events.Event]] = {name: [] for name in MODELS}
    contexts: dict[str, Any] = {
        "north": None,
        "south": [weight, Category("kind"), Feature("weight")],
        "west": [PreviousLabel(False, True), Time(400), weight],
    }
    policies: dict[str, Any] = {"north": None, "south": MixedViews(), "west": CoS(slices=2, exploration_exponent=0.1)}
    sites = [site(n, context=contexts[n], policy=policies[n], journal=logs[n].append) for n in MODELS]
    turns = list(Network(sites, call_cost=0.01).run({n: [(i, truth(i)) for i in items(170)] for n in MODELS}))
    called = {(turn.site, turn.decision.arm) for turn in turns}
    assert {("north", "south"), ("south", "north"), ("west", "south"), ("west", "north")} <= called
    for each in sites:
        assert whole(fold(logs[each.name])) == whole(each.engine.state)
        assert verify(logs[each.name]) == []
        assert not each.pending()


def test_a_site_that_only_answers_learns_of_features_from_calls() -> None:
    here, asks = site("south", journal=(log := list[events.Event]()).append), ZoomingKLUCB(share_labels="always")
    caller = site("west", context=Feature("weight", range=(0, 300), outside="clip"), policy=asks)
    caller.add_peer("south", here)
    caller.pause("never")
    caller.pause("weights")
    rows = items(300)  # a ward that never changed does after 250
    for item in rows[:130]:
        caller.learn(caller.classify(item), truth(item))
    made = caller.classify_many(rows[130:])
    caller.learn_many(made, [truth(item) for item in rows[130:]])
    assert here.axis_names[:5] == ("age", "kind", "weight", "coin", "ward")
    assert whole(fold(log)) == whole(here.engine.state)
    here.classify_many(rows[:3])
    assert here.engine.state.encoder.features is not None
    assert here.engine.state.encoder.features.own
    question = Question(10**6, {**rows[0], "country": "elsewhere"}, (), False, False)
    assert here.serve(Call("south", "west", [question], None))[0].failed is None
    assert "country" not in here.axis_names  # now that it has items of its own, only these count
    here.classify({**rows[0], "country": "elsewhere"})
    assert "country" in here.axis_names
    assert whole(fold(log)) == whole(here.engine.state)


def test_a_policy_that_needs_a_context_says_so() -> None:
    with pytest.raises(SettingError, match="MixedViews where every feature is looked at"):
        site(policy=CoS())
    with pytest.raises(SettingError, match="only MixedViews can do without a context"):
        Learner("a", own={"x": 0.0}, dimensions=0, policy=CoS())
    with pytest.raises(SettingError, match="added to MixedViews"):
        Learner("a", own={"x": 0.0}, policy=CoS()).add_axes(1)
    with pytest.raises(SettingError, match="given once"):
        site(context=[AllFeatures(), AllFeatures()])


# Texts


@pytest.mark.parametrize("size", [7, 300])
def test_texts_in_batches_are_as_one_by_one_and_logs_lead_to_the_same_state(size: int) -> None:
    log = list[events.Event]()
    options: dict[str, Any] = {"classifiers": MODELS["north"]}
    one, many = Site("north", **options), Site("north", journal=log.append, **options)
    rows = with_prompts(items(320))
    for first in range(0, 320, size):
        part = rows[first : first + size]
        single = [one.classify(item) for item in part]
        assert many.classify_many(part) == single
        one.learn_many(single, [truth(item) for item in part])
        many.learn_many(single, [truth(item) for item in part])
    read = [decode(encode(event)) for event in log]
    assert whole(one.engine.state) == whole(many.engine.state) == whole(fold(read))
    assert verify(read) == []
    assert {name for name in one.axis_names if name.startswith("prompt")} == {
        f"prompt: {number}" for number in TEXT_NUMBERS if number != "lines"
    }


def test_learnt_arms_see_the_numbers_of_a_text() -> None:
    here = Site("here", classifiers={"no": lambda item: "no"})
    for item in with_prompts(items(600)):
        text = {"prompt": item["prompt"]}
        here.learn(here.classify(text), item["kind"])
    fresh = with_prompts(items(200, seed=5), seed=6)
    said = here.predict("grown", [{"prompt": item["prompt"]} for item in fresh])
    assert sum(label == item["kind"] for label, item in zip(said, fresh, strict=True)) > 190


def test_a_peer_describes_a_text_by_its_own_axes() -> None:
    here = site("south", policy=MixedViews(), score_local="all")
    rows = with_prompts(items(300))
    for item in rows[:200]:
        here.learn(here.classify(item), truth(item))
    state = here.engine.state
    (described,) = state.describe([rows[250]], [()], (), watch=False)
    (point,) = state.encoder.look([rows[250]], state.learner.arrivals)
    assert described == tuple(state.encoder.spell(point))
    assert len(described) == len(here.axis_names) > 8
