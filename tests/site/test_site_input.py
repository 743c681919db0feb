"""What a site refuses, when it is built and when it works, and that it stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosend import CoS, Network, SeesOnly, Site, axes
from cosend.axes import AllFeatures, Feature, PreviousLabel
from cosend.engine.needs import Call, Question
from cosend.errors import CosendError, NoAnswer, RewardError, SettingError
from tests.site.test_site import everything

TRAINING_FIRST = CoS(slices=1, exploration_exponent=0.05, order="train_first", share_labels="always")
NEW_AXES: Any = axes
NOT_A_NAME: Any = 7


def a_site(name: str = "lab", **options: Any) -> Site:
    settings: dict[str, Any] = {"classifiers": {"one": lambda _: 1}, "context": Feature("x", range=(0, 1)), **options}
    return Site(name, **settings)


BUILD: dict[str, tuple[Callable[[], object], list[str]]] = {
    "policy": (lambda: a_site(policy="CoS"), ["policy", "'lab'", "a policy", "'CoS'"]),
    "policy without a context": (lambda: a_site(policy="CoS", context=None), ["policy", "'lab'", "a policy", "'CoS'"]),
    "patience": (lambda: a_site(patience=5), ["patience", "'lab'", "a Patience", "5"]),
    "reward": (lambda: a_site(reward=1.0), ["reward", "'lab'", "function", "1.0"]),
    "strict": (lambda: a_site(strict_labels="yes"), ["strict_labels", "True or False", "'yes'"]),
    "learns_from": (lambda: a_site(learns_from=["all"]), ["learns_from", "'used', 'all'", "['all']"]),
    "classifiers": (lambda: a_site(classifiers=[len]), ["classifiers", "'lab'", "mapping", "len"]),
    "costs": (lambda: a_site(costs=[0.5]), ["costs", "'lab'", "mapping", "[0.5]"]),
    "feature": (lambda: NEW_AXES.Feature(5), ["feature", "text", "5"]),
    "feature of a time": (lambda: NEW_AXES.TimeOfDay(5), ["feature", "text", "5"]),
    "function": (lambda: NEW_AXES.FromFunction(5), ["function", "from an item", "5"]),
    "name of a function": (lambda: NEW_AXES.FromFunction(len, 5), ["name", "text", "5"]),
    "features left out": (lambda: AllFeatures(without="id"), ["excluded", "a list of names", "'id'"]),
    "no features left out": (lambda: NEW_AXES.AllFeatures(without=None), ["excluded", "a list of names", "None"]),
    "a number left out": (lambda: NEW_AXES.AllFeatures(without=5), ["excluded", "a list of names", "5"]),
    "a class": (lambda: a_site(classifiers={"v": SeesOnly}), ["classifier", "a class", "SeesOnly()"]),
    "classes": (lambda: PreviousLabel([1], [2]), ["classes", "hashed", "[1]"]),
}


@pytest.mark.parametrize("case", BUILD)
def test_a_setting_that_is_not_allowed_is_refused_when_the_object_is_built(case: str) -> None:
    build, fragments = BUILD[case]
    with pytest.raises(SettingError) as caught:
        build()
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)


def test_items_decisions_and_truths_may_come_from_generators() -> None:
    one, other = a_site(), a_site()
    made = one.classify_many({"x": n / 10} for n in range(5))
    assert made == other.classify_many([{"x": n / 10} for n in range(5)])
    one.learn_many((decision.id for decision in made), (n % 2 for n in range(5)), (0.1 for _ in range(5)))
    other.learn_many([decision.id for decision in made], [0, 1, 0, 1, 0], [0.1] * 5)
    assert everything(one) == everything(other)


CALLS: dict[str, tuple[Callable[[Any], object], type[CosendError], list[str]]] = {
    "items none": (lambda s: s.classify_many(None), SettingError, ["items", "'lab'", "a list", "None"]),
    "items text": (lambda s: s.classify_many("abc"), SettingError, ["items", "a list", "'abc'"]),
    "one item": (lambda s: s.classify_many({"x": 0.5}), SettingError, ["items", "a list"]),
    "decisions none": (lambda s: s.learn_many(None, [1]), SettingError, ["decisions", "a list", "None"]),
    "truths none": (lambda s: s.learn_many([1], None), SettingError, ["truths", "a list", "None"]),
    "costs one": (lambda s: s.learn_many([1], [1], 0.5), SettingError, ["costs", "a list", "0.5"]),
    "truth array": (
        lambda s: s.learn(1, np.array([1, 2])),
        RewardError,
        ["gain", "[0, 1]", "ValueError", "decision 1 of site 'lab'"],
    ),
    "request": (
        lambda s: s.serve(Call("lab", "hq", [asked(1), asked("2")])),
        SettingError,
        ["request", "'hq'", "'2'"],
    ),
    "caller": (lambda s: s.serve(Call("lab", NOT_A_NAME, [asked(1)])), SettingError, ["caller", "'lab'", "7"]),
}


def asked(request: Any) -> Question:
    return Question(request, {"x": 0.5}, (0.5,), True, True)


@pytest.mark.parametrize("case", CALLS)
def test_a_site_refuses_bad_input_and_waits_for_what_it_waited_for(case: str) -> None:
    call, error, fragments = CALLS[case]
    site = a_site()
    site.classify({"x": 0.5})
    with pytest.raises(error) as caught:
        call(site)
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)
    assert set(site.pending()) == set(site.learner.registry.ids()) == {1}
    site.learn(1, 1)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError, RuntimeError, StopIteration])
def test_whatever_a_reward_raises_is_an_error_of_the_reward_and_changes_nothing(error: type[Exception]) -> None:
    def reward(_: Any, truth: Any) -> float:
        if truth == "bad":
            raise error("oh")
        return 1.0

    site = a_site(reward=reward)
    made = site.classify_many([{"x": 0.1}, {"x": 0.9}])
    before = everything(site)
    with pytest.raises(RewardError, match=rf"{error.__name__}\('oh'\).* decision 2 of site 'lab'") as caught:
        site.learn_many([decision.id for decision in made], [1, "bad"])
    assert isinstance(caught.value.__cause__, error)
    assert everything(site) == before


def test_a_peer_whose_reward_raises_is_reported_after_all_labels_are_settled_and_passed_on() -> None:
    seen: list[Any] = []

    def reward(_: Any, truth: Any) -> float:
        seen.append(truth)
        raise ZeroDivisionError

    lab, hq = a_site(policy=TRAINING_FIRST), a_site("hq", reward=reward)
    Network([lab, hq])
    made = lab.classify_many([{"x": n / 40} for n in range(40)])
    told = len(hq.pending())
    with pytest.raises(RewardError, match=r"ZeroDivisionError.* site 'hq'"):
        lab.learn_many([decision.id for decision in made], [1] * 40)
    assert lab.pending() == {}
    assert len(seen) >= told > 1


class Unprintable(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "said"), [(Unprintable(), "Unprintable"), (ValueError("many\nlines\n" * 1_000), "ValueError: many lines")]
)
def test_whatever_a_model_raises_is_told_in_a_line(error: Exception, said: str) -> None:
    def raises(_: Any) -> str:
        raise error

    site = Site("here", classifiers={"bad": raises}, context=Feature("x", range=(0, 1)))
    with pytest.raises(NoAnswer) as told:
        site.classify({"x": 0.5})
    assert told.value.reasons["bad"].startswith(f"classifier 'bad' failed: {said}")
    assert len(told.value.reasons["bad"].splitlines()) == 1
    site.add_classifier("good", lambda _: 1)
    assert site.classify({"x": 0.7}).label == 1
