"""Every kind of model behind the same two verbs: `predict` for many items, `learn` from one.

    scikit-learn    anything with `predict`; items are rows of features in the order the model was fitted with
    river           anything with `predict_one`; learns online if it has `learn_one`
    plain callable  item -> label

A label leaves here as a plain Python value, so that labels compare, travel and save alike whatever made them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from cosend.errors import ClassifierError, SettingError

Item: TypeAlias = Any  # usually a mapping from feature to value; whatever the site's models and contexts understand
Label: TypeAlias = Any  # anything that compares: text, a number, a truth value


class Classifier(Protocol):
    """An arm of a site."""

    learns: bool

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item."""
        ...

    def learn(self, item: Item, label: Label) -> None:
        """Learn from the true label of an item that it answered; only called if `learns`."""
        ...


def as_classifier(model: Any) -> Classifier:
    """Return a model as a classifier, by what it can do."""
    if all(hasattr(model, name) for name in ("learns", "predict", "learn")):
        classifier: Classifier = model
        return classifier
    if hasattr(model, "predict_one"):
        return RiverModel(model)
    if hasattr(model, "predict"):
        return SklearnModel(model)
    if callable(model):
        return Function(model)
    allowed = "a model with predict or predict_one, or a function from an item to a label"
    raise SettingError("classifier", model, allowed)


class SklearnModel:
    """A model with scikit-learn's `predict`."""

    learns = False

    def __init__(self, model: Any) -> None:
        self.model = model
        names = getattr(model, "feature_names_in_", None)
        self.features = None if names is None else [str(name) for name in names]

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item, in one call of the model."""
        labels = self.model.predict(self._table(items))
        return np.asarray(labels).tolist()  # type: ignore[no-any-return]

    def learn(self, item: Item, label: Label) -> None:
        """Fitted models stay as they are."""

    def _table(self, items: Sequence[Item]) -> Any:
        if not isinstance(items[0], Mapping):
            return np.asarray(items)
        if self.features is None:
            return np.array([list(item.values()) for item in items])
        rows = [[item[name] for name in self.features] for item in items]
        try:
            return importlib.import_module("pandas").DataFrame(rows, columns=self.features)
        except ImportError:  # scikit-learn takes an array too, and says that it misses the names
            return np.array(rows)


class RiverModel:
    """A model with river's `predict_one`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.learns = hasattr(model, "learn_one")

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item; None while the model has seen nothing."""
        return [plain(self.model.predict_one(item)) for item in items]

    def learn(self, item: Item, label: Label) -> None:
        """Learn online."""
        self.model.learn_one(item, label)


class Function:
    """A plain function from an item to a label."""

    learns = False

    def __init__(self, function: Callable[[Item], Label]) -> None:
        self.function = function

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item."""
        return [plain(self.function(item)) for item in items]

    def learn(self, item: Item, label: Label) -> None:
        """Functions stay as they are."""


class SeesOnly:
    """A model that sees only some of the features: vertically distributed data."""

    def __init__(self, model: Any, features: Sequence[str]) -> None:
        self.classifier = as_classifier(model)
        self.features = list(features)
        self.learns = self.classifier.learns

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item, from the features that the model may see."""
        return self.classifier.predict([self._view(item) for item in items])

    def learn(self, item: Item, label: Label) -> None:
        """Learn from the features that the model may see."""
        self.classifier.learn(self._view(item), label)

    def _view(self, item: Item) -> Item:
        return {name: item[name] for name in self.features}


def plain(label: Label) -> Label:
    """Return a NumPy scalar as the Python value it stands for, anything else as it is."""
    return label.item() if isinstance(label, np.generic) else label


def predictions(name: str, classifier: Classifier, items: Sequence[Item]) -> list[Label]:
    """Return what a classifier says of the items; whatever goes wrong in it is a `ClassifierError` with its name."""
    try:
        labels = classifier.predict(items)
    except Exception as error:  # a user's model may raise anything
        raise ClassifierError(f"classifier {name!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(labels, list):
        raise ClassifierError(f"classifier {name!r} must give a list of labels, gave {labels!r}")
    if len(labels) != len(items):
        raise ClassifierError(f"classifier {name!r} gave {len(labels)} labels for {len(items)} items")
    return labels


def teach(name: str, classifier: Classifier, item: Item, label: Label) -> None:
    """Let a classifier learn; whatever goes wrong in it is a `ClassifierError` with its name."""
    try:
        classifier.learn(item, label)
    except Exception as error:  # a user's model may raise anything
        raise ClassifierError(f"classifier {name!r} failed to learn: {type(error).__name__}: {error}") from error
