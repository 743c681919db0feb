"""The arms that a site learns from its own labels: free local models that nobody has to bring.

    grown   trees that are fitted to the newest labelled items, again and again as labels come
    stack   a softmax regression over what all models say, which every label moves

Both see the features of an item and the newest label that was known; the stack also hears what the other free models
say and how sure they are, the grown trees among them. What they say is an opinion like that of any model: known before
the choice, part of the event, scored by the label. So a log is folded without asking them again; what they have learnt
follows from the labels, bit for bit, and so do trees from the labels that a fit began with.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosend.algorithm.boosting import Trees, Values, fit, predict
from cosend.algorithm.layout import Floats, Ints
from cosend.algorithm.stack import NO_SLICE, NONE, Slices, Weights, stack_chances, stack_learn, weights_for, widened

if TYPE_CHECKING:
    from cosend.engine.site_state import Note

Confidences: TypeAlias = npt.NDArray[np.float32]  # by item; not a number where a model does not say how sure it is
Columns: TypeAlias = Mapping[str, Sequence[Any]]  # by model: what it says about each item, None for nothing

MOST_LABELS: Final = 100  # different ones; those that come later are never said
WINDOW: Final = 10_000  # labelled items of a fit, the newest
FIRST_FIT: Final = 100  # labels
MORE: Final = 1.3  # times as many labels: it is fitted again
MUCH_MORE: Final = 1_000  # so many more labels: the same
FINE: Final = 16  # slices of an axis
LEAST_SURE: Final = 0.01  # a model of the user's is held to be no surer than this, or one surprise would rule it out
LEAST_SURE_GROWN: Final = 0.001
ODDS_SCALE: Final = 3.0
MISSING: Final = b"\xff"  # every byte of a value that is not a number, and of no slice


class Learnt(StrEnum):
    """What a site can learn by itself: stands for a model where the models of a site are named."""

    GROWN = "grown"
    STACK = "stack"


class Seen(NamedTuple):
    """What is read off items for arms that are learnt."""

    values: Values  # [item, axis]: raw, as far as there is a raw value
    slices: Slices  # [item, axis]

    def __getitem__(self, rows: Any) -> Seen:  # type: ignore[override]  # items, not fields
        return Seen(self.values[rows], self.slices[rows])


class Opinions(NamedTuple):
    """What models say about items, and how sure they are."""

    said: dict[str, list[Any]]
    confidences: dict[str, Confidences]


class Window(NamedTuple):
    """The labelled items of a fit."""

    count: int  # labels that had come
    classes: int
    rows: Sequence[tuple[bytes, int, int]]  # values, newest label, true label


def slices_of(points: Floats) -> Slices:
    """Return the slices in which points lie."""
    fine = np.minimum(np.nan_to_num(points) * FINE, FINE - 1).astype(np.uint8)
    return np.where(np.isnan(points), np.uint8(NO_SLICE), fine)


def grow(window: Window) -> Trees:
    """Fit trees; this takes seconds, and what it is given does not change meanwhile."""
    values = _matrix([row[0] for row in window.rows], np.float32)
    newest, truths = (np.array([row[n] for row in window.rows], np.int64) for n in (1, 2))
    return fit(_with_newest(values, newest), truths, max(2, window.classes))


class LearntArms:
    """What the learnt arms of a site know.

    kinds  which of its arms these are
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = {arm: Learnt(kind) for arm, kind in kinds.items()}
        self.labels: list[Any] = []
        self.count = 0  # labels that were learnt
        self.fitted = 0  # how many of them had come when the trees in force were begun
        self.due = FIRST_FIT  # labels at which the next fit begins
        self.fitting: Window | None = None  # of the fit that has begun
        self._codes: dict[Any, int] = {}
        self._window: deque[tuple[bytes, int, int]] = deque(maxlen=WINDOW)
        self._trees: Trees | None = None
        self._unfitted: Window | None = None  # of trees in force that nobody has needed since the log was read
        self._models: dict[str, int] = {}  # places of models in the stack
        self._places = 0
        self._weights = weights_for(0, 0, 4)

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def add(self, arm: str, kind: str) -> None:
        self.kinds[arm] = Learnt(kind)

    def forget(self, arm: str) -> None:
        """Forget an arm that has left: a new one may get its name."""
        self.kinds.pop(arm, None)
        self._models.pop(arm, None)

    # What they say

    def opinions(self, arms: Iterable[str], seen: Seen, newest: Any, heard: Opinions) -> Opinions:
        """Return what learnt arms say about items, if they have learnt anything yet.

        heard  what other models say
        """
        said, confidences = dict[str, list[Any]](), dict[str, Confidences]()
        code = self._codes.get(newest, NONE)
        newest_codes = np.full(len(seen.values), code, np.int64)
        for arm in sorted(arms, key=lambda each: self.kinds[each]):  # the stack hears the grown trees
            if self.kinds[arm] is Learnt.GROWN:
                trees = self.trees()
                if trees is None:
                    continue
                chances = predict(trees, _with_newest(seen.values, newest_codes, len(trees.edges) - 1))
            elif self.labels:
                others = Opinions({**heard.said, **said}, {**heard.confidences, **confidences})
                chances = self._stacked(newest_codes, seen.slices, others)
            else:
                continue
            best = chances[:, : len(self.labels)].argmax(axis=1)
            said[arm] = [self.labels[k] for k in best.tolist()]
            confidences[arm] = chances[np.arange(len(best)), best].astype(np.float32)
        return Opinions(said, confidences)

    def trees(self) -> Trees | None:
        """Return the trees in force; after a log was read, they are fitted when they are needed."""
        if self._unfitted is not None:
            self._trees, self._unfitted = grow(self._unfitted), None
        return self._trees

    def _stacked(self, newest: Ints, slices: Slices, heard: Opinions) -> Floats:
        weights, codes = self._weights, self._codes
        answers = np.full((len(newest), self._places), NONE, np.int64)
        odds = np.full(answers.shape, np.nan)
        for model, place in self._models.items():
            if model in heard.said:
                answers[:, place] = [codes.get(label, NONE) for label in heard.said[model]]
            if model in heard.confidences:
                odds[:, place] = self._odds(model, heard.confidences[model])
        chances = np.empty((len(newest), len(self.labels)))
        stack_chances(*weights, newest, slices[:, : len(weights.axes)], answers, odds, chances)
        return chances

    def _odds(self, model: str, confidences: Confidences) -> Floats:
        """Return the log odds of answers against each of the other labels."""
        least = LEAST_SURE_GROWN if self.kinds.get(model) is Learnt.GROWN else LEAST_SURE
        sure = np.clip(confidences.astype(np.float64), least, 1.0 - least)
        others = np.maximum((1.0 - sure) / max(1, len(self.labels) - 1), least)
        odds: Floats = np.log(sure / others) / ODDS_SCALE
        return odds

    # What they learn

    @property
    def until_due(self) -> int:
        """How many labels may come before a fit begins."""
        grows = Learnt.GROWN in self.kinds.values()
        return max(1, self.due - self.count) if grows and self.fitting is None else WINDOW

    def learn(self, notes: Sequence[Note], truths: Sequence[Any]) -> None:
        """Learn true labels from what was known about their items when they were decided."""
        if not self.kinds:
            return
        self._meet_models(notes)
        start, codes = 0, self._codes
        for n, (note, truth) in enumerate(zip(notes, truths, strict=True)):
            if truth not in codes or not all(label in codes for label in note.said if label is not None):
                self._learn(notes[start:n], truths[start:n])  # with the labels that were known then
                start = n
                self._meet_labels(chain([truth], note.said))
        self._learn(notes[start:], truths[start:])
        if self.count >= self.due and self.fitting is None:
            self._begin_fit()

    def _meet_models(self, notes: Sequence[Note]) -> None:
        for models in dict.fromkeys(note.models for note in notes):
            for model in models:
                if model not in self._models and self.kinds.get(model) is not Learnt.STACK:
                    self._models[model] = self._places
                    self._places += 1

    def _meet_labels(self, labels: Iterable[Any]) -> None:
        for label in labels:
            if label is not None and label not in self._codes and len(self.labels) < MOST_LABELS:
                self._codes[label] = len(self.labels)
                self.labels.append(label)

    def _learn(self, notes: Sequence[Note], truths: Sequence[Any]) -> None:
        codes = self._codes
        both = [(note, codes[truth]) for note, truth in zip(notes, truths, strict=True) if truth in codes]
        if not both:
            return
        notes, truth_codes = [note for note, _ in both], [code for _, code in both]
        newest = [codes.get(note.newest, NONE) for note in notes]
        self.count += len(both)
        self._window.extend(zip((note.values for note in notes), newest, truth_codes, strict=True))
        if Learnt.STACK in self.kinds.values():
            self._learn_stack(notes, np.array(newest, np.int64), np.array(truth_codes, np.int64))

    def _learn_stack(self, notes: Sequence[Note], newest: Ints, truths: Ints) -> None:
        slices = _matrix([note.slices for note in notes], np.uint8)
        self._make_room(slices.shape[1])
        answers = np.full((len(notes), self._places), NONE, np.int64)
        odds = np.full(answers.shape, np.nan)
        by_models: dict[tuple[str, ...], list[int]] = {}
        for row, note in enumerate(notes):
            by_models.setdefault(note.models, []).append(row)
        for models, rows in by_models.items():
            said = [*zip(*(notes[row].said for row in rows), strict=True)]
            sure = _matrix([notes[row].confidences for row in rows], np.float32)
            for n, model in enumerate(models):
                place = self._models.get(model)
                if place is not None:
                    answers[rows, place] = [self._codes.get(label, NONE) for label in said[n]]
                    if n < sure.shape[1]:
                        odds[rows, place] = self._odds(model, sure[:, n])
        stack_learn(*self._weights, newest, slices, answers, odds, truths, np.empty(len(self.labels)))

    def _make_room(self, axes: int) -> None:
        room, weights = self._weights.labels.shape[1], self._weights
        if axes > len(weights.axes) or self._places > len(weights.models) or len(self.labels) > room:
            while room < len(self.labels):
                room *= 2
            axes, models = max(axes, len(weights.axes)), max(self._places, len(weights.models))
            self._weights = widened(weights, axes, models, room)

    # Trees

    def _begin_fit(self) -> None:
        if Learnt.GROWN in self.kinds.values():
            self.fitting = Window(self.count, len(self.labels), [*self._window])
            self.due = min(math.ceil(MORE * self.count), self.count + MUCH_MORE)

    def finish_fit(self, trees: Trees | None) -> None:
        """Put trees into force that were fitted to `fitting`; without any, they are fitted when they are needed."""
        window, self.fitting = self.fitting, None
        if window is None:
            raise ValueError("no fit has begun")
        self.fitted, self._trees = window.count, trees
        self._unfitted = window if trees is None else None
        if self.count >= self.due:
            self._begin_fit()

    # What is kept

    def facts(self) -> dict[str, Any]:
        """Return all but the arrays as plain data."""
        return {
            "kinds": {arm: kind.value for arm, kind in self.kinds.items()},
            "labels": [*self.labels],
            "counts": [self.count, self.fitted, self.due, self._places],
            "models": dict(self._models),
            "window": _packed(self._window),
            "fitting": None if self.fitting is None else [*self.fitting[:2], _packed(self.fitting.rows)],
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        trees, arrays = self.trees(), {f"stack_{name}": part for name, part in self._weights._asdict().items()}
        grown = {} if trees is None else {f"grown_{name}": part for name, part in trees._asdict().items()}
        return {name: part.copy() for name, part in {**arrays, **grown}.items()}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> LearntArms:
        """Return what was saved, or raise ValueError, KeyError or TypeError."""
        arms = cls(facts["kinds"])
        arms.labels = [*facts["labels"]]
        arms._codes = {label: code for code, label in enumerate(arms.labels)}
        arms.count, arms.fitted, arms.due, arms._places = map(int, facts["counts"])
        arms._models = {str(model): int(place) for model, place in facts["models"].items()}
        arms._window.extend(_unpacked(facts["window"], len(arms.labels)))
        if facts["fitting"] is not None:
            count, classes, rows = facts["fitting"]
            arms.fitting = Window(int(count), int(classes), _unpacked(rows, int(classes)))
        arms._weights = Weights(*(arrays[f"stack_{name}"] for name in Weights._fields))
        if "grown_nodes" in arrays:
            arms._trees = Trees(*(arrays[f"grown_{name}"] for name in Trees._fields))
        arms._check()
        return arms

    def _check(self) -> None:
        """Raise unless everything fits together: compiled code does not check its indices."""
        weights, trees, room = self._weights, self._trees, self._weights.labels.shape[1]
        axes, models = len(weights.axes), len(weights.models)
        shapes = [part.shape for part in weights]
        sound = shapes == [part.shape for part in weights_for(axes, models, room)]
        sound = sound and all(part.dtype == np.float64 for part in weights) and len(self.labels) == len(self._codes)
        sound = sound and all(0 <= place < self._places for place in self._models.values())
        sound = sound and (not self.count or len(self.labels) <= room)
        if trees is not None:
            sound = sound and trees.fits(len(self.labels))
        if not sound:
            raise ValueError("what learnt arms know does not fit together")


def _with_newest(values: Values, newest: Ints, axes: int | None = None) -> Values:
    """Return values with the newest known label as the first of them, `axes` of the others; newer ones are unknown."""
    axes = values.shape[1] if axes is None else axes
    row = np.full((len(values), 1 + axes), np.nan, np.float32)
    row[:, 0] = np.where(newest == NONE, np.nan, newest)
    common = min(axes, values.shape[1])
    row[:, 1 : 1 + common] = values[:, :common]
    return row


def _matrix(rows: Sequence[bytes], kind: type[Any]) -> npt.NDArray[Any]:
    """Return rows of numbers as a matrix; shorter ones, made when there were fewer axes, are filled up."""
    width = max(map(len, rows), default=0)
    size = np.dtype(kind).itemsize
    whole = b"".join([row.ljust(width, MISSING) for row in rows])
    return np.frombuffer(whole, kind).reshape(len(rows), width // size)


def _packed(rows: Iterable[tuple[bytes, int, int]]) -> list[list[Any]]:
    return [[b64encode(values).decode(), newest, truth] for values, newest, truth in rows]


def _unpacked(rows: Iterable[Sequence[Any]], classes: int) -> list[tuple[bytes, int, int]]:
    unpacked = [(b64decode(values), int(newest), int(truth)) for values, newest, truth in rows]
    if not all(NONE <= newest < classes and 0 <= truth < classes and not len(each) % 4 for each, newest, truth in unpacked):
        raise ValueError("it has labelled items with labels or values that do not exist")
    return unpacked
