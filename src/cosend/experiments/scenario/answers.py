"""What every classifier says of every row of the stream, where that can be known before anything is played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.classifiers.adapters import Classifier, Label, predictions
from cosend.classifiers.coded import Coded
from cosend.config.build import SOURCE, Built
from cosend.config.sites import ClassifierSetting
from cosend.core.kernel.ledger import Ints
from cosend.errors import ClassifierError, ScenarioError, cut, listed, shown
from cosend.streams.table import Table

NO_CLASS: Final = -1  # a label that never is the true one
LONGEST_REASON: Final = 300
MOST_SHOWN: Final = 1_000


class Answers(NamedTuple):
    """What all classifiers say of all rows."""

    numbers: Ints  # [row, function], as numbers of the classes; empty if something is unknown
    unknown: list[str]  # why it cannot be known in advance
    notes: list[str]


def all_answers(built: Built, table: Table, classes: Sequence[Any]) -> Answers:
    """Ask every classifier about every row, unless one of them learns: then it depends on what is played."""
    models = [(each, built.classifiers(site.name)[each.name]) for _, site, each in built.scenario.classifiers()]
    unknown = [f"{setting.name!r} learns" for setting, classifier in models if classifier.learns]
    notes: list[str] = []
    columns: list[Ints] = []
    if not unknown:
        rows = _Rows(table)
        for setting, classifier in models:
            try:
                said = _said(built, setting, classifier, rows)
            except ClassifierError as error:
                unknown.append(f"{setting.name!r} cannot label every row ({cut(str(error), LONGEST_REASON)})")
                continue
            columns.append(_numbers(said, classes))
            if (columns[-1] == NO_CLASS).all():
                notes.append(
                    f"{setting.name!r} never gives a label that occurs: it says {_different(said)}, "
                    f"and the labels are {listed(classes)}; let it return one of these, "
                    "where what stands in quotes is text"
                )
    numbers = np.empty((0, len(models)), np.int64) if unknown else np.stack(columns, axis=1)
    return Answers(numbers, unknown, notes)


class _Rows:
    """The rows of a table as items, made when they are first needed."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._items: list[Any] = []

    def items(self) -> list[Any]:
        if not self._items:
            self._items = [item for item, _ in self.table.rows()]
        return self._items


def _said(built: Built, setting: ClassifierSetting, classifier: Classifier, rows: _Rows) -> list[Label]:
    """Return what a classifier says of every row of the stream."""
    if not isinstance(classifier, Coded):
        return predictions(setting.name, classifier, [{**item} for item in rows.items()])  # which it may change
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # models refuse what comes of it
            return classifier.predict_rows(built.rows_for(classifier.features))
    except (ValueError, ArithmeticError) as error:
        wrong = f"classifier {setting.name!r} cannot label all rows ({error})"
        raise ScenarioError(SOURCE, [wrong]) from error


def _numbers(said: Sequence[Label], classes: Sequence[Any]) -> Ints:
    """Return labels as numbers of the classes they are equal to."""
    number_of = {label: number for number, label in enumerate(classes)}
    return np.array([_number(label, number_of) for label in said], np.int64)


def _number(label: Label, number_of: dict[Any, int]) -> int:
    try:
        return number_of.get(label, NO_CLASS)
    except Exception:  # a list, or whatever a user's label does when it is compared: it is no label of a stream
        return NO_CLASS


def _different(said: Sequence[Label]) -> str:
    """Return some of the labels that were given, as they stand in a sentence."""
    return ", ".join(sorted({shown(label) for label in said[:MOST_SHOWN]})[:3])
