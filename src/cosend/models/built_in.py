"""Models that a stream makes: by name, trained on a part of it, and columns with the predictions of a model.

They stand in for the classifiers of the paper's tables, which it names as Weka does. Here, a name stands for the
nearest model of scikit-learn, with its defaults unless there is a reason for another value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from cosend.checks import check_one_of
from cosend.errors import ClassifierError, CosendError, install, listed, shown
from cosend.models.adapters import Fixed, Item, Label, Predicted, by_name

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[Any]


class Predictor(Protocol):
    """A model that was fitted to a part of a stream."""

    def predict(self, rows: Matrix) -> Vector:
        """Return a label for every row."""
        ...


class Constant:
    """Gives everything the same label."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def predict(self, rows: Matrix) -> Vector:
        """Return the label as often as there are rows."""
        return np.full(len(rows), self.label)


class Coin:
    """Gives every row one of the labels, drawn at random."""

    def __init__(self, labels: Vector, seed: int) -> None:
        self.labels = labels
        self.random = np.random.default_rng(seed)

    def predict(self, rows: Matrix) -> Vector:
        """Return a fresh draw for every row."""
        return self.labels[self.random.integers(0, len(self.labels), len(rows))]


def build(name: str, seed: int) -> Any:
    """Return an unfitted model by its name."""
    match name:
        case "naive_bayes":
            return _sklearn("naive_bayes").GaussianNB()
        case "logistic":
            return _standardised(_sklearn("linear_model").LogisticRegression(max_iter=1_000))
        case "voted_perceptron":  # the average over all perceptrons of the training is what their vote comes to
            model = _sklearn("linear_model").SGDClassifier(loss="perceptron", average=True, random_state=seed)
            return _standardised(model)
        case "rbf_network":  # a logistic layer over random features of a Gaussian kernel
            layer = _sklearn("linear_model").LogisticRegression(max_iter=1_000)
            return _standardised(_sklearn("kernel_approximation").RBFSampler(random_state=seed), layer)
        case "tree":  # by information gain, as C4.5 (Weka's J48) grows them
            return _sklearn("tree").DecisionTreeClassifier(criterion="entropy", random_state=seed)
        case _:  # random_tree: looks at a random part of the features at every split
            return _sklearn("tree").ExtraTreeClassifier(random_state=seed)


MODELS: Final = ("naive_bayes", "logistic", "voted_perceptron", "rbf_network", "tree", "random_tree")
NAMES: Final = (*MODELS, "always", "random")


def train(name: str, rows: Matrix, labels: Vector, *, seed: int = 0, label: Any = None) -> Predictor:
    """Return the model of a name, fitted to rows with known labels.

    "always" gives everything `label`; "random" draws among the labels that occur.
    """
    check_one_of("model", name, NAMES)
    if name == "always":
        return Constant(label)
    classes = np.unique(labels)
    if name == "random":
        return Coin(classes, seed)
    if len(classes) == 1:  # there is nothing to tell apart, and some models refuse to be fitted to that
        return Constant(classes[0])
    fitted: Predictor = build(name, seed).fit(rows, labels)
    return fitted


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise CosendError(f"models by name need scikit-learn: {install('models')}") from None


def _standardised(*steps: Any) -> Any:
    return _sklearn("pipeline").make_pipeline(_sklearn("preprocessing").StandardScaler(), *steps)


class Coded(Fixed):
    """A model that was trained on a stream: text becomes the number that it had in the rows it was trained on.

    features    the features of its training, in this order
    vocabulary  feature -> the values that a text feature may have; all others are numbers
    """

    def __init__(self, model: Predictor, features: Sequence[str], vocabulary: Mapping[str, Sequence[Any]]) -> None:
        self.model, self.features = model, list(features)
        self._codes = {
            name: {value: float(code) for code, value in enumerate(sorted(vocabulary[name]))}
            for name in features
            if name in vocabulary
        }

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item."""
        return self.predict_sure(items).labels

    def predict_sure(self, items: Sequence[Item]) -> Predicted:
        """Return a label for every item, and how sure the model is of it, where it gives that."""
        if not len(items):
            return Predicted([])
        return self.predict_rows(np.array([self._row(item) for item in items], np.float64))

    def predict_rows(self, rows: Matrix) -> Predicted:
        """Return a label for every row of numbers, as they are in the training rows."""
        classes = getattr(self.model, "classes_", None)
        if classes is None or not hasattr(self.model, "predict_proba"):
            return Predicted(np.asarray(self.model.predict(rows)).tolist())
        chances = np.asarray(self.model.predict_proba(rows))
        best = chances.argmax(axis=1)
        return Predicted(np.asarray(classes)[best].tolist(), chances[np.arange(len(best)), best].tolist())

    def _row(self, item: Item) -> list[float]:
        values = by_name(item, self.features)
        return [self._number(name, value) for name, value in zip(self.features, values, strict=True)]

    def _number(self, name: str, value: Any) -> float:
        codes = self._codes.get(name)
        try:
            return float(value) if codes is None else codes[value]
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            allowed = "a number" if codes is None else f"one of {listed(codes)} of the stream"
            raise ClassifierError(f"feature {name!r} must be {allowed}, got {shown(value)}") from error


class Said(Fixed):
    """A model's recorded opinions: a feature of the item holds its label."""

    def __init__(self, column: str) -> None:
        self.column = column

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return what the column says about every item."""
        return [by_name(item, [self.column])[0] for item in items]


class Earned(Said):
    """A model's recorded scores: a feature of the item holds the score of its answer, which is its label here.

    units  the lowest and the highest score, which become 0 and 1
    """

    def __init__(self, column: str, units: tuple[float, float]) -> None:
        super().__init__(column)
        self.units = units

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return the scores of every item in [0, 1]."""
        low, high = self.units
        return [min(1.0, max(0.0, (float(score) - low) / (high - low))) for score in super().predict(items)]


def as_it_says(label: Any, _: Any) -> float:
    """Return the gain of a label that is a score."""
    return float(label)
