"""Every way to a classifier passes the checks that users run on their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import SeesOnly
from cosend.models.adapters import SeesAllBut
from cosend.models.loading import load_model
from cosend.testing import ClassifierConformance
from tests.classifiers import models
from tests.classifiers.models import ATTACKS, CONNECTIONS, FEATURES, ITEMS, KINDS, SOME


class Iris(ClassifierConformance):
    """Flowers as items."""

    folder: Path

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def items(self) -> list[Any]:
        return ITEMS[SOME]

    def labels(self) -> list[Any]:
        return KINDS[SOME]


class TestFunction(Iris):
    def classifier(self) -> Any:
        return lambda item: "setosa" if item["petal length (cm)"] < 2.5 else "other"


class TestSklearnWithoutNames(Iris):
    def classifier(self) -> Any:
        return models.tree()


class TestSklearnWithNames(Iris):
    def classifier(self) -> Any:
        return models.logistic(names=True)

    def wrong_item(self) -> Any:
        return {"petal length (cm)": 1.0}


class TestRiver(Iris):
    def classifier(self) -> Any:
        return models.river_model()


class TestSeesOnly(Iris):
    def classifier(self) -> Any:
        return SeesOnly(models.tree(), FEATURES)


class TestSeesAllBut(Iris):
    def classifier(self) -> Any:
        return SeesAllBut(models.tree(), ["station"])

    def items(self) -> list[Any]:
        return [{**item, "station": 3} for item in ITEMS[SOME]]


class TestSkops(Iris):
    def classifier(self) -> Any:
        return load_model(models.write_skops(self.folder, models.logistic()), self.folder, features=FEATURES)


class TestOnnxOfOneTensor(Iris):
    def classifier(self) -> Any:
        return load_model(models.iris_onnx(self.folder), self.folder)


class TestOnnxOfColumns(Iris):
    def classifier(self) -> Any:
        return load_model(models.connections_onnx(self.folder), self.folder)

    def items(self) -> list[Any]:
        return CONNECTIONS[::25]

    def labels(self) -> list[Any]:
        return ATTACKS[::25]


class TestFunctionOfAModule(Iris):
    def classifier(self) -> Any:
        (self.folder / "models.py").write_text("def young(item):\n    return int(item['petal width (cm)'] > 1)\n")
        return load_model("models:young", self.folder)


class Broken:
    """A classifier that breaks one rule at a time."""

    learns: Any = True

    def __init__(self, rule: str) -> None:
        self.rule, self.calls, self.hurt = rule, 0, False
        self.learns = "yes" if rule == "learns" else True

    def predict(self, items: Any) -> Any:
        self.calls += 1
        if self.rule == "empty" and not items:
            raise IndexError("list index out of range")
        if self.rule == "empty later" and not items and self.calls > 1:
            return [None]
        if self.rule == "change":
            for item in items:
                item["seen"] = True
        labels = [self._label(item, len(items)) for item in items]
        if self.rule == "count":
            return labels[1:]
        if self.rule == "order" and len(items) > 1 and items[0]["size"] > 2:
            return [9 for _ in items]
        return tuple(labels) if self.rule == "list" else labels

    def _label(self, item: Any, count: int) -> Any:
        if not isinstance(item, dict):
            self.hurt = True
            if self.rule == "refuse" or (self.rule == "refuse in a batch" and count > 1):
                return 0
            raise ValueError("" if self.rule == "says nothing" else "no mapping")
        if self.rule == "json":
            return (1,)
        if self.rule == "type":
            return np.float64(1.0)
        if self.rule == "nan":
            return float("nan")
        if self.rule == "batch":
            return count
        return "hurt" if self.rule == "usable" and self.hurt else int(item["size"] > 1)

    def learn(self, item: Any, label: Any) -> None:
        if self.rule == "learn":
            raise KeyError("label")
        if self.rule == "change in learn":
            item["label"] = label


class OfBroken(ClassifierConformance):
    def __init__(self, rule: str) -> None:
        self.rule = rule

    def classifier(self) -> Any:
        return Broken(self.rule)

    def items(self) -> list[Any]:
        return [{"size": 1.0}, {"size": 2.0}, {"size": 3.0}]

    def labels(self) -> list[Any]:
        return [0, 1, 1]


CHECKS = sorted(name for name in dir(ClassifierConformance) if name.startswith("test_"))


def failed_by(conformance: ClassifierConformance) -> dict[str, str]:
    failures = {}
    for name in CHECKS:
        try:
            getattr(conformance, name)()
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
    return failures


def test_a_classifier_that_breaks_no_rule_passes_every_check() -> None:
    assert len(CHECKS) == 7
    assert failed_by(OfBroken("none")) == {}


@pytest.mark.parametrize(
    ("rule", "check", "said"),
    [
        ("list", "test_gives_a_list_with_a_label_for_every_item", "must return a list"),
        ("count", "test_gives_a_list_with_a_label_for_every_item", "2 labels for 3 items"),
        ("json", "test_labels_are_plain_values_that_survive_json", r"comes back from JSON as \[1\]"),
        ("type", "test_labels_are_plain_values_that_survive_json", r"np.float64\(1.0\) comes back from JSON as 1.0"),
        ("nan", "test_labels_are_plain_values_that_survive_json", "cannot be written as JSON"),
        ("batch", "test_says_the_same_of_an_item_alone_and_in_a_batch", r"\[3, 3, 3\], one by one \[1, 1, 1\]"),
        ("order", "test_says_the_same_of_an_item_alone_and_in_a_batch", r"in the opposite order \[9, 9, 9\]"),
        ("empty later", "test_gives_no_labels_for_no_items", r"got \[None\] later"),
        ("empty", "test_gives_no_labels_for_no_items", "IndexError"),
        ("change", "test_leaves_the_items_as_they_are", "predict has changed the items"),
        ("change in learn", "test_leaves_the_items_as_they_are", "learn has changed the items"),
        ("learn", "test_learns_from_every_item_if_it_learns", "failed to learn: KeyError"),
        ("learns", "test_learns_from_every_item_if_it_learns", "true or false, is 'yes'"),
        ("refuse", "test_refuses_an_item_that_it_cannot_label_and_goes_on", "None was labelled 0"),
        ("refuse in a batch", "test_refuses_an_item_that_it_cannot_label_and_goes_on", "None was labelled 0"),
        ("says nothing", "test_refuses_an_item_that_it_cannot_label_and_goes_on", "the error says nothing"),
        ("usable", "test_refuses_an_item_that_it_cannot_label_and_goes_on", "after a wrong item"),
    ],
)
def test_a_broken_rule_fails_its_check_with_a_sentence(rule: str, check: str, said: str) -> None:
    assert re.search(said, failed_by(OfBroken(rule))[check])


def test_what_a_user_forgot_to_give_is_named() -> None:
    assert "def classifier(self)" in failed_by(OfNothing())[CHECKS[0]]
    with pytest.raises(NotImplementedError, match="the classifier learns"):
        ClassifierConformance().labels()


class OfNothing(ClassifierConformance):
    def items(self) -> list[Any]:
        return [1, 2]


class OfOneItem(OfBroken):
    def items(self) -> list[Any]:
        return [{"size": 1.0}]


def test_one_item_is_too_few_to_tell_a_batch_from_it() -> None:
    assert set(failed_by(OfOneItem("none"))) == set(CHECKS)


class OfAnything(OfBroken):
    takes_anything = True


def test_a_classifier_that_takes_anything_need_not_refuse() -> None:
    assert failed_by(OfAnything("refuse")) == {}
