"""What every model says about every row of the stream, where that does not depend on what is played.

A model that does not learn always says the same about an item: it is asked once, in batches. A model that learns from
every label of its site, and a vote, say what the labels before have taught them, whichever arm was used: they are asked
and taught once, in the order of the stream. Only the predictions of a model that learns from the items it was used for,
or from labels that peers forward, cannot be known in advance: they depend on the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Ints
from cosend.algorithm.pending import Patience
from cosend.config.build import Built
from cosend.config.network_file import SOURCE
from cosend.config.sections import SiteSection
from cosend.errors import ClassifierError, NetworkFileError, cut, in_one_line, listed, shown
from cosend.models.adapters import Classifier, Item, Label, predictions, teach
from cosend.models.coded import Coded
from cosend.models.vote import NEWEST, Ballot, Vote, ballot_of, votes_among
from cosend.streams.table import Table

NO_CLASS: Final = -1  # a label that never is the true one, or no prediction
AT_ONCE: Final = 256  # items in a batch for a model
LONGEST_REASON: Final = 300
MOST_SHOWN: Final = 1_000

Progress = Callable[[str, int, int], None]  # which model is asked, rows done, rows in all
Model = TypeVar("Model", bound=Classifier)
Labels = list[Label]  # [row]: what a model says; None where it has no prediction


def no_progress(name: str, done: int, rows: int) -> None:
    """Show nothing."""


class Predictions(NamedTuple):
    """What all models say about all rows."""

    labels: dict[str, Labels]  # by model, if they do not depend on what is played
    codes: Ints  # [row, model]: positions in the classes; NO_CLASS where nothing is known
    known: npt.NDArray[np.bool_]  # [model]: whether its predictions are in `labels`
    constant: frozenset[str]  # models that never learn and have a prediction for every row
    unknown: list[str]  # why the others cannot be known
    incomplete: list[str]  # why a model may fail, so that another arm is taken
    notes: list[str]


def predict_all(
    built: Built,
    table: Table,
    rows: Sequence[Item],
    classes: Sequence[Any],
    order: Sequence[Ints],
    progress: Progress = no_progress,
) -> Predictions:
    """Ask every model about every row of a table.

    rows   the same as items
    order  [site]: the rows as they arrive there
    """
    found = _Found(built, rows, table.truths(), progress)
    for site, own in zip(built.network.sites, order, strict=True):
        models = built.classifiers(site.name)
        for name, model in models.items():
            if not model.learns:
                found.ask_about_all_rows(name, model)
        if any(model.learns for model in models.values()):
            found.teach_in_order(site, models, own.tolist())
    names, code_of = [each.name for _, _, each in built.network.classifiers()], {c: n for n, c in enumerate(classes)}
    columns = [_codes(found.labels.get(name, [None] * len(rows)), code_of) for name in names]
    notes = [
        f"{name!r} never gives a label that occurs: it says {_examples(found.labels[name])}, "
        f"and the labels are {listed(classes)}; let it return one of these, where what stands in quotes is text"
        for name, column in zip(names, columns, strict=True)
        if name in found.labels and name not in found.failing and (column == NO_CLASS).all()
    ]
    return Predictions(
        found.labels,
        np.stack(columns, axis=1),
        np.array([name in found.labels for name in names]),
        frozenset(found.labels) - found.failing.keys() - found.learning,
        list(found.unknown.values()),
        list(found.failing.values()),
        notes,
    )


class _Found:
    """What was found so far, by model."""

    def __init__(self, built: Built, rows: Sequence[Item], truths: Labels, progress: Progress) -> None:
        self._built, self._rows, self._truths, self._progress = built, rows, truths, progress
        self.labels: dict[str, Labels] = {}
        self.learning: set[str] = set()
        self.unknown: dict[str, str] = {}  # why its predictions cannot be known
        self.failing: dict[str, str] = {}  # why it has no prediction for some rows

    def ask(self, name: str, model: Classifier, items: Sequence[Any]) -> Labels:
        """Return what a model says about items; if it fails on a batch, each item gets another try."""
        try:
            return predictions(name, model, items)
        except ClassifierError as error:
            if len(items) > 1:
                return [label for item in items for label in self.ask(name, model, [item])]
            self.failing.setdefault(name, f"{name!r} cannot label every row ({cut(str(error), LONGEST_REASON)})")
            return [None]

    def ask_about_all_rows(self, name: str, model: Classifier) -> None:
        """Ask a model that does not learn about every row."""
        count = len(self._rows)
        if isinstance(model, Coded):
            self._progress(name, 0, count)
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # models refuse the result
                    self.labels[name] = model.predict_rows(self._built.rows_for(model.features))
            except (ValueError, ArithmeticError) as error:
                raise NetworkFileError(SOURCE, [f"classifier {name!r} cannot label all rows ({error})"]) from error
            return
        labels: Labels = []
        for start in range(0, count, AT_ONCE):
            self._progress(name, start, count)
            items = [{**item} for item in self._rows[start : start + AT_ONCE]]  # a model may change its items
            labels += self.ask(name, model, items)
        self.labels[name] = labels
        self._note_gaps(name, labels)

    def teach_in_order(self, site: SiteSection, models: dict[str, Classifier], order: list[int]) -> None:
        """Ask and teach the models of a site that learn, unless what they learn depends on what is played."""
        self.learning.update(name for name, model in models.items() if model.learns)
        for name in (name for name, model in models.items() if model.learns):
            why = self._why_unknown(site) or self._why_vote_unknown(site, models, name)
            if why:
                self.unknown[name] = f"{name!r} {why}"
        students = _Students(models, self)
        if not students.names:
            return
        late, newest = max(1, self._built.network.label_delay), None
        for n, row in enumerate(order):
            if n % AT_ONCE == 0:
                self._progress(" and ".join(students.names), n, len(order))
            earlier = order[n - late] if n >= late else None
            if earlier is not None and self._truths[earlier] is None:
                students.ballots.pop(earlier, None)  # its label never comes
            elif earlier is not None:
                newest = self._truths[earlier]
                students.learn(self._rows[earlier], earlier, newest)
            students.predict(self._rows[row], row, newest)
        for name in students.names:
            self.labels[name] = [students.labels[name].get(row) for row in range(len(self._rows))]
            self._note_gaps(name, [self.labels[name][row] for row in order])

    def _note_gaps(self, name: str, labels: Labels) -> None:
        if any(label is None for label in labels):
            self.failing.setdefault(name, f"{name!r} has no answer to some rows")

    def _why_unknown(self, site: SiteSection) -> str:
        """Say why what models of a site learn depends on what is played; nothing if it does not."""
        if site.learns_from == "used":
            return "learns from the items that it was used for"
        if len(self._built.network.sites) > 1:
            return "learns also from labels that peers pass on"
        if self._built.network.patience != Patience():
            return "learns, and labels are not awaited forever"
        return ""

    def _why_vote_unknown(self, site: SiteSection, models: dict[str, Classifier], name: str) -> str:
        """Say which voter a vote hears only now and then; nothing if it hears the same whatever is played."""
        vote = models[name]
        if not isinstance(vote, Vote):
            return ""
        for each in site.classifiers:
            hears = each.name in vote.over if vote.over is not None else not isinstance(models[each.name], Vote)
            if hears and each.name in self.unknown:
                return f"hears {each.name!r}, which {self.unknown[each.name].partition(' ')[2]}"
            if hears and each.name in self.failing:
                return f"hears {each.name!r}, which cannot label every row"
            if hears and vote.over is None and each.cost > 0.0:
                return f"hears {each.name!r}, which costs something, only where it was used"
        return ""


class _Students:
    """Copies of the models of a site that learn, on their way through its stream."""

    def __init__(self, models: dict[str, Classifier], found: _Found) -> None:
        learning = {name: model for name, model in models.items() if model.learns and name not in found.unknown}
        self._votes = {name: fresh_copy(name, vote) for name, vote in votes_among(learning).items()}
        self._models = {name: fresh_copy(name, each) for name, each in learning.items() if name not in self._votes}
        self.names = list(learning)
        self.labels: dict[str, dict[int, Label]] = {name: {} for name in learning}  # by row
        self._found, self._voters = found, [name for name in models if name not in votes_among(models)]
        self.ballots: dict[int, Ballot] = {}  # by row, until its label comes

    def predict(self, item: Any, row: int, newest: Label) -> None:
        """Ask all of them about an item; `newest` is the newest known label."""
        for name, model in self._models.items():
            (self.labels[name][row],) = self._found.ask(name, model, [{**item}])
        if not self._votes:
            return
        heard = {name: self.labels[name].get(row) for name in self._voters if name in self.labels}
        heard |= {name: self._found.labels[name][row] for name in self._voters if name in self._found.labels}
        ballot = {name: heard[name] for name in self._voters if heard.get(name) is not None}
        self.ballots[row] = {NEWEST: newest} | ballot
        for name, vote in self._votes.items():
            (self.labels[name][row],) = self._found.ask(name, vote, [ballot_of(vote, self.ballots[row], ())])

    def learn(self, item: Any, row: int, truth: Label) -> None:
        """Teach all of them the label of an item that they were asked about."""
        for name, model in self._models.items():
            teach(name, model, {**item}, truth)
        if self._votes:
            ballot = self.ballots.pop(row)
            for name, vote in self._votes.items():
                teach(name, vote, ballot_of(vote, ballot, ()), truth)


def fresh_copy(name: str, model: Model) -> Model:
    """Return a copy of a model that learns, as the file has it, to be played once."""
    try:
        return deepcopy(model)
    except Exception as error:  # a user's model may raise anything
        raise ClassifierError(f"classifier {name!r} learns and cannot be copied ({in_one_line(error)})") from error


def _codes(labels: Sequence[Label], code_of: dict[Any, int]) -> Ints:
    return np.array([_code(label, code_of) for label in labels], np.int64)


def _code(label: Label, code_of: dict[Any, int]) -> int:
    try:
        return code_of.get(label, NO_CLASS)
    except Exception:  # a list, or a user's label that raises when it is compared
        return NO_CLASS


def _examples(labels: Sequence[Label]) -> str:
    return ", ".join(sorted({shown(label) for label in labels[:MOST_SHOWN]})[:3])
