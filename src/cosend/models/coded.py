"""Models of the zoo that take items as they come, and columns that hold what a model said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cosend.errors import ClassifierError, listed, shown
from cosend.models.adapters import Item, Label, by_name
from cosend.models.built_in import Matrix, Trained


class Coded:
    """A trained model of the zoo: text becomes the number that it had in the rows it was trained on.

    features    what it was trained on, in this order
    vocabulary  feature -> the values that a text feature may have; all others are numbers
    """

    learns = False

    def __init__(self, model: Trained, features: Sequence[str], vocabulary: Mapping[str, Sequence[Any]]) -> None:
        self.model, self.features = model, list(features)
        self._codes = {
            name: {value: float(code) for code, value in enumerate(sorted(vocabulary[name]))}
            for name in features
            if name in vocabulary
        }

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item."""
        if not len(items):
            return []
        return self.predict_rows(np.array([self._row(item) for item in items], np.float64))

    def predict_rows(self, rows: Matrix) -> list[Label]:
        """Return a label for every row of numbers, as they are in the training rows."""
        labels: list[Label] = self.model.predict(rows).tolist()
        return labels

    def learn(self, item: Item, label: Label) -> None:
        """Trained models stay as they are."""

    def _row(self, item: Item) -> list[float]:
        values = by_name(item, self.features)
        return [self._number(name, value) for name, value in zip(self.features, values, strict=True)]

    def _number(self, name: str, value: Any) -> float:
        codes = self._codes.get(name)
        try:
            return float(value) if codes is None else codes[value]
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            allowed = "a number" if codes is None else f"one of {listed(codes)}, which are those of the stream"
            raise ClassifierError(f"feature {name!r} must be {allowed}, got {shown(value)}") from error


class Said:
    """What a model has said before: a feature of the item holds its label."""

    learns = False

    def __init__(self, column: str) -> None:
        self.column = column

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return what the column says of every item."""
        return [by_name(item, [self.column])[0] for item in items]

    def learn(self, item: Item, label: Label) -> None:
        """Columns stay as they are."""
