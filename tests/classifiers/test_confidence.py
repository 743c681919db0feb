"""How sure models are of what they say: every kind of model says it in its own way, or says nothing of it."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import SeesOnly, Site
from cosend.axes import Feature
from cosend.errors import ClassifierError, NoAnswer
from cosend.models.adapters import Predicted, SeesAllBut, as_classifier, plain, predictions
from cosend.models.built_in import Coded, train
from cosend.models.loading import load_model
from tests.classifiers import models
from tests.classifiers.models import CONNECTIONS, FEATURES, ITEMS, KINDS, SOME, TABLE

SVC: Any = importlib.import_module("sklearn.svm").SVC
FixedThreshold: Any = importlib.import_module("sklearn.model_selection").FixedThresholdClassifier
GridSearch: Any = importlib.import_module("sklearn.model_selection").GridSearchCV
Scaler: Any = importlib.import_module("sklearn.preprocessing").StandardScaler
Logistic: Any = importlib.import_module("sklearn.linear_model").LogisticRegression
Linear: Any = importlib.import_module("sklearn.linear_model").LinearRegression
make_pipeline: Any = importlib.import_module("sklearn.pipeline").make_pipeline
Perceptron: Any = importlib.import_module("river.linear_model").Perceptron
KNN: Any = importlib.import_module("river.neighbors").KNNClassifier

SOME_ITEMS = ITEMS[SOME]


def says(model: Any, items: Any = None) -> Predicted:
    return predictions("yours", as_classifier(model), SOME_ITEMS if items is None else items)


# scikit-learn


def test_a_model_with_probabilities_says_its_most_probable_label_and_how_probable_it_is() -> None:
    model = models.logistic()
    chances = model.predict_proba(TABLE[SOME])
    for classifier in (model, SeesOnly(model, FEATURES), SeesAllBut(model, ["station"])):
        said = says(classifier)
        assert said.labels == model.predict(TABLE[SOME]).tolist()
        assert said.confidences == chances.max(axis=1).tolist()
    assert says(model, []) == Predicted([])


@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
def test_a_model_whose_label_is_not_the_most_probable_one_says_its_label_only() -> None:
    svc = SVC(probability=True, random_state=0)
    search = GridSearch(make_pipeline(Scaler(), svc), {"svc__C": [1.0, 2.0]}, cv=2)
    binary = [kind == "setosa" for kind in KINDS]
    eager = FixedThreshold(Logistic(max_iter=500), threshold=0.001)
    for model, labels in ((svc, KINDS), (make_pipeline(Scaler(), svc), KINDS), (search, KINDS), (eager, binary)):
        model.fit(TABLE, labels)
        said = says(model)
        assert said == Predicted(model.predict(TABLE[SOME]).tolist())
    assert says(eager).labels != says(Logistic(max_iter=500).fit(TABLE, binary)).labels


def test_a_model_without_probabilities_or_with_several_outputs_says_its_label_only() -> None:
    numbers = Linear().fit(TABLE, np.arange(len(TABLE)))
    assert says(numbers).confidences is None
    two = models.DecisionTree(random_state=0).fit(TABLE, [[kind, kind] for kind in KINDS])
    assert says(two).confidences is None


def test_models_by_name_say_how_sure_they_are() -> None:
    rows, labels = TABLE, np.array(KINDS)
    for name, is_sure in (("naive_bayes", True), ("tree", True), ("voted_perceptron", False)):
        coded = Coded(train(name, rows, labels), FEATURES, {})
        said = says(coded)
        assert (said.confidences is not None) is is_sure
        assert said.labels == coded.predict(SOME_ITEMS)
        assert not is_sure or all(0.0 <= sure <= 1.0 for sure in said.confidences or ())
    assert says(coded, []) == Predicted([])


# river


def test_river_models_say_how_sure_they_are_once_they_have_seen_something() -> None:
    model = models.river_model()
    said = says(model)
    assert said.labels == [model.predict_one(item) for item in SOME_ITEMS]
    assert said.confidences == [max(model.predict_proba_one(item).values()) for item in SOME_ITEMS]
    nothing = says(KNN())
    assert nothing.labels == [None] * len(SOME_ITEMS)
    assert all(map(math.isnan, nothing.confidences or [0.0]))


def test_river_models_whose_probabilities_do_not_work_say_their_label_only() -> None:
    class Odd:
        def predict_one(self, _: Any) -> Any:
            return np.str_("a")

    assert says(Odd()) == Predicted(["a"] * len(SOME_ITEMS))

    class Unfinished(Odd):
        def predict_proba_one(self, _: Any) -> Any:
            raise NotImplementedError

    assert says(Unfinished()) == Predicted(["a"] * len(SOME_ITEMS))


# ONNX


def test_onnx_models_say_how_sure_they_are(tmp_path: Path) -> None:
    table = says(load_model(models.iris_onnx(tmp_path), tmp_path))
    assert table.confidences == pytest.approx(models.logistic().predict_proba(TABLE[SOME]).max(axis=1), abs=1e-5)
    columns = load_model(models.connections_onnx(tmp_path), tmp_path)
    said = says(columns, CONNECTIONS[:20])
    assert said.labels == columns.predict(CONNECTIONS[:20])
    assert said.confidences is not None
    assert all(0.0 < sure <= 1.0 for sure in said.confidences)
    assert says(columns, []) == Predicted([])


# Functions


@pytest.mark.parametrize("sure", [0.0, 0.25, 1.0, np.float32(0.5), np.float64(0.75)])
def test_a_function_may_say_a_label_and_how_sure_it_is(sure: Any) -> None:
    said = says(lambda _: (np.int64(7), sure), [1, 2])
    assert said == Predicted([7, 7], [sure, sure])
    assert type(said.labels[0]) is int


def test_a_function_need_not_be_sure_of_everything() -> None:
    answers: dict[int, Any] = {1: "plain", 2: ("sure", 0.5), 3: ("it does not know", math.nan), 4: None}
    said = says(lambda item: answers[item], [1, 2, 3, 4])
    assert said.labels == ["plain", "sure", "it does not know", None]
    assert said.confidences is not None
    assert [*map(plain, said.confidences)] == pytest.approx([math.nan, 0.5, math.nan, math.nan], nan_ok=True)
    assert says(lambda _: ("it does not know", math.nan), [1]) == Predicted(["it does not know"])


@pytest.mark.parametrize(
    "label", [("a", 1.5), ("a", -0.5), ("a", math.inf), ("a", 1), ("a", True), ("a", 0.5, 0.5), ("a",), (0.5, "a")]
)
def test_a_tuple_of_anything_else_is_a_label(label: Any) -> None:
    assert says(lambda _: label, [1]) == Predicted([label])


# Classifiers of the user's own


class Own:
    """Says whatever it was made to say."""

    learns = False

    def __init__(self, said: Any) -> None:
        self.said = said

    def predict(self, items: Any) -> list[Any]:
        return ["a"] * len(items)

    def predict_sure(self, items: Any) -> Any:
        return self.said

    def learn(self, item: Any, label: Any) -> None:
        """Learn nothing."""


WRONG: Any = [["high"], [None], ("a",)]
BAD: dict[str, tuple[Any, str]] = {
    "a list": (["a"], "predict_sure of classifier 'yours' must give a Predicted, gave \\['a'\\]"),
    "too few": (Predicted(["a"], []), "the confidences of classifier 'yours' must be a list of floats, one for each"),
    "text": (Predicted(["a"], WRONG[0]), "must be a list of floats, one for each item, got \\['high'\\]"),
    "nothing": (Predicted(["a"], WRONG[1]), "must be a list of floats"),
    "no labels": (Predicted(WRONG[2], [0.5]), "must give a list of labels"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_classifier_that_says_it_wrong_has_failed(bad: str) -> None:
    said, sentence = BAD[bad]
    with pytest.raises(ClassifierError, match=sentence):
        says(Own(said), [1])
    site = Site("here", classifiers={"yours": Own(said)}, context=Feature("x", range=(0, 1)))
    with pytest.raises(NoAnswer, match="yours"):
        site.classify({"x": 0.5})


@pytest.mark.parametrize("sure", [-2.0, 0.0, 1.0, 7.0, math.nan, math.inf, 1e30])
def test_a_confidence_that_is_no_probability_does_no_harm(sure: float) -> None:
    site = Site("here", classifiers={"yours": Own(Predicted(["a"], [sure]))}, context=Feature("x", range=(0, 1)))
    for _ in range(5):
        decision = site.classify({"x": 0.5})
        assert decision.label == "a"
        site.learn(decision, "a")
    weights = site.engine.state.learnt.arrays()
    assert all(np.isfinite(array).all() for name, array in weights.items() if name.startswith("learnt_stack"))
