"""What every classifier says of every row of the stream, where that does not depend on what is played.

A model that stays as it is says the same of an item whoever asks and whenever. It is asked once, in batches. A model
that learns from every label of its site, and a vote, say what the labels before have taught them, whichever arm was
used. They are asked and taught in the order of the stream, once too. Only a model that learns from what it was used
for, or from labels that peers pass on, cannot be known: who asks it, and about what, is up to the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cosend.classifiers.adapters import Classifier, Item, Label, predictions, teach
from cosend.classifiers.coded import Coded
from cosend.classifiers.vote import NEWEST, Ballot, Vote, ballot_of, votes_among
from cosend.config.build import SOURCE, Built
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.core.kernel.ledger import Ints
from cosend.core.learner.registry import Patience
from cosend.errors import ClassifierError, ScenarioError, cut, in_one_line, listed, shown
from cosend.site.batch import replies_of
from cosend.streams.table import Table

NO_CLASS: Final = -1  # a label that never is the true one, or none at all
AT_ONCE: Final = 256  # items that a model is asked about together
LONGEST_REASON: Final = 300
MOST_SHOWN: Final = 1_000

Asked = Callable[[str, int, int], None]  # which model was asked, about how many rows, and of how many
Model = TypeVar("Model", bound=Classifier)
Said = list[Label]  # [row]: what a model says; None where it has no answer


def nobody_watches(name: str, done: int, rows: int) -> None:
    """Let nobody know."""


class Answers(NamedTuple):
    """What all classifiers say of all rows."""

    said: dict[str, Said]  # of those whose answers do not depend on what is played
    numbers: Ints  # [row, function], as numbers of the classes; NO_CLASS where nothing is known
    foreseen: npt.NDArray[np.bool_]  # [function]: whether its answers are known
    steady: frozenset[str]  # those that never learn and have an answer to every row
    unforeseen: list[str]  # why others are not
    incomplete: list[str]  # why an arm may fail, so that another is taken
    notes: list[str]


def all_answers(
    built: Built,
    table: Table,
    rows: Sequence[Item],
    classes: Sequence[Any],
    order: Sequence[Ints],
    asked: Asked = nobody_watches,
) -> Answers:
    """Ask every classifier about every row of a table.

    rows   the same as items
    order  [site]: the rows as they arrive there
    """
    found = _Found()
    for site, own in zip(built.scenario.sites, order, strict=True):
        models = built.classifiers(site.name)
        for setting in site.classifiers:
            if not models[setting.name].learns:
                found.said[setting.name] = _of_all_rows(built, setting, models[setting.name], rows, found, asked)
        if any(model.learns for model in models.values()):
            _add_those_that_learn(built, site, rows, table.truths(), own.tolist(), found, asked)
    names = [setting.name for _, _, setting in built.scenario.classifiers()]
    columns = [_numbers(found.said[name], classes) if name in found.said else _nothing(len(table)) for name in names]
    notes = [
        f"{name!r} never gives a label that occurs: it says {_different(found.said[name])}, "
        f"and the labels are {listed(classes)}; let it return one of these, where what stands in quotes is text"
        for name, column in zip(names, columns, strict=True)
        if name in found.said and name not in found.failing and (column == NO_CLASS).all()
    ]
    return Answers(
        found.said,
        np.stack(columns, axis=1),
        np.array([name in found.said for name in names]),
        frozenset(found.said) - found.failing.keys() - found.learning,
        list(found.unforeseen.values()),
        list(found.failing.values()),
        notes,
    )


class _Found:
    """What was found so far, by classifier."""

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self.learning: set[str] = set()
        self.unforeseen: dict[str, str] = {}  # why its answers cannot be known
        self.failing: dict[str, str] = {}  # why it has no answer to some rows


def _of_all_rows(
    built: Built, setting: ClassifierSetting, classifier: Classifier, rows: Sequence[Item], found: _Found, asked: Asked
) -> Said:
    """Return what a classifier that stays as it is says of every row."""
    name, count = setting.name, len(rows)
    if isinstance(classifier, Coded):
        asked(name, 0, count)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # models refuse what comes of it
                return classifier.predict_rows(built.rows_for(classifier.features))
        except (ValueError, ArithmeticError) as error:
            wrong = f"classifier {name!r} cannot label all rows ({error})"
            raise ScenarioError(SOURCE, [wrong]) from error
    said: Said = []
    for start in range(0, count, AT_ONCE):
        asked(name, start, count)
        items = [{**item} for item in rows[start : start + AT_ONCE]]  # which it may change
        replies = replies_of(name, classifier, items)
        said += [reply.label for reply in replies]
        for failed in (reply.failed for reply in replies if reply.failed is not None):
            found.failing.setdefault(name, f"{name!r} cannot label every row ({cut(failed, LONGEST_REASON)})")
    _note_silence(name, said, found)
    return said


def _note_silence(name: str, said: Said, found: _Found) -> None:
    if any(label is None for label in said):
        found.failing.setdefault(name, f"{name!r} has no answer to some rows")


def _add_those_that_learn(
    built: Built,
    site: SiteSetting,
    rows: Sequence[Item],
    labels: Sequence[Label],
    order: list[int],
    found: _Found,
    asked: Asked,
) -> None:
    """Add what the classifiers of a site say that learn, unless it depends on what is played."""
    models = built.classifiers(site.name)
    found.learning.update(name for name, model in models.items() if model.learns)
    why = _why_unforeseen(built, site)
    for name in (name for name, model in models.items() if model.learns):
        hidden = why or _what_it_does_not_hear(site, models, name, found)
        if hidden:
            found.unforeseen[name] = f"{name!r} {hidden}"
    late = max(1, built.scenario.label_delay)
    taught = _Taught(models, found, len(rows))
    if not taught.names:
        return
    newest: Label = None  # of the labels that are known
    for n, row in enumerate(order):
        if n % AT_ONCE == 0:
            asked(" and ".join(taught.names), n, len(order))
        earlier = order[n - late] if n >= late else None
        if earlier is not None and labels[earlier] is None:
            taught.forget(earlier)
        elif earlier is not None:
            newest = labels[earlier]
            taught.learn(rows[earlier], earlier, newest)
        taught.answer(rows[row], row, newest)
    for name in taught.names:
        found.said[name] = taught.said[name]
        _note_silence(name, [found.said[name][row] for row in order], found)


def _why_unforeseen(built: Built, site: SiteSetting) -> str:
    """Say why what models of a site learn depends on what is played; nothing if it does not."""
    if site.learns_from == "used":
        return "learns from the items that it was used for"
    if len(built.scenario.sites) > 1:
        return "learns also from labels that peers pass on"
    if built.scenario.patience.build() != Patience():
        return "learns, and labels are not awaited forever"
    return ""


def _what_it_does_not_hear(site: SiteSetting, models: dict[str, Classifier], name: str, found: _Found) -> str:
    """Say whom a vote hears only now and then; nothing if it hears the same whatever is played."""
    vote = models[name]
    if not isinstance(vote, Vote):
        return ""
    for each in site.classifiers:
        hears = each.name in vote.over if vote.over is not None else not isinstance(models[each.name], Vote)
        if hears and each.name in found.unforeseen:
            return f"hears {each.name!r}, which {found.unforeseen[each.name].partition(' ')[2]}"
        if hears and each.name in found.failing:
            return f"hears {each.name!r}, which cannot label every row"
        if hears and vote.over is None and each.cost > 0.0:
            return f"hears {each.name!r}, which costs something, only where it was used"
    return ""


class _Taught:
    """Copies of the models of a site that learn, on their way through its stream."""

    def __init__(self, models: dict[str, Classifier], found: _Found, rows: int) -> None:
        foreseen = {name: model for name, model in models.items() if model.learns and name not in found.unforeseen}
        self._votes = {name: fresh_copy(name, vote) for name, vote in votes_among(foreseen).items()}
        self._models = {name: fresh_copy(name, each) for name, each in foreseen.items() if name not in self._votes}
        self.names = list(foreseen)
        self.said: dict[str, Said] = {name: [None] * rows for name in foreseen}
        self._found, self._heard = found, [name for name in models if name not in votes_among(models)]
        self._ballots: dict[int, Ballot] = {}  # by row, until its label comes

    def answer(self, item: Any, row: int, newest: Label) -> None:
        """Have all say what they make of an item; `newest` is the newest label that is known."""
        for name, model in self._models.items():
            self._ask(name, model, {**item}, row)
        if not self._votes:
            return
        known = {**self._found.said, **self.said}
        ballot = {name: known[name][row] for name in self._heard if name in known}
        self._ballots[row] = {NEWEST: newest} | {name: label for name, label in ballot.items() if label is not None}
        for name, vote in self._votes.items():
            self._ask(name, vote, ballot_of(vote, self._ballots[row], ()), row)

    def _ask(self, name: str, model: Classifier, item: Any, row: int) -> None:
        try:
            self.said[name][row] = predictions(name, model, [item])[0]
        except ClassifierError as error:
            why = f"{name!r} cannot label every row ({cut(str(error), LONGEST_REASON)})"
            self._found.failing.setdefault(name, why)

    def learn(self, item: Any, row: int, truth: Label) -> None:
        """Teach all of them the label of an item that they were asked about."""
        for name, model in self._models.items():
            teach(name, model, {**item}, truth)
        if self._votes:
            ballot = self._ballots.pop(row)
            for name, vote in self._votes.items():
                teach(name, vote, ballot_of(vote, ballot, ()), truth)

    def forget(self, row: int) -> None:
        """Keep nothing of an item whose label never comes."""
        self._ballots.pop(row, None)


def fresh_copy(name: str, classifier: Model) -> Model:
    """Return a copy of a model as the file has it, for one play."""
    try:
        return deepcopy(classifier)
    except Exception as error:  # a user's model may raise anything
        raise ClassifierError(f"classifier {name!r} learns and cannot be copied ({in_one_line(error)})") from error


def _numbers(said: Sequence[Label], classes: Sequence[Any]) -> Ints:
    """Return labels as numbers of the classes they are equal to."""
    number_of = {label: number for number, label in enumerate(classes)}
    return np.array([_number(label, number_of) for label in said], np.int64)


def _nothing(rows: int) -> Ints:
    return np.full(rows, NO_CLASS, np.int64)


def _number(label: Label, number_of: dict[Any, int]) -> int:
    try:
        return number_of.get(label, NO_CLASS)
    except Exception:  # a list, or whatever a user's label does when it is compared: it is no label of a stream
        return NO_CLASS


def _different(said: Sequence[Label]) -> str:
    """Return some of the labels that were given, as they stand in a sentence."""
    return ", ".join(sorted({shown(label) for label in said[:MOST_SHOWN]})[:3])
