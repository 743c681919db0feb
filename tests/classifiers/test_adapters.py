"""Real models as classifiers: scikit-learn, river and plain functions, and what happens when one of them fails."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from cosend import SeesOnly
from cosend.errors import ClassifierError, SettingError
from cosend.models.adapters import SeesAllBut, as_classifier, known_labels, predictions

DecisionTree: Any = importlib.import_module("sklearn.tree").DecisionTreeClassifier
LogisticRegression: Any = importlib.import_module("sklearn.linear_model").LogisticRegression
LinearRegression: Any = importlib.import_module("sklearn.linear_model").LinearRegression
StandardScaler: Any = importlib.import_module("sklearn.preprocessing").StandardScaler
make_pipeline: Any = importlib.import_module("sklearn.pipeline").make_pipeline
DataFrame: Any = importlib.import_module("pandas").DataFrame
river_bayes: Any = importlib.import_module("river.naive_bayes")
river_dummy: Any = importlib.import_module("river.dummy")
river_linear: Any = importlib.import_module("river.linear_model")
river_compose: Any = importlib.import_module("river.compose")
river_preprocessing: Any = importlib.import_module("river.preprocessing")

# The label is 1 where `size` is above 5; `noise` says nothing.
ROWS = [{"size": float(size), "noise": float(size * 7 % 4)} for size in range(11)]
LABELS = [int(row["size"] > 5) for row in ROWS]
TABLE = np.array([list(row.values()) for row in ROWS])


def fitted_on_array() -> Any:
    return DecisionTree(random_state=0).fit(TABLE, LABELS)


def fitted_on_frame() -> Any:
    return DecisionTree(random_state=0).fit(DataFrame(ROWS), LABELS)


def test_a_model_that_knows_its_features_takes_them_by_name_whatever_else_the_item_has() -> None:
    items = [{"id": "a7", "noise": row["noise"], "size": row["size"]} for row in ROWS]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=1e3)).fit(DataFrame(ROWS), LABELS)
    for model in (fitted_on_frame(), pipeline):
        assert as_classifier(model).predict(items) == LABELS


@pytest.mark.parametrize("rows", [TABLE.tolist(), list(TABLE), [tuple(row) for row in TABLE]])
def test_items_may_be_rows_for_a_model_fitted_on_an_array(rows: list[Any]) -> None:
    assert as_classifier(fitted_on_array()).predict(rows) == LABELS


def test_a_model_without_names_reads_later_items_by_the_names_of_the_first() -> None:
    classifier = as_classifier(fitted_on_array())
    turned = [dict(reversed(row.items())) for row in ROWS]
    assert classifier.predict([ROWS[0], *turned[1:]]) == LABELS
    assert classifier.predict(turned) == LABELS
    assert classifier.predict([]) == []


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"size": 1.0}, "no feature 'noise'"),
        ({"size": 1.0, "loud": 1.0}, "no feature 'noise'"),
        ({"size": 1.0, "noise": 1.0, "loud": 1.0}, "a feature 'loud'"),
    ],
)
def test_other_features_than_those_of_the_first_item_are_refused(item: dict[str, float], said: str) -> None:
    classifier = as_classifier(fitted_on_array())
    with pytest.raises(ClassifierError, match="ValueError"):
        predictions("tree", classifier, [{"loud": 1.0}])  # what the model refuses names no features
    assert predictions("tree", classifier, ROWS).labels == LABELS
    for batch in ([item], [ROWS[0], item]):
        with pytest.raises(ClassifierError, match=f"'tree' failed: an item has {said}.*'size', 'noise'"):
            predictions("tree", classifier, batch)
    assert predictions("tree", classifier, ROWS).labels == LABELS


def test_a_river_model_learns_online() -> None:
    model = river_bayes.GaussianNB()
    classifier = as_classifier(model)
    assert classifier.learns
    assert classifier.predict(ROWS[:2]) == [None, None]
    for row, label in zip(ROWS, LABELS, strict=True):
        classifier.learn(row, label)
    assert classifier.predict(ROWS) == [model.predict_one(row) for row in ROWS]
    assert classifier.predict([ROWS[0], ROWS[-1]]) == [0, 1]


def test_a_function_labels_item_by_item_and_never_learns() -> None:
    seen: list[Any] = []

    def count(item: Any) -> int:
        seen.append(item)
        return len(seen)

    classifier = as_classifier(count)
    assert classifier.predict(["a", "b"]) == [1, 2]
    assert seen == ["a", "b"]
    assert not classifier.learns
    classifier.learn("a", 1)
    assert seen == ["a", "b"]


@pytest.mark.parametrize("label", [np.int64(3), np.float64(0.5), np.str_("x"), np.bool_(True)])
def test_numpy_labels_of_functions_become_plain_python_values(label: Any) -> None:
    (predicted,) = as_classifier(lambda _: label).predict([0])
    assert predicted == label
    assert not isinstance(predicted, np.generic)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTree(random_state=0).fit(TABLE[:, :1], LABELS),
        DecisionTree(random_state=0).fit(DataFrame(ROWS)[["size"]], LABELS),
        lambda item: int(item["size"] > 5 and "noise" not in item),
    ],
)
def test_sees_only_hides_the_other_features(model: Any) -> None:
    classifier = as_classifier(SeesOnly(model, ["size"]))
    assert classifier.predict(ROWS) == LABELS
    assert not classifier.learns


def test_sees_all_but_hides_the_named_features_from_predicting_and_learning() -> None:
    model = river_bayes.GaussianNB()
    view = SeesAllBut(model, ["noise", "absent"])
    view.learn(ROWS[3], 1)
    assert view.learns
    assert set(model.gaussians[1]) == {"size"}
    hidden = SeesAllBut(DecisionTree(random_state=0).fit(TABLE[:, :1], LABELS), ["noise"])
    assert hidden.predict(ROWS) == LABELS
    assert known_labels(hidden) == frozenset({0, 1})


def fails(_: Any) -> Any:
    raise ZeroDivisionError("no way")


@pytest.mark.parametrize(
    ("model", "items", "cause"),
    [
        (fails, ROWS, "ZeroDivisionError: no way"),
        (DecisionTree(), ROWS, "NotFittedError"),
        (fitted_on_array(), [{"size": 1.0}], "ValueError"),
        (fitted_on_array(), [{"size": "large", "noise": 1.0}], "ValueError"),
        (fitted_on_frame(), [{"size": 1.0}], "an item has no feature 'noise'; it has 'size'"),
        (
            SeesOnly(fitted_on_array(), ["size", "colour"]),
            ROWS,
            "an item has no feature 'colour'; it has 'size', 'noise'",
        ),
        (SeesOnly(fitted_on_array(), ["size", "noise"]), [None], "an item must have names"),
        (SeesAllBut(fitted_on_array(), ["id"]), [None], "an item must have names"),
        (fitted_on_array(), [ROWS[0], None], "an item must have names"),
        (river_linear.LogisticRegression(), ["no mapping"], "Error"),
    ],
)
def test_whatever_goes_wrong_in_a_model_is_an_error_with_the_name_of_the_classifier(
    model: Any, items: list[Any], cause: str
) -> None:
    with pytest.raises(ClassifierError) as caught:
        predictions("tree", as_classifier(model), items)
    assert "'tree'" in str(caught.value)
    assert cause in str(caught.value)
    assert isinstance(caught.value.__cause__, Exception)


class Gives:
    """A model that says the same of everything, wrongly packed."""

    def __init__(self, labels: Any) -> None:
        self.labels = labels

    def predict(self, table: Any) -> Any:
        return self.labels


@pytest.mark.parametrize(("labels", "said"), [([1], "1 labels"), (list(range(12)), "12 labels"), ([], "0 labels")])
def test_a_wrong_number_of_labels_is_an_error_with_the_name_of_the_classifier(labels: Any, said: str) -> None:
    with pytest.raises(ClassifierError, match=f"'tree' gave {said} for 11 items"):
        predictions("tree", as_classifier(Gives(labels)), ROWS)


@pytest.mark.parametrize("thing", [5, None, "tree", {"predict": 1}, [fails]])
def test_something_that_is_no_model_is_refused(thing: Any) -> None:
    with pytest.raises(SettingError, match=r"classifier must be a model with predict or predict_one, or a function"):
        as_classifier(thing)
