"""True labels that no arm could have given: a warning once, or an error, and never silence."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from inspect import getsourcelines
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import Network, Reward, SeesOnly, Site
from cosend.axes import Feature
from cosend.engine import events
from cosend.engine.scoring import LabelCheck
from cosend.engine.site_state import LabelKinds
from cosend.errors import LabelError, LabelWarning

UNIT = Feature("x", range=(0, 1))


def a_site(**options: Any) -> Site:
    settings: dict[str, Any] = {"classifiers": {"one": lambda _: 1}, "context": UNIT, **options}
    return Site("lab", **settings)


def test_text_where_the_models_say_numbers_is_a_warning_once() -> None:
    site = a_site()
    made = site.classify_many([{"x": 0.1}] * 3)
    with pytest.warns(
        LabelWarning,
        match="'lab' could have given the true label '1' of decision 1: it is text, and the arms say a number",
    ):
        site.learn(made[0], "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        site.learn_many(made[1:], ["1", 1])
    assert site.pending() == {}


LEARNING: list[Callable[[Site], object]] = [
    lambda site: site.learn(site.classify({"x": 0.1}), "1"),
    lambda site: site.learn_many(site.classify_many([{"x": 0.1}]), ["1"]),
    lambda site: list(Network([site]).run({"lab": [({"x": 0.1}, "1")]})),
]


@pytest.mark.parametrize("learn", LEARNING, ids=["learn", "learn_many", "run"])
def test_the_warning_points_at_the_line_of_the_user(learn: Callable[[Site], object]) -> None:
    with pytest.warns(LabelWarning) as caught:
        learn(a_site())
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, getsourcelines(learn)[1])


def test_a_strict_site_refuses_such_a_label_and_stays_as_it_was() -> None:
    site = a_site(strict_labels=True)
    made = site.classify_many([{"x": 0.1}] * 2)
    before = str(site.state())
    for _ in range(2):
        with pytest.raises(LabelError, match="no arm of site 'lab' could have given the true label '1' of decision 2"):
            site.learn_many(made, [1, "1"])
    assert str(site.state()) == before
    site.learn_many(made, [1, 1])


def fitted(labels: list[Any]) -> Any:
    tree: Any = importlib.import_module("sklearn.tree")
    return tree.DecisionTreeClassifier().fit([[n] for n in range(len(labels))], labels)


def test_a_class_that_no_fitted_model_knows_is_found_out() -> None:
    models = {"tree": fitted(["a", "b"]), "small": SeesOnly(fitted(["b", "c"]), ["x"])}
    site = a_site(classifiers=models, strict_labels=True)
    decision = site.classify({"x": 0.1})
    with pytest.raises(
        LabelError, match="could have given the true label 'd' of decision 1: the arms can say 'a', 'b', 'c'"
    ):
        site.learn(decision, "d")
    site.learn(decision, "c")


def test_nothing_is_said_where_an_arm_could_have_given_the_label() -> None:
    """A peer may know more classes, a model may learn new ones, and a reward of the user may compare anything."""
    bayes = importlib.import_module("river.naive_bayes").GaussianNB()
    learning = a_site(classifiers={"bayes": bayes, "tree": fitted(["a", "b"])}, strict_labels=True)
    learning.learn(learning.classify({"x": 0.5}), "c")
    rewarded = a_site(reward=lambda label, truth: 0.5, strict_labels=True)
    rewarded.learn(rewarded.classify({"x": 0.5}), "anything")
    asking = a_site(classifiers={"tree": fitted(["a", "b"])}, strict_labels=True)
    asking.add_peer("hq", a_site())
    asking.learn(asking.classify({"x": 0.5}), "c")
    numbers = a_site(classifiers={"one": lambda _: True, "two": lambda _: np.float64(1)}, strict_labels=True)
    for truth in (1, 1.0, True, np.int64(1)):
        numbers.learn(numbers.classify({"x": 0.5}), truth)


def test_a_label_that_cannot_be_hashed_is_none_of_the_classes() -> None:
    site = a_site(classifiers={"tree": fitted([0, 1])}, strict_labels=True)
    with pytest.raises(LabelError, match="a list"):
        site.learn(site.classify({"x": 0.1}), [1])


def test_which_kinds_arms_have_given_is_known_after_a_restart(tmp_path: Path) -> None:
    log: list[events.Event] = []
    models = {"text": lambda item: "ill", "number": lambda item: 1}
    settings: dict[str, Any] = {"classifiers": models, "costs": {"number": 0.9}, "strict_labels": True}
    journalled, loaded, recovered = a_site(journal=log.append, **settings), a_site(**settings), a_site(**settings)
    made = journalled.classify({"x": 0.5})
    while made.arm != "number":
        journalled.learn(made, "ill")
        made = journalled.classify({"x": 0.5})
    journalled.learn(made, 1)  # no number waits any more, and true labels may be some all the same
    made = journalled.classify({"x": 0.5})
    journalled.save(tmp_path / "state.npz")
    loaded.load(tmp_path / "state.npz")
    recovered.recover(log)
    for site in (journalled, loaded, recovered):
        assert site.engine.state.kinds.kinds == {"text", "a number"}
        with pytest.raises(LabelError, match="it is a list, and the arms say a number or text"):
            site.learn(made, [])
        site.learn(made, 2)


def test_a_label_with_something_in_it_that_cannot_be_hashed_is_none_of_those_that_are_known() -> None:
    strict = LabelCheck("lab", strict=True)
    with pytest.raises(
        LabelError,
        match=r"could have given the true label \(1, \[\]\) of decision 7: the arms can say \(1, 2\)",
    ):
        strict.check([(1, [])], frozenset({(1, 2)}), LabelKinds({"a tuple"}), [7])


# Answers that are free text


def answering(**options: Any) -> Site:
    """Return a site whose models never say the same twice."""
    models = {"short": lambda item: f"It is {item['x']}.", "long": lambda item: f"The answer must be {item['x']}."}
    return Site("desk", classifiers=models, context=Feature("x", range=(0, 99)), **options)


FREE_TEXT = "where answers are free text, send a score, or set a reward function"


def test_labels_that_equal_no_answer_of_free_text_are_a_warning_once() -> None:
    site = answering()
    for n in range(4):
        site.learn(site.classify({"x": n}), "good")
    fifth = site.classify({"x": 4})
    with pytest.warns(LabelWarning) as caught:
        site.learn(fifth, "good")
    (warning,) = caught
    wrong = "the true label 'good' of decision 5 of site 'desk' equals no answer"
    assert str(warning.message) == (
        f"{wrong}, and no answer to the first 5 labelled items came twice: it counts as wrong for every arm; "
        f"{FREE_TEXT}"
    )
    assert warning.filename == __file__
    site.learn_many(site.classify_many([{"x": n} for n in range(5, 20)]), ["good"] * 15)  # nothing more is said


def test_with_a_range_of_scores_the_first_such_label_is_a_warning_and_is_learnt() -> None:
    site = answering(reward=Reward(range=(1, 5)), strict_labels=True)
    site.learn(site.classify({"x": 0}), score=4)
    made = site.classify_many([{"x": 1}] * 3)
    with pytest.warns(LabelWarning, match="'good' of decision 3 .* and its scores have a range: it counts as wrong"):
        site.learn_many(made, [None, "good", "good"], scores=[5, None, None])
    assert site.pending() == {}


@pytest.mark.parametrize(
    ("models", "labels"),
    [
        ({"one": lambda item: f"It is {item['x']}."}, ["no"] * 4 + ["It is 4."] + ["no"] * 9),  # an answer was right
        ({"one": lambda item: "abc"[item["x"] % 3]}, ["rare"] * 14),  # answers come again: they are classes
        ({"one": lambda item: f"class {item['x']}"}, ["class 0"] * 14),  # somebody has said it before
        ({"one": lambda item: 1.5 * item["x"]}, [-1] * 14),
    ],
)
def test_of_classes_nothing_is_said_however_rare_they_are(models: Any, labels: list[Any]) -> None:
    site = a_site(classifiers=models, context=Feature("x", range=(0, 99)))
    for n, label in enumerate(labels):
        site.learn(site.classify({"x": n + 1 if label == "class 0" and n else n}), label)


def test_a_reward_of_the_user_may_compare_free_text_with_labels() -> None:
    site = answering(reward=lambda answer, truth: float(truth in answer))
    for n in range(20):
        site.learn(site.classify({"x": n}), "must be")
    assert site.summary().arms[1].mean_reward == 1.0


def test_decisions_without_an_answer_say_nothing_about_free_text() -> None:
    site = Site("desk", classifiers={}, context=UNIT)
    for n in range(8):
        site.learn(site.classify({"x": n / 8}), f"class {n}")
    assert not site.engine.free_text_check.is_over
