"""What peers may see of the items of a site, and what is refused; on the wire: tests/node/test_what_leaves.py."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from cosend import CellKLUCB, CoS, MixedViews, Network, Site, Zooming
from cosend.algorithm.values import LabelledData
from cosend.axes import AllFeatures, Axis, Category, Feature, FromFunction, PreviousLabel, Time, TimeOfDay
from cosend.engine.needs import Call, Forward, Reply
from cosend.engine.sharing import EVERYTHING, Sharing
from cosend.errors import FeatureWarning, SettingError

AGE = Feature("age", range=(0, 100))


class Stub:
    """A peer that is always right, and keeps what it is called with."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.asked: list[tuple[Any, Any, Any]] = []
        self.taught: list[Forward] = []

    def report(self, context: Any) -> LabelledData:
        raise AssertionError

    def report_of(self, item: Any, context: Any, axes: Any) -> LabelledData:
        self.asked.append((item, context, axes))
        return LabelledData(0, 0)

    def serve(self, call: Call) -> list[Reply]:
        self.calls.append(call)
        return [Reply("right") for _ in call.questions]

    def teach(self, forward: Forward) -> None:
        self.taught.append(forward)

    @property
    def items(self) -> list[Any]:
        return [question.item for call in self.calls for question in call.questions]


def called(items: list[Any], **options: Any) -> Stub:
    """Decide and label items at a site whose only peer is a stub that is always right."""
    options = {"policy": MixedViews(bonus=5.0), "learnt": False, **options}
    site, stub = Site("here", classifiers={"wrong": lambda _: "wrong"}, **options), Stub()
    site.add_peer("there", stub)
    for item in items:
        site.learn(site.classify(item), "right")
    return stub


class Broken(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)

    def __iter__(self) -> Any:
        raise RuntimeError("no names today")

    def __len__(self) -> int:
        return 1


@dataclass
class Person:
    age: int
    name: str


ITEMS: list[dict[str, Any]] = [{"age": n, "name": f"name {n}", "pay": n} for n in range(40)]


@pytest.mark.filterwarnings("ignore:site 'here' shares 'other'")
@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, {"age", "name", "pay"}),
        ({"shares": ["age", "other"]}, {"age"}),
        ({"withholds": ["name"]}, {"age", "pay"}),
        ({"shares": ["age", "pay"], "withholds": ["name"]}, {"age", "pay"}),
        ({"shares": []}, set()),
    ],
)
def test_a_peer_sees_the_features_that_it_may_see(options: dict[str, Any], seen: set[str]) -> None:
    stub = called(ITEMS, **options)
    assert stub.items
    assert all(item.keys() == seen for item in stub.items)
    assert stub.taught


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"withholds": ["nmae"]},
            "site 'here' withholds 'nmae', and an item has no such feature: it has 'age', 'name', 'pay'; "
            "a name with a typo keeps nothing back",
        ),
        (
            {"shares": ["half", "agee"], "context": FromFunction(lambda item: 0.5, "half")},
            "site 'here' shares 'agee', and an item has no such feature: it has 'age', 'name', 'pay'",
        ),
    ],
)
def test_a_name_that_the_first_item_lacks_is_a_warning_once(options: dict[str, Any], sentence: str) -> None:
    site = Site("here", classifiers={"one": lambda _: 1}, learnt=False, **options)
    with pytest.warns(FeatureWarning) as caught:
        decision = site.classify(ITEMS[0])
    said = [warning for warning in caught if "no such feature" in str(warning.message)]
    assert [str(warning.message) for warning in said] == [sentence]
    assert said[0].filename == __file__
    assert decision.label == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        site.classify_many(ITEMS)


def test_an_item_without_names_leaves_the_look_at_names_to_the_next() -> None:
    site = Site("here", classifiers={"one": lambda _: 1}, context=Time(100), withholds=["nmae"])
    site.classify("text")
    site.classify(Broken())  # whose names nobody can read
    with pytest.warns(FeatureWarning, match="withholds 'nmae'"):
        site.classify(ITEMS[0])


def test_axes_that_read_what_is_withheld_do_not_leave() -> None:
    axes: list[Axis] = [
        *(AGE, Category("name"), Feature("pay"), TimeOfDay("pay"), Feature("name", of="length")),
        *(FromFunction(lambda item: item["pay"] / 100, "pays"), FromFunction(lambda item: 0.5, "half")),
        *(PreviousLabel("right", "wrong"), Time(100), AllFeatures()),
    ]
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ({"withholds": ["name"]}, [0, 2, 3, 7, 8]),
        ({"shares": ["age", "half"]}, [0, 6, 7, 8]),
        ({"share_labels": "never"}, [0, 1, 2, 3, 4, 5, 6, 8]),
        ({"share_labels": "never", "shares": ["name"]}, [1, 4, 8]),
    ]
    for options, places in cases:
        stub = called(ITEMS, context=axes, **options)
        for call in stub.calls:
            assert call.axes == tuple(axes[n].description for n in places)
            (question,) = call.questions
            assert len(question.context) == len(places)
            if places[0] == 0:
                assert question.context[0] == ITEMS[question.request - 1]["age"] / 100


def test_reports_are_asked_for_with_what_a_peer_may_see() -> None:
    stub = called(ITEMS, policy=CoS(horizon=40), context=AGE, withholds=["name"])
    assert stub.asked
    for item, context, axes in stub.asked:
        assert item.keys() == {"age", "pay"}
        assert context == (item["age"] / 100,)
        assert axes == (AGE.description,)


def test_items_without_names_stay_and_others_leave_in_parts_also_in_batches() -> None:
    mixed = [["text", Person(3, "x"), {"age": 3, "name": "x"}][n % 3] for n in range(60)]
    stub = called(mixed, context=FromFunction(lambda _: 0.5), withholds=["name"])
    assert stub.items
    assert all(item == {"age": 3} for item in stub.items)
    one, many = (
        Site("here", classifiers={"wrong": lambda _: "wrong"}, learnt=False, withholds=["name"]) for _ in range(2)
    )
    for site in (one, many):
        site.add_peer("there", Stub())
    with pytest.warns(match="an item has no names"):
        assert [one.classify(item) for item in mixed] == many.classify_many(mixed)
    assert Sharing(["age"]).part_of(Broken()) is None


def test_labels_go_to_peers_as_the_site_says() -> None:
    for share_labels, least in (("never", 0), ("training", 0), ("always", 1), (None, 1)):
        stub = called(ITEMS, share_labels=share_labels)
        assert stub.calls
        assert min(1, len(stub.taught)) == least
        assert all(question.labelled == least for call in stub.calls for question in call.questions)
    assert called(ITEMS, policy=MixedViews(bonus=5.0, share_labels="never")).taught == []


def test_a_site_that_is_called_without_a_feature_goes_without_it() -> None:
    sites = [
        Site(
            name,
            classifiers={f"of {name}": lambda item: "name" in item},
            withholds=["name"],
            context=context,
            learnt=False,
        )
        for name, context in (("north", [Category("name"), AllFeatures()]), ("south", None))
    ]
    network = Network(sites)
    rows = [(item, n % 2 == 0) for n, item in enumerate(ITEMS * 4)]
    turns = list(network.run({"north": rows, "south": rows}))
    assert {turn.decision.arm for turn in turns} & {"north", "south"}
    assert all(turn.decision.label is False for turn in turns if turn.decision.arm in ("north", "south"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shares": ["age"], "withholds": ["age"]}, "withholds must be a feature that is not in shares.*'age'"),
        ({"shares": "age"}, "shares must be a list of names, got 'age'"),
        ({"withholds": [3]}, "a feature of withholds must be text"),
        ({"share_labels": "sometimes"}, "share_labels must be one of 'training', 'always', 'never'"),
        (
            {"share_labels": "never", "policy": CoS(horizon=9), "context": AGE},
            "'always': CoS trains peers, got 'never'",
        ),
        ({"withholds": ["age"], "policy": CellKLUCB(), "context": AGE}, "MixedViews, or a context without Feature"),
        (
            {"share_labels": "never", "policy": CellKLUCB(), "context": PreviousLabel(0, 1)},
            "MixedViews, or a context without PreviousLabel",
        ),
    ],
)
def test_what_cannot_be_kept_back_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Site("here", classifiers={"one": lambda _: 1}, **options)


def test_policies_that_train_peers_tell_them_labels() -> None:
    for policy in (CoS, Zooming):
        with pytest.raises(SettingError, match=f"{policy.__name__} trains peers"):
            policy(share_labels="never")
    assert CellKLUCB(share_labels="never").share_labels == "never"


def test_a_saved_state_does_not_share_labels_that_the_site_keeps() -> None:
    def site(**options: Any) -> Site:
        return Site("here", classifiers={"one": lambda _: 1}, **options)

    before = site().state()
    with pytest.raises(Exception, match="the saved state has the share_labels 'always', the site has 'never'"):
        site(share_labels="never").restore(before)
    with pytest.raises(Exception, match="share_labels"):
        site(policy=MixedViews(share_labels="never"), score_local="all").restore(before)
    with pytest.raises(Exception, match="share_labels"):
        site(share_labels="training").restore(before)
    site(policy=MixedViews(share_labels="training"), score_local="all").restore(before)()
    site(share_labels="always").restore(before)()


def test_nothing_is_kept_back_unless_it_is_said() -> None:
    assert not EVERYTHING.limits
    assert Sharing([]).limits
    assert EVERYTHING.has("anything")
