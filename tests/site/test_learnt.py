"""Arms that a site learns from its own labels: exact, whatever comes in which order, and safe, whatever is loaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cosend import CoS, Learnt, Network, Patience, Site, fold
from cosend.algorithm import boosting
from cosend.algorithm.state import State
from cosend.axes import AllFeatures, Axis, Category, Feature, PreviousLabel
from cosend.engine import events, learnt_arms
from cosend.engine.fold import apply
from cosend.engine.needs import Call, Forward, Question
from cosend.engine.site_state import Heard, SiteState
from cosend.errors import LabelWarning, RewardError, SettledDecision, StateError
from cosend.store.state_file import read_state, write_state
from tests.engine.world import restored, whole
from tests.examples import examples
from tests.site.drawn import assert_log_is_the_state, drawn_items, half, learnt_alike, played_both_ways, truth_of
from tests.site.drawn import fits_begin_early_and_are_small as fits_begin_early_and_are_small

pytestmark = pytest.mark.usefixtures("fits_begin_early_and_are_small")

UNIT = Feature("x", range=(0, 1))
AXES: list[Axis] = [UNIT, Category("kind")]
LATEST: list[Axis] = [PreviousLabel("a", "b", "c"), Feature("x", window=9)]


def moody(item: Any) -> Any:
    return ("c", 0.5) if item["x"] > 0.9 else "c" if item["x"] > 0.1 else None


def broken(_: Any) -> Any:
    raise ValueError("broken")


MODELS: dict[str, Any] = {"half": half, "moody": moody, "dear": lambda _: "b"}


def a_site(name: str = "here", log: list[Any] | None = None, **options: Any) -> Site:
    settings: dict[str, Any] = {"classifiers": MODELS, "context": AXES, "costs": {"dear": 0.2}, "seed": 3, **options}
    return Site(name, journal=None if log is None else log.append, **settings)


# The same whatever comes in which order


@pytest.mark.parametrize(
    "options",
    [{}, {"context": LATEST, "patience": Patience(wait_limit=30)}, {"policy": CoS(slices=2), "learnt": True}],
    ids=["default", "newest label", "CoS"],
)
@given(seed=st.integers(0, 2**32))
@examples(3)
def test_batches_restarts_and_one_by_one_are_the_same(options: dict[str, Any], seed: int) -> None:
    one = played_both_ways(lambda log: a_site(log=log, **options), seed)
    assert one.engine.state.learnt.fitted >= 20


@pytest.mark.compiled
@given(seed=st.integers(0, 2**32))
@examples(10)
def test_they_are_the_same_compiled(seed: int) -> None:
    draw, log = random.Random(seed), list[Any]()
    one, many = a_site(log=log, context=None), a_site(context=None)
    for _ in range(10):
        learnt_alike(one, many, drawn_items(draw, draw.choice([10, 40])))
    assert whole(many.engine.state) == whole(one.engine.state)
    assert_log_is_the_state(log, one)


def test_sites_with_learnt_arms_that_ask_each_other_fold_to_their_states() -> None:
    logs: dict[str, list[Any]] = {"north": [], "south": [], "west": []}
    contexts: list[Any] = [AXES, LATEST, None]
    sites = [a_site(name, log, context=axes) for (name, log), axes in zip(logs.items(), contexts, strict=True)]
    draw = random.Random(5)
    streams = {name: [(item, truth_of(item)) for item in drawn_items(draw, 60)] for name in logs}
    turns = [*Network(sites, call_cost=0.02).run(streams, label_delay=3)]
    assert {turn.decision.arm for turn in turns} >= {"grown", "stack"}
    for site in sites:
        assert any(isinstance(event, events.Served) for event in logs[site.name])
        assert_log_is_the_state(logs[site.name], site)


def test_late_fits_are_the_same_whoever_fits_them() -> None:
    """A log says when trees came into force; they follow from the labels that the fit began with."""
    log = list[Any]()
    state = SiteState("s", local={"a": 0.0, "t": 0.0}, learnt={"t": "grown"}, axes=[UNIT], fits_at_once=False,
                      score_local="all", journal=log.append)  # fmt: skip

    def label(count: int) -> None:
        for n in range(count):
            points, seen = state.encode([[n / count]])
            known = learnt_arms.Opinions({}, {})
            said, sure = state.learnt.opinions(["t"], seen, state.encoder.newest_label, known)
            heard = learnt_arms_heard({"a": ["yes"], **said}, dict(sure), seen)
            step = state.choose(points, heard=heard, without=() if said else ("t",))
            state.settle([step.first], ["yes" if n % 3 else "no"], [1.0])

    label(8)
    window = state.learnt.fitting
    assert window is not None
    assert (window.labels, state.learnt.fitted) == (8, 0)
    assert whole(fold(log)) == whole(restored(state)) == whole(state)  # with a fit that has begun
    label(12)
    assert state.learnt.fitting is window  # others wait for it
    state.fitted(learnt_arms.grow(window))
    assert (log[-1].count, state.learnt.fitted) == (8, 8)
    assert state.learnt.fitting is not None  # the next one is due
    assert state.learnt.fitting.labels == 20
    label(5)
    folded = fold(log)
    assert whole(folded) == whole(restored(state)) == whole(state)
    state.fitted(None)
    apply(log[-1], folded)
    assert whole(folded) == whole(state)
    with pytest.raises(StateError, match="Fitted, cannot be applied: no fit has begun"):
        fold([log[0], events.Fitted(8)])


def learnt_arms_heard(said: Any, sure: Any, seen: learnt_arms.Seen) -> Any:
    return Heard(said, sure, (), seen.packed())


def test_a_site_goes_on_with_the_fits_of_a_service() -> None:
    log = list[Any]()
    site = a_site(log=log)
    log[0] = replace(log[0], fits_at_once=False)
    for item in drawn_items(random.Random(1), 9):
        site.learn(site.classify(item), truth_of(item))
    again = a_site()
    again.recover(log[:-1])  # the service began a fit with label 8, and was stopped
    state = again.engine.state
    assert (state.learnt.fitted, state.learnt.fitting is not None) == (0, True)
    again.learn(site.learner.last_id, "a")
    assert (state.learnt.fitted, state.learnt.fitting) == (8, None)


# What they learn


@pytest.mark.compiled
def test_they_learn_what_no_model_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "FIRST_FIT", 100)
    monkeypatch.setattr(boosting, "ROUNDS", 60)
    draw, right = random.Random(2), 0
    site = Site("here", classifiers={"wrong": lambda _: "a"})
    for n, item in enumerate(drawn_items(draw, 700)):
        truth = "ab"[(item["y"] > 1) != (item["x"] > 0.5)]
        decision = site.classify(item)
        right += n >= 500 and decision.label == truth
        site.learn(decision, truth)
    assert right > 180
    assert site.summary().arms[1].name == "grown"
    assert site.predict("grown", [{"x": 0.9, "y": 3, "kind": "a"}, {"x": 0.9, "y": 0, "kind": "a"}]) == ["a", "b"]


def test_a_site_needs_no_models_of_its_own() -> None:
    site = Site("here", classifiers={}, context=UNIT)
    first = site.classify({"x": 0.1})
    assert (first.label, first.arm in ("grown", "stack")) == (None, True)
    site.learn(first, "low")
    assert site.classify({"x": 0.1})[1:3] == ("low", "stack")
    for item in drawn_items(random.Random(1), 60):
        site.learn(site.classify(item), "low" if item["x"] < 0.5 else "high")
    assert [site.classify({"x": x}).label for x in (0.1, 0.9)] == ["low", "high"]


def test_a_stack_alone_fits_no_trees_and_takes_any_number_of_labels() -> None:
    site = Site("here", classifiers={"mine": Learnt.STACK}, context=UNIT, learnt=False)
    for n in range(60):
        site.learn(site.classify({"x": n % 6 / 6}), f"label {n % 6}")
    assert (site.engine.state.learnt.fitting, site.engine.state.learnt.fitted) == (None, 0)
    assert site.engine.state.learnt.labels == [f"label {n}" for n in range(6)]
    assert site.predict("mine", [{"x": 0.0}]) == ["label 0"]


def test_the_stack_believes_models_that_are_right_and_sure() -> None:
    def sure(item: Any) -> Any:
        return ("yes" if item["x"] < 0.5 else "no", abs(2.0 * item["x"] - 1.0))

    site = Site("here", classifiers={"sure": sure, "other": lambda item: "no" if item["x"] < 0.9 else "yes"},
                context=Category("kind"))  # fmt: skip
    for item in drawn_items(random.Random(3), 60):
        site.learn(site.classify(item), "yes" if item["x"] < 0.5 else "no")
    items = [{"x": 0.05, "kind": "a"}, {"x": 0.95, "kind": "a"}]
    assert site.predict("stack", items) == ["yes", "no"]
    assert site.predict("sure", items) == ["yes", "no"]
    before = whole(site.engine.state)
    site.predict("grown", items)
    assert whole(site.engine.state) == before  # nothing is remembered


def test_before_the_first_label_models_vote_by_how_sure_they_are_and_the_stack_decides() -> None:
    """One is surer than the others, or two outvote it; what fails or says nothing has no vote."""
    chances = {"one": 0.9, "two": 0.6, "three": 0.6}
    models: dict[str, Any] = {
        "one": lambda item: ("yes", item["sure"]),
        "two": lambda _: ("no", 0.6),
        "three": lambda item: ("no", 0.6) if item["both"] else None,
        "broken": broken,
    }
    site = Site("here", classifiers=models, costs={}, seed=1)
    items = [{"sure": chances["one"], "both": False}, {"sure": 0.6, "both": True}, {"sure": 0.61, "both": False}]
    made = site.classify_many(items)
    assert [(each.label, each.arm) for each in made] == [("yes", "stack"), ("no", "stack"), ("yes", "stack")]
    assert [site.predict("stack", [item])[0] for item in items] == ["yes", "no", "yes"]
    assert site.predict("grown", items) == [None, None, None]
    site.learn(made[0], "yes")
    assert {site.classify(item).arm for item in items * 20} > {"stack"}


def test_nobody_votes_for_models_that_are_not_heard_or_say_nothing() -> None:
    site = Site("here", classifiers={"dear": lambda _: "a", "dumb": lambda _: None}, costs={"dear": 0.1}, seed=1)
    assert site.classify({"x": 1}).arm == "dear"
    assert site.predict("stack", [{"x": 1}]) == [None]


@pytest.mark.parametrize("at_once", [True, False], ids=["one by one", "in batches"])
def test_trees_are_used_before_labels_of_their_own_opinions_come(at_once: bool) -> None:
    """All labels are late; trees know what no model does, and show it on items on which they had no opinion."""
    draw, site = random.Random(4), Site("here", classifiers={"a": lambda _: "a", "b": lambda _: "b"}, context=UNIT)
    items = [{"x": draw.random()} for _ in range(200)]
    made = site.classify_many(items)
    truths = ["ab"[int(4 * item["x"]) % 2] for item in items]

    def scored() -> int:
        return next(arm.scored for arm in site.summary().arms if arm.name == "grown")

    assert scored() == 0
    for n in range(0, 200, 1 if at_once else 50):
        site.learn_many(made[n : n + (1 if at_once else 50)], truths[n : n + (1 if at_once else 50)])
    assert scored() == 200 - learnt_arms.FIRST_FIT
    later = site.classify_many([{"x": draw.random()} for _ in range(100)])
    assert sum(each.arm == "grown" for each in later) > 50


def test_a_bad_label_among_many_changes_nothing_though_a_fit_is_due_before_it() -> None:
    site = Site("here", classifiers={"a": lambda _: "a", "b": lambda _: "b"}, context=UNIT)
    made = [each.id for each in site.classify_many([{"x": n / 40} for n in range(40)])]
    before = whole(site.engine.state)
    with pytest.raises(SettledDecision):
        site.learn_many([*made, made[0]], ["a"] * 41)
    with pytest.raises(RewardError):
        site.learn_many(made, ["a"] * 40, [None] * 39 + [2.0])
    assert whole(site.engine.state) == before
    site.learn_many(made, ["a", "b"] * 20, [None] * 39 + [0.5])
    assert site.engine.state.learnt.count == 40


def only_labels(label: Any, truth: Any) -> float:
    if truth is None:
        raise ValueError("a score is no label")
    return float(label == truth)


def test_scores_and_labels_across_fits_are_learnt_together_as_one_by_one() -> None:
    logs: list[list[Any]] = [[], []]
    one, many = (a_site(log=log, reward=only_labels) for log in logs)
    items = drawn_items(random.Random(5), 60)
    made = many.classify_many(items)
    assert [one.classify(item).arm for item in items] == [each.arm for each in made]
    truths = [None if n % 3 == 1 else truth_of(item) for n, item in enumerate(items)]
    scores = [0.5 if truth is None else None for truth in truths]
    for each, truth, score in zip(made, truths, scores, strict=True):
        one.learn(each.id, truth, score=score)
    many.learn_many(made, truths, scores=scores)
    assert many.engine.state.learnt.fitted > 2 * learnt_arms.FIRST_FIT
    for site, log in zip((one, many), logs, strict=True):
        assert whole(site.engine.state) == whole(one.engine.state)
        assert_log_is_the_state(log, site)


def test_any_number_of_fits_may_be_due_among_labels_that_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    window = learnt_arms.Window(2, 2, [(b"", 0, 0), (b"", 1, 1)])
    trees = learnt_arms.grow(window)
    monkeypatch.setattr(learnt_arms, "MUCH_MORE", 1)
    monkeypatch.setattr(learnt_arms, "grow", lambda _: trees)
    site = Site("here", classifiers={"a": lambda _: "a"}, context=UNIT)
    made = site.classify_many([{"x": 0.5}] * 1_200)
    site.learn_many(made, ["a", "b"] * 600)
    assert site.engine.state.learnt.fitted == 1_200
    assert site.pending() == {}


def test_a_reward_that_fails_for_what_trees_would_have_said_hinders_no_label() -> None:
    def reward(label: Any, truth: Any) -> float:
        return {("a", "a"): 1.0, ("a", "b"): 0.0}[label, truth]

    site, draw = Site("here", classifiers={"a": lambda _: "a"}, context=UNIT, reward=reward), random.Random(2)
    items = [{"x": draw.random()} for _ in range(60)]
    made = site.classify_many(items)
    site.learn_many(made, ["ab"[item["x"] > 0.5] for item in items])
    assert site.pending() == {}
    (grown,) = (arm for arm in site.summary().arms if arm.name == "grown")
    assert 0 < grown.scored < 60 - learnt_arms.FIRST_FIT


def test_labels_of_peers_too_end_the_vote() -> None:
    log: list[Any] = []
    models = {"wrong": lambda _: "b", "right": lambda _: "a"}
    site, said = Site("here", classifiers=models, context=UNIT, journal=log.append), list[Any]()
    for n in range(20):
        (reply,) = site.serve(Call("here", "there", [Question(n, {"x": 0.5}, (0.5,), False, True)]))
        site.teach(Forward("here", "there", n, "a"))
        said.append(reply.label)
    assert said[0] == "b"
    assert said[5:] == ["a"] * 15
    assert_log_is_the_state(log, site)


def test_before_the_first_label_a_stack_hears_no_model_that_fails() -> None:
    site = a_site(classifiers={**MODELS, "broken": broken})
    items = [{"x": 0.95, "kind": "a", "y": 1}, {"x": 0.05, "kind": "b", "y": 1}]
    assert site.predict("stack", items) == ["b", "a"]
    assert site.predict("grown", items) == [None, None]
    site.learn(site.classify(items[1]), "a")
    assert site.predict("stack", items) == ["a", "a"]  # whatever the others say


def test_a_label_that_cannot_be_hashed_or_comes_too_late_teaches_them_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "MOST_LABELS", 3)
    site = Site("here", classifiers={"one": lambda _: "one"}, context=UNIT, reward=lambda *_: 0.5)
    learnt = site.engine.state.learnt

    def label(truth: Any) -> int:
        site.learn(site.classify({"x": 0.5}), truth)
        return learnt.count

    assert label(["a", "list"]) == 0
    assert learnt.labels == ["one"]  # it is what a model says
    assert [label(truth) for truth in ("a", 7, "b", "a")] == [1, 2, 2, 3]
    assert learnt.labels == ["one", "a", 7]
    site.learn_many(site.classify_many([{"x": 0.5}] * 4), ["c", "d", 7, None])
    assert learnt.count == 4


@pytest.mark.compiled
def test_a_feature_that_gets_an_axis_later_is_missing_in_what_was_seen_before(tmp_path: Path) -> None:
    log, draw = list[Any](), random.Random(8)
    site = a_site(log=log, context=[UNIT, AllFeatures()])
    waiting = []
    for n, item in enumerate(drawn_items(draw, 420)):
        if n > 150:
            item["new"] = draw.randrange(3)
        waiting.append((site.classify(item), truth_of(item)))
        while len(waiting) > 20:  # some were decided before there was an axis
            site.learn(*waiting.pop(draw.randrange(len(waiting))))
    assert site.axis_names[-1] == "new"
    widths = {len(note.seen) for note in site.learner.registry.notes.values()}
    assert max(widths) == learnt_arms.WIDTH * site.learner.dimensions
    site.save(tmp_path / "state")
    again = a_site(context=[UNIT, AllFeatures()])
    again.load(tmp_path / "state")
    assert whole(again.engine.state) == whole(site.engine.state)
    assert_log_is_the_state(log, site)


def test_items_that_were_seen_with_fewer_axes_lack_the_others() -> None:
    assert learnt_arms.Seen.unpacked([b"", b""]).values.shape == (2, 0)
    seen = [learnt_arms.seen_at(points, points, ()).packed()[0] for points in (np.full((1, n), 0.5) for n in range(3))]
    assert seen[0] == b""
    values, slices = learnt_arms.Seen.unpacked(seen)
    assert slices.tolist() == [[255, 255], [8, 255], [8, 8]]
    assert [[value for value in row if value == value] for row in values.tolist()] == [[], [0.5], [0.5, 0.5]]


def test_a_number_that_is_too_large_for_them_is_infinite() -> None:
    site = Site("here", classifiers={"one": lambda _: 1}, context=Feature("x"))
    points = np.array([[1e300, -1e300, 0.5]]).T
    seen = learnt_arms.seen_at(points, np.array([[1.0, 0.0, 0.5]]).T, ())
    assert seen.values.ravel().tolist() == [np.inf, -np.inf, 0.5]
    assert seen.slices.ravel().tolist() == [15, 0, 8]
    assert learnt_arms.seen_at(points, np.array([[40.0, 3.0, np.nan]]).T, (0,)).slices.ravel().tolist() == [15, 3, 255]
    site.learn(site.classify({"x": 1e300}), 1)
    assert site.classify({"x": -1e300}).label == 1


# Arms come and go


def test_arms_leave_and_come_back_under_the_same_name() -> None:
    log, draw = list[Any](), random.Random(4)
    site = a_site(log=log)

    def go_on(count: int) -> None:
        for item in drawn_items(draw, count):
            site.learn(site.classify(item), truth_of(item))

    go_on(12)
    late = site.classify({"x": 0.4, "kind": "a"})
    learnt = site.engine.state.learnt
    before = learnt.facts()["models"]
    for arm in ("half", "grown", "stack"):
        site.remove(arm)
    assert (learnt.kinds, learnt.facts()["models"].keys()) == ({}, {"moody"})
    count = learnt.count
    go_on(5)
    assert learnt.count == count  # nobody is there to learn
    site.add_classifier("half", lambda _: "c")
    site.add_classifier("stack", Learnt.STACK)
    site.add_classifier("grown", Learnt.GROWN, cost=0.1)
    if site.is_pending(late):
        site.learn(late, "a")
    go_on(12)
    after = learnt.facts()["models"]
    assert after["moody"] == before["moody"]
    assert after["half"] not in before.values()  # what was learnt of the old one is not believed of the new one
    assert {arm.name: arm.cost for arm in site.summary().arms}["grown"] == 0.1
    assert_log_is_the_state(log, site)


def test_a_stack_that_comes_later_knows_the_models_that_were_heard_before() -> None:
    """A model may be heard with labels that teach nothing: there must be room for it all the same."""
    site = Site("here", classifiers={"a": lambda _: "a", "trees": Learnt.GROWN}, context=UNIT, learnt=False)
    site.learn(site.classify({"x": 0.5}), "a")
    site.add_classifier("b", lambda _: "a")
    site.learn(site.classify({"x": 0.5}), "a")
    site.add_classifier("stack", Learnt.STACK)
    assert site.classify({"x": 0.5}).label == "a"
    site.add_classifier("c", lambda _: "a")
    with pytest.warns(LabelWarning, match="it is a list"):
        site.learn(site.classify({"x": 0.5}), ["no", "label"])
    assert site.predict("stack", [{"x": 0.5}]) == ["a"]
    again = Site("here", classifiers={**dict.fromkeys("abc", lambda _: "a"), "trees": Learnt.GROWN,
                                      "stack": Learnt.STACK}, context=UNIT, learnt=False)  # fmt: skip
    again.restore(site.state())()
    assert again.predict("stack", [{"x": 0.5}]) == ["a"]


def test_a_paused_arm_is_not_heard_and_not_chosen() -> None:
    site, draw = a_site(), random.Random(6)
    site.pause("grown")
    decisions = []
    for item in drawn_items(draw, 30):
        decisions.append(site.classify(item))
        site.learn(decisions[-1], truth_of(item))
    assert "grown" not in {each.arm for each in decisions}
    assert "grown" not in site.engine.state.learnt.facts()["models"]
    site.resume("grown")
    site.learn(site.classify({"x": 0.2, "kind": "a"}), "a")
    assert "grown" in site.engine.state.learnt.facts()["models"]


# What is loaded


def a_state(**options: Any) -> State:
    """Return the state of a site with trees, a stack, and decisions that wait."""
    site = a_site(**options)
    for item in drawn_items(random.Random(7), 50):
        site.learn(site.classify(item), truth_of(item))
    site.classify({"x": 0.2, "kind": "a"})
    return site.state()


def with_a_fit() -> State:
    state = SiteState("here", local={"half": 0.0, "moody": 0.0, "dear": 0.2, "grown": 0.0, "stack": 0.0}, axes=AXES,
                      learnt={"grown": "grown", "stack": "stack"}, fits_at_once=False, seed=3)  # fmt: skip
    site = a_site()
    site.engine.state = state
    for item in drawn_items(random.Random(7), 8):
        step = state.choose(state.encode([[item["x"]], [item["kind"]]])[0], without=("grown", "stack"))
        state.complete([step.first], ["a"])
        state.settle([step.first], [truth_of(item)], [1.0])
    return site.state()


def fact(name: str, change: Callable[[Any], Any]) -> Callable[[State], object]:
    def apply_(state: State) -> None:
        learnt = state.facts["site"]["learnt"]
        learnt[name] = change(learnt[name])

    return apply_


def array(name: str, change: Callable[[Any], Any]) -> Callable[[State], object]:
    def apply_(state: State) -> None:
        changed = state.arrays[f"learnt_{name}"].copy()
        returned = change(changed)
        state.arrays[f"learnt_{name}"] = changed if returned is None else returned

    return apply_


def cell(place: Any, value: Any) -> Callable[[Any], None]:
    return lambda numbers: numbers.__setitem__(place, value)


def first_split(column: int, value: int) -> Callable[[Any], None]:
    """Change a column of the first node that is a split."""

    def change(nodes: Any) -> None:
        tree, node = np.argwhere(nodes[:, :, boosting.AXIS] != boosting.NO_AXIS)[0]
        nodes[tree, node, column] = value

    return change


def note(place: int, value: Any) -> Callable[[State], object]:
    return lambda state: state.facts["site"]["notes"][0].__setitem__(place, value)


DAMAGED: dict[str, Callable[[State], object]] = {
    "nothing": lambda state: state.facts["site"].update(learnt=None),
    "another kind": fact("kinds", lambda kinds: {**kinds, "stack": "vote"}),
    "no labels": fact("labels", lambda _: []),
    "a label twice": fact("labels", lambda labels: [labels[0], labels[0], labels[2]]),
    "a label that cannot be hashed": fact("labels", lambda labels: [*labels[:2], []]),
    "more labels than room": fact("labels", lambda labels: [*labels, "d", "e"]),
    "counts are missing": fact("counts", lambda counts: counts[:3]),
    "counts are text": fact("counts", lambda _: "many"),
    "more models than weights": fact("counts", lambda counts: [*counts[:3], counts[3] + 1]),
    "fewer models than none": fact("counts", lambda counts: [*counts[:3], -1]),
    "a model without weights": fact("models", lambda models: {**models, "half": 99}),
    "a model before the first": fact("models", lambda models: {**models, "half": -1}),
    "models are text": fact("models", lambda _: "half"),
    "a fit without items": fact("fitting", lambda _: [8, 3]),
    "weights are missing": lambda state: state.arrays.pop("learnt_stack_models"),
    "weights of no axis": array("stack_axes", lambda weights: weights[:, :3]),
    "weights with less room": array("stack_labels", lambda weights: weights[:, :2]),
    "weights of another kind": array("stack_labels", lambda weights: weights.astype(np.float32)),
    "weights without columns": array("stack_labels", lambda weights: weights.ravel()),
    "items are missing": lambda state: state.arrays.pop("learnt_window_rows"),
    "an item of no label": array("window_rows", cell((0, 2), 99)),
    "an item of no label but before the first": array("window_rows", cell((0, 2), -1)),
    "an item after no label": array("window_rows", cell((0, 1), 99)),
    "an item that is too long": array("window_rows", cell((0, 0), 1000)),
    "an item that ends before it begins": array("window_rows", cell((0, 0), -10)),
    "half an axis": array("window_rows", cell((0, 0), 7)),
    "items that are not in rows": array("window_rows", lambda rows: rows.ravel()),
    "fewer items than seen": array("window_rows", lambda rows: rows[1:]),
    "a split of no axis": array("grown_nodes", first_split(boosting.AXIS, 17)),
    "a split of an axis before the first": array("grown_nodes", first_split(boosting.AXIS, -2)),
    "a child outside": array("grown_nodes", first_split(boosting.LEFT, 28)),
    "a tree that goes round": array("grown_nodes", first_split(boosting.LEFT, 0)),
    "nodes of another kind": array("grown_nodes", lambda nodes: nodes.astype(np.int64)),
    "nodes without columns": array("grown_nodes", lambda nodes: nodes[:, :, :3]),
    "leaves of another kind": array("grown_values", lambda leaves: leaves.astype(np.float32)),
    "fewer leaves": array("grown_values", lambda leaves: leaves[:, :3]),
    "no scores": array("grown_first", lambda first: first[:0]),
    "scores in rows": array("grown_first", lambda first: first[None]),
    "scores of more labels": array("grown_first", lambda first: np.zeros(len(first) * 2)),
    "trees of some labels": array("grown_nodes", lambda nodes: nodes[1:]),
    "edges of nothing": array("grown_edges", lambda edges: edges[:0]),
    "fewer edges": array("grown_edges", lambda edges: edges[:, 1:]),
    "edges are missing": lambda state: state.arrays.pop("learnt_grown_edges"),
    "a decision that was seen in no slice": note(7, "AAAAAAAAAAAQEA=="),
    "a decision that was seen in half an axis": note(7, "AAAA"),
    "a decision of models that were too sure": note(6, "AAAA" * 16),
    "a decision of a model that was half sure": note(6, "AAA="),
}
DAMAGED_FITS: dict[str, Callable[[State], object]] = {
    "of more labels than there are": fact("fitting", lambda fitting: [fitting[0], 9]),
    "of no label": fact("fitting", lambda fitting: [fitting[0], 0]),
    "that is text": fact("fitting", lambda _: "soon"),
    "of nothing": lambda state: state.arrays.update(
        learnt_fitting_rows=np.zeros((0, 3), np.int64), learnt_fitting_seen=np.zeros(0, np.uint8)
    ),
    "of no items": lambda state: state.arrays.pop("learnt_fitting_seen"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], State]:
    """Return what reads states from files, each of them as new."""
    folder = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learnt_arms, "FIRST_FIT", 8)
        patch.setattr(boosting, "ROUNDS", 2)
        write_state(a_state(), folder / "trees")
        write_state(with_a_fit(), folder / "fit")
    return lambda name: read_state(folder / name)


def assert_is_refused(state: State, damage: Callable[[State], object]) -> None:
    site = a_site()
    before = whole(site.engine.state)
    damage(state)
    with pytest.raises(StateError, match="the saved state of site 'here' is damaged"):
        site.restore(state)
    assert whole(site.engine.state) == before


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_state_is_refused(damage: str, saved: Callable[[str], State]) -> None:
    assert_is_refused(saved("trees"), DAMAGED[damage])


@pytest.mark.parametrize("damage", DAMAGED_FITS)
def test_a_damaged_fit_is_refused(damage: str, saved: Callable[[str], State]) -> None:
    assert_is_refused(saved("fit"), DAMAGED_FITS[damage])


def test_what_is_not_damaged_is_taken(saved: Callable[[str], State]) -> None:
    for name in ("trees", "fit"):
        site = a_site()
        site.restore(saved(name))()
        if name == "trees":
            assert site.engine.state.learnt.trees() is not None
        site.learn(site.classify({"x": 0.3, "kind": "b"}), "b")


def test_a_state_with_other_learnt_arms_is_refused(saved: Callable[[str], State]) -> None:
    other = a_site(classifiers={**MODELS, "grown": Learnt.STACK, "stack": Learnt.GROWN}, learnt=False)
    with pytest.raises(StateError, match="the saved state has the learnt arms"):
        other.restore(saved("trees"))


BAD_EVENTS: dict[str, dict[str, Any]] = {
    "seen in no slice": {"seen": (b"\0\0\0\0\x10" * 2,)},
    "seen in half an axis": {"seen": (b"\0\0\0",)},
    "seen twice": {"seen": (b"", b"")},
    "sure of what it has not said": {"sure": {"dear": b"\0\0\0\0"}},
    "sure by halves": {"sure": {"half": b"\0\0\0"}},
    "sure of two": {"sure": {"half": b"\0" * 8}},
}


@pytest.mark.parametrize("bad", BAD_EVENTS)
def test_an_event_that_cannot_have_been_is_refused(bad: str) -> None:
    log = list[Any]()
    site = a_site(log=log)
    site.learn(site.classify({"x": 0.2, "kind": "a"}), "a")
    (place,) = [n for n, event in enumerate(log) if isinstance(event, events.Chosen)]
    log[place] = replace(log[place], **BAD_EVENTS[bad])
    with pytest.raises(StateError, match="Chosen, cannot be applied"):
        fold(log)


def test_labels_that_would_not_come_back_are_not_saved() -> None:
    site = Site("here", classifiers={"pair": lambda _: ("a", 1)}, context=UNIT)
    site.learn(site.classify({"x": 0.5}), ("b", 2))
    with pytest.raises(StateError, match="labels and kept items must be plain values"):
        site.state()


def test_everything_that_they_need_is_compiled_in_advance() -> None:
    learnt_arms.warm_up()


def test_a_stack_alone_learns_many_labels_and_begins_no_fit() -> None:
    log: list[Any] = []
    site = a_site(log=log, classifiers={"mine": Learnt.STACK}, costs={}, learnt=False)
    for n in range(40):
        site.learn(site.classify({"x": n % 9 / 9, "kind": "a"}), f"label {n % 9}")
    assert (len(site.engine.state.learnt.labels), site.engine.state.learnt.fitting) == (9, None)
    assert whole(fold(log)) == whole(site.engine.state)
