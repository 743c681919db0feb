"""Models in ONNX files, run by ONNX Runtime on one thread of the CPU.

Two kinds of inputs, which is what skl2onnx makes of scikit-learn models:

    one tensor of all features      [items, features]; read as `SklearnModel` reads items: by the names of the first
    one tensor for every feature    [items, 1] each, by name; skl2onnx writes "sepal length (cm)" as sepal_length__cm_.
                                    If there is only one, and an item has only one feature, it may have any name

The label is the output named label or output_label, or else the first. If there is one of probabilities, the largest is
how sure the model is. A file that was exported for one item at a time is asked item by item.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cosend.errors import ClassifierError, ModelError, in_one_line, listed, shown
from cosend.models.adapters import Classifier, Fixed, Item, Label, Predicted, SklearnModel, by_name, by_names

KINDS: Final[Mapping[str, type[np.generic]]] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}
NUMBERS: Final = ("tensor(float)", "tensor(double)", "tensor(int64)", "tensor(int32)")
LABELS: Final = ("label", "output_label")
PROBABILITIES: Final = ("probabilities", "output_probability")
Sure: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]  # labels and their probabilities


def from_onnx(model: str, path: Path, data: bytes, runtime: Any) -> Classifier:
    """Return the classifier of what is in an ONNX file, with the module of ONNX Runtime."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is in the error
    try:
        session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no base of theirs
        raise ModelError(model, f"{path} is not a readable ONNX file ({in_one_line(error)})") from error
    outputs = _outputs(model, session.get_outputs())
    inputs = session.get_inputs()
    if not inputs:
        raise ModelError(model, "it has no inputs", "a model takes the features of an item")
    if len(inputs) == 1 and _width(inputs[0]) != 1:
        _check_input(model, inputs[0], NUMBERS)
        return SklearnModel(OnnxTable(session, inputs[0], outputs))
    for each in inputs:
        _check_input(model, each, tuple(KINDS))
        if _width(each) != 1:
            allowed = "allowed are one tensor of all features, or one of shape [items, 1] for every feature"
            raise ModelError(model, f"input {each.name!r} has the shape {each.shape}", allowed)
    return OnnxColumns(session, inputs, outputs)


class OnnxTable:
    """A session that takes all features as one tensor; `predict` is scikit-learn's."""

    def __init__(self, session: Any, tensor: Any, outputs: Sequence[str]) -> None:
        self.session, self.tensor, self.outputs = session, tensor, outputs
        self.n_features_in_ = _width(tensor)

    def predict(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a label for every row."""
        return self.predict_sure(rows)[0]

    def predict_sure(self, rows: npt.NDArray[Any]) -> Sure:
        """Return a label for every row, and how sure the model is of it."""
        if rows.ndim != 2 or rows.shape[1] != (self.n_features_in_ or rows.shape[-1]):
            takes = self.n_features_in_ or "a row of"
            raise ClassifierError(f"the model takes {takes} features for every item, got {shown(rows.tolist())}")
        return _run(self.session, {self.tensor.name: _as_kind(rows, self.tensor)}, self.outputs)


class OnnxColumns(Fixed):
    """A classifier from a session that takes every feature as a separate tensor."""

    def __init__(self, session: Any, inputs: Sequence[Any], outputs: Sequence[str]) -> None:
        self.session, self.inputs, self.outputs = session, list(inputs), outputs
        self.names = [each.name for each in self.inputs]

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item."""
        return self.predict_sure(items).labels

    def predict_sure(self, items: Sequence[Item]) -> Predicted:
        """Return a label for every item, and how sure the model is of it, in one call of the model."""
        if not len(items):
            return Predicted([])
        items = by_names(items)
        rows = [by_name(item, self._names_in(item)) for item in items]
        columns = zip(self.inputs, zip(*rows, strict=True), strict=True)
        feed = {each.name: _as_kind(_column(values, each), each) for each, values in columns}
        return Predicted(*(each.tolist() for each in _run(self.session, feed, self.outputs)))

    def _names_in(self, item: Item) -> list[str]:
        if not isinstance(item, Mapping) or all(name in item for name in self.names):
            return self.names
        if len(self.names) == len(item) == 1:
            return list(item)
        written: dict[str, list[str]] = {}
        for name in item:
            written.setdefault(as_skl2onnx(name), []).append(name)
        found = {name: written.get(name, [name]) for name in self.names}
        for name, several in found.items():
            if name not in item and len(several) > 1:
                raise ClassifierError(f"input {name!r} of the model may stand for {listed(several)}")
        return [name if name in item else several[0] for name, several in found.items()]


def as_skl2onnx(name: object) -> str:
    """Return the name of a feature as skl2onnx writes it."""
    return re.sub(r"\W", "_", str(name))


def _run(session: Any, feed: Mapping[str, npt.NDArray[Any]], outputs: Sequence[str]) -> Sure:
    if isinstance(session.get_inputs()[0].shape[0], int):  # exported for one item at a time
        count = len(next(iter(feed.values())))
        feeds = [{name: rows[k : k + 1] for name, rows in feed.items()} for k in range(count)]
        parts = [_run_once(session, each, outputs) for each in feeds]
        return np.concatenate([labels for labels, _ in parts]), np.concatenate([sure for _, sure in parts])
    return _run_once(session, feed, outputs)


def _run_once(session: Any, feed: Mapping[str, npt.NDArray[Any]], outputs: Sequence[str]) -> Sure:
    labels, *chances = session.run(list(outputs), dict(feed))
    labels = np.asarray(labels).reshape(-1)
    if not chances:
        return labels, np.full(len(labels), np.nan)
    if isinstance(chances[0], list):  # a mapping from label to probability for every item
        return labels, np.array([max(each.values(), default=np.nan) for each in chances[0]])
    return labels, np.asarray(chances[0]).reshape(len(labels), -1).max(axis=1)


def _column(values: Sequence[Any], tensor: Any) -> npt.NDArray[Any]:
    """Return the values of one feature as a column, in whatever type they have."""
    array = np.array(values, dtype=object) if tensor.type == "tensor(string)" else np.array(values)
    if array.ndim != 1:
        raise ClassifierError(f"feature {tensor.name!r} must be one value for every item, got {shown(values[0])}")
    return array.reshape((-1, 1)[: len(tensor.shape)])


def _as_kind(values: npt.NDArray[Any], tensor: Any) -> npt.NDArray[Any]:
    """Return values in the type of a tensor, or raise if they are of another kind or do not fit into it."""
    if tensor.type == "tensor(string)":
        good, allowed = all(isinstance(value, str) for value in values.flat), "text"
    elif tensor.type == "tensor(bool)":
        good, allowed = values.dtype.kind == "b", "true or false"
    elif tensor.type in ("tensor(int64)", "tensor(int32)"):
        limits = np.iinfo(np.int32 if tensor.type == "tensor(int32)" else np.int64)
        fits = values.dtype.kind in "biuf" and bool(np.all((values >= limits.min) & (values <= limits.max)))
        good, allowed = fits and bool(np.all(values == np.floor(values))), "whole numbers"
    else:
        good, allowed = values.dtype.kind in "biuf", "numbers"
    if not good:
        raise ClassifierError(f"input {tensor.name!r} of the model takes {allowed}, got {shown(values.tolist())}")
    try:
        with np.errstate(over="raise"):
            return values.astype(KINDS[tensor.type])
    except FloatingPointError as error:
        raise ClassifierError(
            f"input {tensor.name!r} of the model takes 32 bits, got {shown(values.tolist())}"
        ) from error


def _width(tensor: Any) -> int | None:
    """Return how many features a tensor has, or None if any number."""
    if len(tensor.shape) == 1:
        return 1
    return tensor.shape[1] if isinstance(tensor.shape[-1], int) else None


def _check_input(model: str, tensor: Any, kinds: Sequence[str]) -> None:
    if tensor.type not in kinds:
        raise ModelError(model, f"input {tensor.name!r} is of type {tensor.type}", f"allowed are {listed(kinds)}")
    if len(tensor.shape) not in (1, 2) or (isinstance(tensor.shape[0], int) and tensor.shape[0] != 1):
        allowed = "allowed is [items, features] with any number of items, or with one"
        raise ModelError(model, f"input {tensor.name!r} has the shape {tensor.shape}", allowed)


def _outputs(model: str, outputs: Sequence[Any]) -> list[str]:
    """Return the names of the output that holds the labels, one for every item, and of that with the probabilities."""
    output = next((each for each in outputs if each.name in LABELS), outputs[0])
    one_each = len(output.shape) == 1 or (len(output.shape) == 2 and output.shape[1] == 1)
    if output.type not in KINDS or not one_each:
        raise ModelError(
            model,
            f"output {output.name!r} is of type {output.type} and shape {output.shape}",
            "the label must be one number, text or truth value for every item",
        )
    return [output.name, *(each.name for each in outputs if each.name in PROBABILITIES)]
