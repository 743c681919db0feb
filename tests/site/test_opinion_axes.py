"""What models say, as part of the context: it routes, and everything stays the same to the last bit."""

from __future__ import annotations

import random
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import CellKLUCB, CoS, Learnt, MixedViews, Network, Patience, Site
from cosend import axes as all_axes
from cosend.axes import AllFeatures, Axis, Category, Confidence, Feature, PreviousLabel, Says
from cosend.axis_format import name_of, ticks_of, value_at
from cosend.engine import encoding, events
from cosend.engine.needs import Call, Question
from cosend.errors import ClassifierError, ContextError, SettingError, StateError
from tests.engine.world import restored, whole
from tests.examples import examples
from tests.site.drawn import assert_log_is_the_state, drawn_items, half, learnt_alike, played_both_ways, truth_of
from tests.site.drawn import fits_begin_early_and_are_small as fits_begin_early_and_are_small

pytestmark = pytest.mark.usefixtures("fits_begin_early_and_are_small")

UNIT = Feature("x", range=(0, 1))
EVERYTHING: list[Axis] = [Says("stack"), UNIT, Confidence("half"), Category("kind"), Says("moody"), Confidence("grown")]
CONTEXTS: dict[str, list[Axis]] = {
    "alone": [Confidence("half"), Says("half"), Says("dumb")],
    "with others": EVERYTHING,
    "with ranks and labels": [Says("grown"), Feature("y", window=9), PreviousLabel("a", "b", "c"), Confidence("stack")],
    "with every feature": [AllFeatures(), Says("moody"), Category("kind"), Confidence("half"), Says("grown")],
}


def moody(item: Any) -> Any:
    if item["x"] > 0.95:
        raise ValueError("too much")
    return ("c", 0.5) if item["x"] > 0.9 else "c" if item["x"] > 0.1 else None


def dear(item: Any) -> Any:
    if item["x"] < 0.3:
        raise ValueError("too little")
    return "b"


MODELS: dict[str, Any] = {"half": half, "moody": moody, "dumb": lambda _: "a", "dear": dear}


def a_site(name: str = "here", log: list[Any] | None = None, **options: Any) -> Site:
    settings: dict[str, Any] = {"classifiers": MODELS, "context": EVERYTHING, "costs": {"dear": 0.05}, "seed": 3}
    return Site(name, journal=None if log is None else log.append, **{**settings, **options})


# What it is good for


def errors(site: Site, truth: Any, items: list[Any]) -> int:
    """Return how often a site is wrong on the second half of some items, each labelled before the next."""
    wrong = 0
    for n, item in enumerate(items):
        decision = site.classify(item)
        wrong += n >= len(items) // 2 and decision.label != truth(item)
        site.learn(decision, truth(item))
    return wrong


def test_how_sure_a_model_is_tells_which_arm_is_right() -> None:
    """One model is right where it is sure; the other one elsewhere."""
    models = {"sure": lambda item: ("yes", item["p"]), "other": lambda _: "no"}
    draw = random.Random(1)
    items = [{"p": draw.random(), "x": draw.random()} for _ in range(400)]

    def truth(item: Any) -> str:
        return "yes" if item["p"] > 0.5 else "no"

    without = Site("s", classifiers=models, context=UNIT, learnt=False)
    alone = Site("s", classifiers=models, context=Confidence("sure"), learnt=False)
    beside = Site("s", classifiers=models, context=[UNIT, Confidence("sure")], learnt=False)
    assert errors(without, truth, items) > 70
    assert errors(alone, truth, items) < 12
    assert errors(beside, truth, items) < 12
    trust = {name: view.share for name, view in beside.weights().items()}
    assert max(trust, key=trust.__getitem__) in ("confidence of sure", "x + confidence of sure")


def test_what_a_model_says_tells_which_arm_is_right() -> None:
    """One model knows which of two others is right, and says something else itself."""
    models = {"guide": lambda item: item["way"], "yes": lambda _: "yes", "no": lambda _: "no"}
    draw = random.Random(1)
    items = [{"way": draw.choice(["left", "right", 7, 2.5]), "x": draw.random()} for _ in range(400)]

    def truth(item: Any) -> str:
        return "yes" if item["way"] in ("left", 7) else "no"

    without = Site("s", classifiers=models, context=UNIT, learnt=False)
    with_it = Site("s", classifiers=models, context=[Says("guide"), UNIT], learnt=False)
    assert errors(without, truth, items) > 70
    assert errors(with_it, truth, items) < 12
    assert with_it.axis_names == ("x", "what guide says")
    heaviest, *_ = with_it.explain({"way": "left", "x": 0.5}).views
    assert "what guide says" in heaviest or heaviest == "features added up"
    both = [{"way": "left", "x": 0.5}, {"way": "right", "x": 0.5}]
    before = whole(with_it.engine.state)
    assert with_it.best_model(both) == ["yes", "no"]
    assert with_it.best_model([{"way": "never heard", "x": 0.5}])[0] in models
    assert whole(with_it.engine.state) == before  # nothing is remembered


# The same whatever comes in which order


def where_no_arm_fails(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"x": 0.3 + 0.6 * item["x"]}


@pytest.mark.parametrize("context", CONTEXTS)
@given(seed=st.integers(0, 2**32))
@examples(3)
def test_batches_restarts_and_one_by_one_are_the_same(context: str, seed: int) -> None:
    options: dict[str, Any] = {"context": CONTEXTS[context], "patience": Patience(wait_limit=40)}
    one = played_both_ways(lambda log: a_site(log=log, **options), seed, where_no_arm_fails)
    assert whole(restored(one.engine.state)) == whole(one.engine.state)


@pytest.mark.compiled
@pytest.mark.parametrize("context", CONTEXTS)
def test_they_are_the_same_compiled_and_after_a_load(context: str, tmp_path: Path) -> None:
    draw, log = random.Random(4), list[Any]()
    one, many = (a_site(log=journal, context=CONTEXTS[context]) for journal in (log, None))
    for n in range(20):
        learnt_alike(one, many, [where_no_arm_fails(item) for item in drawn_items(draw, 30)])
        if n == 10:
            many.save(tmp_path / "site")
            many = a_site(context=CONTEXTS[context])
            many.load(tmp_path / "site")
    assert whole(many.engine.state) == whole(one.engine.state)
    assert_log_is_the_state(log, one)


def test_an_item_whose_arm_fails_is_chosen_again_in_the_same_context() -> None:
    log = list[Any]()
    site = a_site(log=log)
    for item in drawn_items(random.Random(2), 80):
        site.learn(site.classify(item), truth_of(item))
    again = [event for event in log if isinstance(event, events.Chosen) and event.again]
    assert again
    chosen = {each.first: each.contexts for each in log if isinstance(each, events.Chosen)}
    for event in again:
        assert chosen[event.first - 1] == event.contexts
    assert_log_is_the_state(log, site)


# Where there is no opinion


def test_an_opinion_that_is_not_there_is_missing() -> None:
    site = a_site(context=[Says("stack"), Confidence("grown"), Says("moody"), Confidence("moody"), Confidence("dumb")])
    item = {"x": 0.5, "kind": "a", "y": 0}

    def context(**changes: Any) -> tuple[Any, ...]:
        return site.classify({**item, **changes}).context

    assert context()[1:] == (None, "c", None, None)  # nothing is learnt, and the others do not say how sure they are
    assert context(x=0.05)[1:] == (None, None, None, None)
    assert context(x=0.92)[1:] == (None, "c", 0.5, None)
    assert context(x=0.99)[1:] == (None, None, None, None)  # it fails
    assert context()[0] == "b"  # a vote
    for each in drawn_items(random.Random(1), 9):
        site.learn(site.classify(each), "a")
    stack, sure, *_ = context()
    assert stack == "a"
    assert 0.0 < sure <= 1.0
    site.pause("moody")
    site.pause("stack")
    assert context()[::2] == (None, None, None)
    site.explain(item)
    site.resume("moody")
    site.set_cost("moody", 0.5)  # it is heard no longer
    assert context()[2] is None
    site.set_cost("moody", 0.0)
    assert context()[2] == "c"
    site.remove("moody")
    assert context()[2:] == (None, None, None)
    site.add_classifier("moody", lambda _: ("new", 0.25))
    assert context()[2:4] == ("new", 0.25)


def test_an_axis_that_may_be_missing_needs_no_model() -> None:
    site = a_site(classifiers={"half": half}, costs={}, context=[UNIT, Says("nobody", optional=True)])
    assert site.classify({"x": 0.25}).context == (0.25, None)
    assert Says("nobody", optional=True).description == Says("nobody").description


def test_labels_beyond_the_last_code_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "SHARED", 3)
    log = list[Any]()
    site = Site("s", classifiers={"own": lambda item: item["x"]}, context=Says("own"), learnt=False, journal=log.append)
    for n in (1, 2, 3, 4, 2, 5):
        site.learn(site.classify({"x": n}), n)
    assert [each.contexts for each in log if isinstance(each, events.Chosen)] == [
        *(((n,),) for n in (1, 2, 3)),
        ((None,),),
        ((2,),),
        ((None,),),
    ]
    assert site.engine.state.encoder.codes[0].values == [1, 2, 3]
    assert_log_is_the_state(log, site)


class Colour(Enum):
    RED = 1


def test_labels_may_be_anything_that_can_be_hashed_but_then_a_site_cannot_be_saved() -> None:
    site = Site("s", classifiers={"own": lambda _: Colour.RED}, context=Says("own"), learnt=False)
    decision = site.classify({})
    assert decision.context == (Colour.RED,)
    site.learn(decision, Colour.RED)
    with pytest.raises(StateError, match="plain values"):
        site.state()


# Sites that ask each other


def test_a_peer_hears_its_own_models() -> None:
    logs: dict[str, list[Any]] = {"north": [], "south": [], "west": []}
    contexts = [CONTEXTS["with others"], CONTEXTS["with every feature"], CONTEXTS["alone"]]
    sites = [a_site(name, log, context=axes) for (name, log), axes in zip(logs.items(), contexts, strict=True)]
    draw = random.Random(5)
    streams = {name: [(item, truth_of(item)) for item in drawn_items(draw, 60)] for name in logs}
    turns = [*Network(sites, call_cost=0.01).run(streams, label_delay=3)]
    assert {turn.decision.arm for turn in turns} >= {"grown", "stack"}
    for site in sites:
        assert any(isinstance(event, events.Served) for event in logs[site.name])
        assert_log_is_the_state(logs[site.name], site)


def test_the_opinions_of_the_caller_do_not_reach_the_peer() -> None:
    log = list[Any]()
    both: list[Axis] = [UNIT, Confidence("model"), Says("model")]
    caller = Site("caller", classifiers={"model": lambda _: ("caller's", 0.125)}, context=both, costs={},
                  policy=MixedViews(share_labels="always"), score_local="all", learnt=False)  # fmt: skip
    peer = Site("peer", classifiers={"model": lambda _: ("peer's", 0.75)}, context=both, learnt=False,
                journal=log.append)  # fmt: skip
    caller.add_peer("peer", peer)
    caller.pause("model")
    for x in (0.25, 0.5):
        decision = caller.classify({"x": x})
        assert (decision.arm, decision.label, decision.context) == ("peer", "peer's", (x, None, None))
        caller.learn(decision, "peer's")
    served = [event for event in log if isinstance(event, events.Served)]
    assert [event.contexts for event in served] == [((0.25, 0.75, "peer's"),), ((0.5, 0.75, "peer's"),)]
    assert_log_is_the_state(log, peer)
    for axes in (None, ("Feature(feature='x', scale='linear', range=(0, 1), outside='error', window=1000)",)):
        (reply,) = peer.serve(Call("peer", "other", [Question(1, {"x": 0.5}, (0.5,), False, False)], axes))
        assert reply.label == "peer's"


def test_a_peer_reports_all_its_items_where_its_context_is_not_known_yet() -> None:
    peer = a_site("peer", context=[UNIT, Confidence("half")])
    caller = Site("caller", classifiers={"own": lambda _: "b"}, context=UNIT, policy=CoS(slices=2))
    for item in drawn_items(random.Random(1), 20):
        peer.classify(item)
    assert peer.report((0.5,)) == (20, 0)
    caller.add_peer("peer", peer, functions=4)
    arms = {caller.classify(item).arm for item in drawn_items(random.Random(1), 20)}
    assert arms == {"own", "peer"}


# Mistakes


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no such model": ({"context": Confidence("nobody")}, "cost nothing .'half', 'moody', .*'stack'.*got 'nobody'"),
    "one that costs something": ({"context": [UNIT, Says("dear")]}, "cost nothing.*before the choice, got 'dear'"),
    "no learnt arm": ({"context": Says("stack"), "learnt": False}, "cost nothing .*got 'stack'"),
    "used": (
        {"context": [AllFeatures(), Says("half")], "score_local": "used"},
        "score_local of site 'here' must be 'all' .*heard before the choice, got 'used'",
    ),
    "used without every feature": ({"context": Says("half"), "score_local": "used"}, "must be 'all' .*got 'used'"),
    "CoS": ({"context": Says("half"), "policy": CoS(slices=2), "score_local": "all"}, "must be MixedViews.*got CoS"),
    "CellKLUCB": ({"context": Says("half"), "policy": CellKLUCB(slices=2), "learnt": True}, "must be MixedViews"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_says_what_is_allowed(case: str) -> None:
    options, words = MISTAKES[case]
    with pytest.raises((SettingError, ContextError, ClassifierError), match=words):
        a_site(**options)


def test_wrong_names_and_flags_are_refused() -> None:
    for wrong in ("", 5, None):
        with pytest.raises(SettingError, match="the model of a context must be"):
            Says(wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="optional must be True or False"):
        Confidence("tree", optional=1)  # type: ignore[arg-type]


def test_with_learnt_arms_models_are_heard_though_labels_score_only_what_was_used() -> None:
    site = a_site(policy=MixedViews(), learnt=True, context=[UNIT, Confidence("half")])
    assert site.score_local == "used"
    assert site.classify({"x": 0.25, "kind": "a", "y": 0}).context == (0.25, 0.75)


# How it reads


def test_axes_have_names_that_people_can_read() -> None:
    assert [name_of(axis) for axis in (Confidence("my_tree"), Says("my_tree"))] == [
        "confidence of my_tree",
        "what my_tree says",
    ]
    assert [value_at(Confidence("t"), place) for place in (0.75, None)] == ["0.75", "missing"]
    assert [value_at(Says("t"), place) for place in ("ill", None)] == ["ill", "missing"]
    assert ticks_of(Confidence("t"), list)[1] == (0.25, "0.25")
    site = a_site(context=[Confidence("half"), Confidence("half")])
    assert site.axis_names == ("Confidence(model='half')",) * 2


# What a default would need


def test_the_default_context_can_hear_what_a_site_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert a_site(context=None).axes == (AllFeatures(),)
    monkeypatch.setattr(all_axes, "HEARS_LEARNT", True)
    site = a_site(context=None, classifiers={"half": half, "mine": Learnt.STACK}, costs={})
    assert site.axis_names == ("confidence of mine", "confidence of grown")
    assert a_site(context=None, learnt=False).axes == (AllFeatures(),)
    for item in drawn_items(random.Random(1), 20):
        site.learn(site.classify(item), truth_of(item))
    assert all(0 < each < 1 for each in site.classify(drawn_items(random.Random(2), 1)[0]).context)
