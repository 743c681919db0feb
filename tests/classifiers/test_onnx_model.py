"""Models in ONNX files: what skl2onnx makes, what other exporters make, and items that do not fit."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend.errors import ClassifierError, ModelError
from cosend.models.adapters import predictions
from cosend.models.loading import load_model
from tests.classifiers import models
from tests.classifiers.models import CONNECTIONS, FEATURES, ITEMS, TABLE

helper: Any = importlib.import_module("onnx.helper")
FLOAT, DOUBLE, INT64, INT32, STRING, BOOL = (
    getattr(importlib.import_module("onnx").TensorProto, name)
    for name in ("FLOAT", "DOUBLE", "INT64", "INT32", "STRING", "BOOL")
)
CONNECTION: dict[str, Any] = {"service": "http", "src_bytes": 300.0, "serror_rate": 0.0}


def write(folder: Path, inputs: list[Any], outputs: list[Any], nodes: list[Any] | None = None) -> str:
    """Write a graph of a few nodes; without any, the output is a copy of the first input."""
    values = [[helper.make_tensor_value_info(*each) for each in side] for side in (inputs, outputs)]
    graph = helper.make_graph(
        nodes or [helper.make_node("Identity", [inputs[0][0]], [outputs[0][0]])], "graph", *values
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "made.onnx").write_bytes(model.SerializeToString())
    return "made.onnx"


def test_a_model_of_one_tensor_says_what_scikit_learn_says(tmp_path: Path) -> None:
    said = models.logistic().predict(TABLE).tolist()
    classifier = load_model(models.iris_onnx(tmp_path), tmp_path, features=FEATURES)
    assert classifier.predict([dict(reversed(item.items())) for item in ITEMS]) == said
    assert load_model("old.onnx", tmp_path).predict(TABLE.tolist()) == said


def test_a_model_of_columns_of_numbers_and_text_says_what_scikit_learn_says(tmp_path: Path) -> None:
    said = models.of_connections().predict(models.DataFrame(CONNECTIONS)).tolist()
    classifier = load_model(models.connections_onnx(tmp_path), tmp_path)
    assert set(said) == {"normal", "attack"}
    assert classifier.predict(CONNECTIONS) == said


def test_names_are_found_as_skl2onnx_writes_them(tmp_path: Path) -> None:
    columns = models.ColumnTransformer([("all", models.StandardScaler(), FEATURES)])
    fitted = models.make_pipeline(columns, models.LogisticRegression(max_iter=500))
    fitted.fit(models.DataFrame(ITEMS), models.KINDS)
    name = models.write_onnx(tmp_path, fitted, models.DataFrame(ITEMS[:1]).astype(np.float32))
    said = fitted.predict(models.DataFrame(ITEMS)).tolist()
    assert load_model(name, tmp_path).predict(ITEMS) == said
    assert load_model(name, tmp_path, features=FEATURES).predict(ITEMS) == said
    with pytest.raises(ModelError, match="it needs 'petal_width__cm_', which features does not name"):
        load_model(name, tmp_path, features=FEATURES[:3])


def test_labels_are_plain_whole_numbers_if_the_model_was_fitted_with_those(tmp_path: Path) -> None:
    fitted = models.LogisticRegression(max_iter=500).fit(TABLE, np.arange(150) // 50)
    name = models.write_onnx(tmp_path, fitted, TABLE[:1].astype(np.float32), options={"zipmap": False})
    labels = load_model(name, tmp_path).predict(ITEMS[::50])
    assert labels == [0, 1, 2]
    assert {type(label) for label in labels} == {int}


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"a": 1.0}, "takes 4 features for every item"),
        (dict.fromkeys(FEATURES, "5"), "input 'X' of the model takes numbers, got .*'5'"),
        (dict.fromkeys(FEATURES), "input 'X' of the model takes numbers, got .*None"),
        (dict.fromkeys(FEATURES, 1e300), "input 'X' of the model takes 32 bits, got .*1e"),
        (None, "takes 4 features for every item"),
    ],
)
def test_an_item_that_does_not_fit_into_the_tensor_is_refused(tmp_path: Path, item: Any, said: str) -> None:
    classifier = load_model(models.iris_onnx(tmp_path), tmp_path)
    with pytest.raises(ClassifierError, match=f"'old' failed: .*{said}"):
        predictions("old", classifier, [item])
    assert predictions("old", classifier, ITEMS[:1]).labels == ["setosa"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"service": 5}, "input 'service' of the model takes text, got .*5"),
        ({"src_bytes": "many"}, "input 'src_bytes' of the model takes numbers, got .*'many'"),
        ({"src_bytes": None}, "input 'src_bytes' of the model takes numbers, got .*None"),
        ({"src_bytes": [1, 2]}, "'src_bytes' must be one value for every item"),
        ({"service": "unheard of"}, "Unknown Category"),
    ],
)
def test_a_value_that_does_not_fit_into_its_column_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    classifier = load_model(models.connections_onnx(tmp_path), tmp_path)
    with pytest.raises(ClassifierError, match=f"'old' failed: .*{said}"):
        predictions("old", classifier, [CONNECTION | change])
    assert predictions("old", classifier, CONNECTIONS[:1]).labels == ["normal"]


def test_a_feature_that_is_missing_or_could_be_two_is_named(tmp_path: Path) -> None:
    classifier = load_model(models.connections_onnx(tmp_path), tmp_path)
    with pytest.raises(ClassifierError, match="no feature 'src_bytes'; it has 'service', 'serror_rate'"):
        classifier.predict([{"service": "http", "serror_rate": 0.0}])
    with pytest.raises(ClassifierError, match="'src_bytes' of the model may stand for 'src bytes', 'src-bytes'"):
        classifier.predict([{"service": "http", "serror_rate": 0.0, "src bytes": 1, "src-bytes": 2}])
    assert classifier.predict([CONNECTION | {"src bytes": 1}]) == classifier.predict([CONNECTION])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (INT64, [1, 2.0, True], [1.5, "1", float("nan"), 2**70, None]),
        (INT32, [1, -5], [2**31, 0.5]),
        (BOOL, [True, False], [1, "yes"]),
        (STRING, ["a", ""], [1, None]),
        (DOUBLE, [1e300, 1], ["1"]),
    ],
)
def test_values_are_never_bent_into_the_type_of_an_input(
    tmp_path: Path, kind: int, good: list[Any], bad: list[Any]
) -> None:
    classifier = load_model(write(tmp_path, [("x", kind, [None, 1])], [("label", kind, [None, 1])]), tmp_path)
    assert classifier.predict([{"x": value} for value in good]) == good
    for value in bad:
        with pytest.raises(ClassifierError, match="input 'x' of the model takes"):
            classifier.predict([{"x": value}])


def test_the_only_feature_may_have_any_name(tmp_path: Path) -> None:
    made = write(tmp_path, [("X", FLOAT, [None, 1])], [("label", FLOAT, [None, 1])])
    assert load_model(made, tmp_path, features=["age"]).predict([{"age": 3, "size": 4}]) == [3.0]
    with pytest.raises(ClassifierError, match="no feature 'X'; it has 'age', 'size'"):
        load_model(made, tmp_path).predict([{"age": 3, "size": 4}])


def test_any_number_of_features_is_taken_if_the_file_says_so(tmp_path: Path) -> None:
    largest = helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0)
    made = write(tmp_path, [("x", FLOAT, [None, None])], [("best", INT64, [None])], [largest])
    assert load_model(made, tmp_path, features=["a", "b"]).predict([{"a": 1, "b": 2}]) == [1]
    with pytest.raises(ClassifierError, match="takes a row of features for every item"):
        load_model(made, tmp_path).predict([1, 2])


def test_a_model_that_was_exported_for_one_item_is_asked_item_by_item(tmp_path: Path) -> None:
    largest = helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0)
    made = write(tmp_path, [("x", FLOAT, [1, 3])], [("best", INT64, [1])], [largest])
    classifier = load_model(made, tmp_path)
    items = [{"a": 0.1, "b": 0.7, "c": 0.2}, {"a": 0.9, "b": 0.0, "c": 0.1}]
    assert classifier.predict(items) == [1, 0]
    assert classifier.predict([]) == []


def test_the_label_is_found_by_its_name_wherever_it_stands(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["scores"]),
        helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
    ]
    outputs = [("scores", FLOAT, [None, 2]), ("label", INT64, [None])]
    made = write(tmp_path, [("x", FLOAT, [None, 2])], outputs, nodes)
    assert load_model(made, tmp_path).predict([{"a": 0.1, "b": 0.9}]) == [1]


@pytest.mark.parametrize(
    ("inputs", "output", "said"),
    [
        ([("x", FLOAT, [None, 3])], ("scores", FLOAT, [None, 3]), "output 'scores' is of type .*float.*label must be"),
        ([("x", STRING, [None, 3])], ("label", STRING, [None]), "input 'x' is of type tensor.string.; allowed are"),
        ([("x", FLOAT, [None, 3, 3])], ("label", FLOAT, [None]), r"input 'x' has the shape .*3, 3\]"),
        ([("x", FLOAT, [8, 3])], ("label", FLOAT, [None]), r"input 'x' has the shape \[8, 3\]; .* any number of items"),
        (
            [("x", FLOAT, [None, 1]), ("y", FLOAT, [None, 2])],
            ("label", FLOAT, [None, 1]),
            r"input 'y' has the shape .* allowed are one tensor of all features",
        ),
    ],
)
def test_inputs_and_outputs_of_other_shapes_are_refused_when_the_model_is_loaded(
    tmp_path: Path, inputs: list[Any], output: Any, said: str
) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Expand", ["x", "shape"], [output[0]])]
    if output[2] == [None]:
        nodes = [
            helper.make_node("Constant", [], ["flat"], value_ints=[-1]),
            helper.make_node("Reshape", ["x", "flat"], [output[0]]),
        ]
    with pytest.raises(ModelError, match=f"^model 'made.onnx': {said}"):
        load_model(write(tmp_path, inputs, [output], nodes), tmp_path)
