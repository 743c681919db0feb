"""Models by name, to be trained on a part of a stream: stand-ins for the classifiers of the paper's tables.

The paper names them as Weka does. What a name stands for here is the nearest model of scikit-learn, with its defaults
where there is no reason for anything else.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.checks import check_one_of
from cosend.errors import CosendError, install

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[Any]


class Trained:
    """A model fitted to a part of a stream."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self.model = model

    def predict(self, rows: Matrix) -> Vector:
        """Return a label for every row."""
        return np.asarray(self.model.predict(rows))


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


def train(name: str, rows: Matrix, labels: Vector, *, seed: int = 0, label: Any = None) -> Trained:
    """Return the model of a name, fitted to rows with known labels.

    "always" gives everything `label`; "random" draws among the labels that occur.
    """
    check_one_of("model", name, NAMES)
    if name == "always":
        return Trained(f"always {label}", Constant(label))
    if name == "random":
        return Trained(name, Coin(np.unique(labels), seed))
    classes = np.unique(labels)
    if len(classes) == 1:  # there is nothing to tell apart, and some models refuse to be fitted to that
        return Trained(name, Constant(classes[0]))
    return Trained(name, build(name, seed).fit(rows, labels))


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise CosendError(f"models by name need scikit-learn: {install('models')}") from None


def _standardised(*steps: Any) -> Any:
    return _sklearn("pipeline").make_pipeline(_sklearn("preprocessing").StandardScaler(), *steps)
