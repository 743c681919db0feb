"""The arms that a site learns from its own labels: free local models that no user has to bring.

    grown   trees that are fitted to the newest labelled items, and refitted as labels arrive
    stack   a softmax regression over what all models say, which every label moves

Both see the features of an item and the newest label that was known; the stack also hears what the other free models
say and how sure they are, the grown trees among them. Their opinions are like all others: known before
the choice, part of the event, scored by the label. So a log is folded without asking them again; what they have learnt
follows from the labels, bit for bit, and so do trees from the labels that a fit began with.

Late labels must not hide the first trees: they would not be used before labels of items have come on which they had an
opinion. So until then they are scored by what they say when a label arrives, before they learn from it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from cosend.algorithm.boosting import Trees, Values, fit, predict
from cosend.algorithm.layout import Floats, Ints
from cosend.algorithm.policies import Policy, how_to_decide
from cosend.algorithm.stack import (
    NO_SLICE,
    NONE,
    SPEAKS_FOR,
    Slices,
    Weights,
    log_odds,
    stack_chances,
    stack_learn,
    weights_for,
    widened,
)
from cosend.algorithm.values import ScoreLocal
from cosend.checks import check_kind
from cosend.errors import ArmError

Sure: TypeAlias = npt.NDArray[np.float32]  # by item: how sure a model is, not a number where it does not say

MOST_LABELS: Final = 100  # different ones; those that come later are never said
WINDOW: Final = 10_000  # labelled items of a fit, the newest
FIRST_FIT: Final = 100  # labels
MORE: Final = 1.3  # times as many labels: it is refitted
MUCH_MORE: Final = 1_000  # more labels: the same
FINE: Final = 16  # slices of an axis
LEAST_SURE: Final = 0.01  # a model of the user's is held to be no surer than this, or one surprise would rule it out
LEAST_SURE_GROWN: Final = 0.001
MISSING: Final = b"\xff"  # every byte of a value that is not a number, and of no slice
WIDTH: Final = 5  # bytes of an axis: a value of four, and a slice
SLICES: Final = bytes([*range(FINE), NO_SLICE])


class Learnt(StrEnum):
    """A model that a site learns from its own labels; among the classifiers of a site it gives that model a name.

    GROWN  small or large trees over the features and the newest label, fitted to the newest 10,000 labelled items: at
           100 labels, and again whenever it has 1.3 times as many, or 1,000 more
    STACK  a softmax regression over the opinions of the free models, how sure they are, the features and the newest
           label; every label moves it. Before the first label or score, the free models vote

    Both tell apart the first 100 labels that a site has seen.

    >>> from cosend import Learnt, Site
    >>> Site("edge", classifiers={"always": lambda item: 1, "mine": Learnt.STACK}, learnt=False).learnt()["mine"].kind
    'stack'
    """

    GROWN = "grown"
    STACK = "stack"


def learnt_arms(
    site: str,
    classifiers: Mapping[str, Any],
    learnt: bool | None,
    policy: Policy | None,
    score_local: ScoreLocal | None,
) -> dict[str, str]:
    """Return the arms that a site learns itself: those among its classifiers, and others unless it shall not."""
    if learnt is not None:
        check_kind("learnt", learnt, bool, "True, False or None")
    named = {name: model.value for name, model in classifiers.items() if isinstance(model, Learnt)}
    wanted = how_to_decide(policy, score_local)[1] == "all" if learnt is None else learnt
    more = [kind.value for kind in Learnt if wanted and kind.value not in named.values()]
    for name in more:
        if name in classifiers:
            sentence = f"site {site!r} has a model {name!r}, which is the name of one that it learns itself"
            raise ArmError(f"{sentence}: give it another name, or set learnt=False")
    return {**named, **{name: name for name in more}}


class Seen(NamedTuple):
    """Items as learnt arms see them: the numbers that their axes have read, and their slices."""

    values: Values  # [item, axis]
    slices: Slices  # [item, axis]

    def packed(self) -> list[bytes]:
        """Return it as bytes, item by item: the values of all axes, then their slices."""
        count, axes = self.values.shape
        both = np.hstack([np.ascontiguousarray(self.values).view(np.uint8).reshape(count, 4 * axes), self.slices])
        whole, width = both.tobytes(), WIDTH * axes
        return [whole[start : start + width] for start in range(0, count * width, width)] if axes else [b""] * count

    @classmethod
    def unpacked(cls, rows: Sequence[bytes]) -> Seen:
        """Return what was packed; an item from before an axis was created has no value there."""
        lengths = {*map(len, rows)}
        axes = max(lengths, default=0) // WIDTH
        if len(lengths) > 1:
            rows = [_widened(row, axes) for row in rows]
        both = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), WIDTH * axes)
        values = np.ascontiguousarray(both[:, : 4 * axes]).view(np.float32).reshape(len(rows), axes)
        return cls(values, both[:, 4 * axes :].copy())  # compiled code would be compiled again for what is read-only


def _widened(row: bytes, axes: int) -> bytes:
    had = len(row) // WIDTH
    return row[: 4 * had].ljust(4 * axes, MISSING) + row[4 * had :].ljust(axes, MISSING)


def seen_at(values: Floats, points: Floats, categories: Sequence[int]) -> Seen:
    """Return what learnt arms see of items with these values and points."""
    known, of_category = np.nan_to_num(points), [*categories]
    fine = known * FINE
    fine[:, of_category] = known[:, of_category]
    slices = np.where(np.isnan(points), NO_SLICE, np.minimum(fine, FINE - 1)).astype(np.uint8)
    with np.errstate(over="ignore"):  # a number that is too large for 32 bits is infinite
        return Seen(values.astype(np.float32), slices)


def is_seen(row: bytes) -> bool:
    """Tell whether this is an item as learnt arms see it: compiled code does not look."""
    return not len(row) % WIDTH and not row[4 * (len(row) // WIDTH) :].translate(None, SLICES)


class Opinions(NamedTuple):
    """Opinions of models about items, and how sure they are."""

    said: Mapping[str, Sequence[Any]]  # None where a model says nothing
    sure: Mapping[str, Sure]


class Known(Protocol):
    """The knowledge about an item when it was decided."""

    @property
    def models(self) -> tuple[str, ...]: ...  # whose opinions were heard
    @property
    def said(self) -> tuple[Any, ...]: ...  # what they said, None for nothing
    @property
    def newest(self) -> Any: ...  # the newest true label
    @property
    def sure(self) -> bytes: ...  # how sure the first of the models were
    @property
    def seen(self) -> bytes: ...  # the item as learnt arms see it


class _Tried(NamedTuple):
    models: tuple[str, ...]
    said: tuple[Any, ...]
    newest: Any
    sure: bytes
    seen: bytes


class Window(NamedTuple):
    """The labelled items of a fit."""

    labels: int  # that had come
    classes: int
    rows: Sequence[tuple[bytes, int, int]]  # what was seen, newest label, true label


def grow(window: Window) -> Trees:
    """Fit trees; this takes seconds, and the arguments do not change meanwhile."""
    seen, newest, truths = zip(*window.rows, strict=True)
    values = _with_newest(Seen.unpacked(seen).values, np.array(newest, np.int64))
    return fit(values, np.array(truths, np.int64), max(2, window.classes))


def warm_up() -> None:
    """Have everything compiled and loaded that learnt arms need."""
    arms = LearntArms({kind.value: kind.value for kind in Learnt})
    seen = Seen(np.zeros((1, 1), np.float32), np.zeros((1, 1), np.uint8))
    note = _Tried(("a model",), ("any",), "any", b"", seen.packed()[0])
    arms.learn([note] * FIRST_FIT, ["any", "other"] * (FIRST_FIT // 2))
    arms.opinions(arms.kinds, seen, "any", Opinions({"a model": ["any"]}, {}))


class LearntArms:
    """The knowledge of the learnt arms of a site.

    kinds    by name of the arm: its kind
    at_once  trees are in force with the label that made a fit due; else when the driver has fitted them
    """

    def __init__(self, kinds: Mapping[str, str], *, at_once: bool = True) -> None:
        self.kinds = {arm: Learnt(kind) for arm, kind in kinds.items()}
        self.at_once = at_once
        self.untold = True  # no label and no score has come, so nothing is known about any model
        self.labels: list[Any] = []
        self.count = 0  # labels that were learnt
        self.fitted = 0  # how many of them had come when the trees in force were begun
        self.due = FIRST_FIT  # labels at which the next fit begins
        self.fitting: Window | None = None  # of the fit that has begun
        self._codes: dict[Any, int] = {}
        self._window: deque[tuple[bytes, int, int]] = deque(maxlen=WINDOW)
        self._trees: Trees | None = None
        self._unfitted: Window | None = None  # of trees in force that were not needed yet
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

    # Opinions

    def can_say(self, arm: str) -> bool:
        """Tell whether an arm has learnt anything yet."""
        if self.kinds[arm] is Learnt.GROWN:
            return self._has_trees
        return bool(self.labels)

    def opinions(self, arms: Iterable[str], seen: Seen, newest: Any, heard: Opinions) -> Opinions:
        """Return what learnt arms say about items, if they have learnt anything yet; else a stack lets models vote.

        It does so only as long as no score has come: then more is known about the models than their votes tell.

        heard  what other models say
        """
        said, sure = dict[str, Sequence[Any]](), dict[str, Sure]()
        newest_codes = np.full(len(seen.values), self._code(newest), np.int64)
        for arm in sorted(arms, key=lambda each: self.kinds[each]):  # the stack hears the grown trees
            if self.kinds[arm] is Learnt.GROWN:
                trees = self.trees()
                if trees is None:
                    continue
                chances = predict(trees, _with_newest(seen.values, newest_codes, len(trees.edges) - 1))
            elif self.labels:
                others = Opinions({**heard.said, **said}, {**heard.sure, **sure})
                chances = self._stacked(newest_codes, seen.slices, others)
            else:
                if self.untold:
                    said[arm] = voted(len(seen.values), heard)
                continue
            best = chances[:, : len(self.labels)].argmax(axis=1)
            said[arm] = [self.labels[k] for k in best.tolist()]
            sure[arm] = chances[np.arange(len(best)), best].astype(np.float32)
        return Opinions(said, sure)

    def belated(self, notes: Sequence[Known]) -> dict[str, list[Any]]:
        """Return what trees say now about items on which they had no opinion, None about the others."""
        lacking = self._without_opinion(notes)
        trees, found = self.trees() if lacking else None, dict[str, list[Any]]()
        if trees is None:
            return found
        for arm, rows in lacking:
            newest = np.array([self._code(notes[row].newest) for row in rows], np.int64)
            values = Seen.unpacked([notes[row].seen for row in rows]).values
            best = predict(trees, _with_newest(values, newest, len(trees.edges) - 1))[:, : len(self.labels)].argmax(1)
            column = found[arm] = [None] * len(notes)
            for row, code in zip(rows, best.tolist(), strict=True):
                column[row] = self.labels[code]
        return found

    def _without_opinion(self, notes: Sequence[Known]) -> list[tuple[str, list[int]]]:
        """Return the grown arms with the items on which they had no opinion, where there are any."""
        found = list[tuple[str, list[int]]]()
        for arm, kind in self.kinds.items():
            rows = [row for row, note in enumerate(notes) if _lacks(note, arm)] if kind is Learnt.GROWN else []
            if rows:
                found.append((arm, rows))
        return found

    def end_of_run(self, notes: Sequence[Known], start: int) -> int:
        """Return the end of the labels from `start` on that can be learnt at once.

        After a fit, trees have another opinion on items on which they had none.
        """
        end, grown = start + self._until_due, [arm for arm, kind in self.kinds.items() if kind is Learnt.GROWN]
        if not self.at_once or end >= len(notes):
            return len(notes)
        return end if any(_lacks(notes[n], arm) for n in range(end, len(notes)) for arm in grown) else len(notes)

    @property
    def _has_trees(self) -> bool:
        return self._trees is not None or self._unfitted is not None

    def trees(self) -> Trees | None:
        """Return the trees in force, which are fitted now if the driver has not fitted them."""
        if self._unfitted is not None:
            self._trees, self._unfitted = grow(self._unfitted), None
        return self._trees

    def _code(self, label: Any) -> int:
        try:
            return self._codes.get(label, NONE)
        except TypeError:  # one that cannot be hashed
            return NONE

    def _stacked(self, newest: Ints, slices: Slices, heard: Opinions) -> Floats:
        weights = self._weights
        answers = np.full((len(newest), self._places), NONE, np.int64)
        odds = np.full(answers.shape, np.nan)
        for model, place in self._models.items():
            if model in heard.said:
                answers[:, place] = [*map(self._code, heard.said[model])]
            if model in heard.sure:
                odds[:, place] = self._odds(model, heard.sure[model])
        chances = np.empty((len(newest), len(self.labels)))
        known = np.ascontiguousarray(slices[:, : len(weights.axes)])
        stack_chances(*weights, newest, known, answers, odds, chances)
        return chances

    def _odds(self, model: str, sure: Sure) -> Floats:
        """Return the log odds of answers against each of the other labels."""
        least = LEAST_SURE_GROWN if self.kinds.get(model) is Learnt.GROWN else LEAST_SURE
        odds = np.empty(len(sure))
        log_odds(sure.astype(np.float64), least, max(1, len(self.labels) - 1), odds)
        return odds

    # Learning

    def learn(self, notes: Sequence[Known], truths: Sequence[Any]) -> None:
        """Learn true labels from what was known about their items when they were decided."""
        if not self.kinds:
            return
        self._meet_models(notes)
        start, codes = 0, self._codes
        for n, (note, truth) in enumerate(zip(notes, truths, strict=True)):
            if self._code(truth) == NONE or not all(label in codes for label in note.said if label is not None):
                self._learn(notes[start:n], truths[start:n])  # with the labels that were known then
                start = n
                self._meet_labels(chain([truth], note.said))
        self._learn(notes[start:], truths[start:])

    def _meet_models(self, notes: Sequence[Known]) -> None:
        for models in dict.fromkeys(note.models for note in notes):
            for model in models:
                if model not in self._models and self.kinds.get(model) is not Learnt.STACK:
                    self._models[model] = self._places
                    self._places += 1
        self._make_room(len(self._weights.axes))

    def _meet_labels(self, labels: Iterable[Any]) -> None:
        for label in labels:
            if (
                self._code(label) == NONE
                and is_hashable(label)
                and label is not None
                and len(self.labels) < MOST_LABELS
            ):
                self._codes[label] = len(self.labels)
                self.labels.append(label)
        self._make_room(len(self._weights.axes))

    def _learn(self, notes: Sequence[Known], truths: Sequence[Any]) -> None:
        coded = zip(notes, map(self._code, truths), strict=True)
        known = [(note, code) for note, code in coded if code != NONE]
        while known:
            some, known = known[: self._until_due], known[self._until_due :]
            self._learn_some([note for note, _ in some], [code for _, code in some])

    @property
    def _until_due(self) -> int:
        """How many labels may come before a fit begins."""
        grows = Learnt.GROWN in self.kinds.values()
        return max(1, self.due - self.count) if grows and self.fitting is None else WINDOW

    def _learn_some(self, notes: Sequence[Known], truths: Sequence[int]) -> None:
        newest = [self._code(note.newest) for note in notes]
        self.count += len(notes)
        self._window.extend(zip((note.seen for note in notes), newest, truths, strict=True))
        if Learnt.STACK in self.kinds.values():
            self._learn_stack(notes, np.array(newest, np.int64), np.array(truths, np.int64))
        if self.count >= self.due and self.fitting is None:
            self._begin_fit()

    def _learn_stack(self, notes: Sequence[Known], newest: Ints, truths: Ints) -> None:
        slices = Seen.unpacked([note.seen for note in notes]).slices
        self._make_room(slices.shape[1])
        answers = np.full((len(notes), self._places), NONE, np.int64)
        odds = np.full(answers.shape, np.nan)
        by_models: dict[tuple[str, ...], list[int]] = {}
        for row, note in enumerate(notes):
            by_models.setdefault(note.models, []).append(row)
        for models, rows in by_models.items():
            said = [*zip(*(notes[row].said for row in rows), strict=True)]
            sure = _sure_of([notes[row] for row in rows], len(models))
            for n, model in enumerate(models):
                place = self._models.get(model)
                if place is not None:
                    answers[rows, place] = [*map(self._code, said[n])]
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
            if self.at_once:
                self.finish_fit(None)

    def finish_fit(self, trees: Trees | None) -> None:
        """Put trees into force that were fitted to `fitting`; without any, they are fitted when they are needed."""
        window, self.fitting = self.fitting, None
        if window is None:
            raise ValueError("no fit has begun")
        self.fitted, self._trees = window.labels, trees
        self._unfitted = window if trees is None else None
        if self.count >= self.due:
            self._begin_fit()

    # Saved data

    def facts(self) -> dict[str, Any]:
        """Return all but the arrays as plain data."""
        return {
            "kinds": {arm: kind.value for arm, kind in self.kinds.items()},
            "at_once": self.at_once,
            "untold": self.untold,
            "labels": [*self.labels],
            "counts": [self.count, self.fitted, self.due, self._places],
            "models": dict(self._models),
            "fitting": None if self.fitting is None else [*self.fitting[:2]],
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return copies of the arrays, by name."""
        trees = self.trees()
        arrays = {f"learnt_stack_{name}": part.copy() for name, part in self._weights._asdict().items()}
        arrays |= _packed("learnt_window", self._window)
        if self.fitting is not None:
            arrays |= _packed("learnt_fitting", self.fitting.rows)
        return arrays if trees is None else {**arrays, **{f"learnt_grown_{n}": p for n, p in trees._asdict().items()}}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> LearntArms:
        """Return what was saved, or raise ValueError, KeyError or TypeError."""
        arms = cls(facts["kinds"], at_once=bool(facts["at_once"]))
        arms.untold, arms.labels = bool(facts["untold"]), [*facts["labels"]]
        arms._codes = {label: code for code, label in enumerate(arms.labels)}
        arms.count, arms.fitted, arms.due, arms._places = map(int, facts["counts"])
        arms._models = {str(model): int(place) for model, place in facts["models"].items()}
        arms._window.extend(_unpacked("learnt_window", arrays, len(arms.labels)))
        if facts["fitting"] is not None:
            count, classes = map(int, facts["fitting"])
            if not 0 < classes <= len(arms.labels):
                raise ValueError("it has a fit of labels that do not exist")
            arms.fitting = Window(count, classes, _unpacked("learnt_fitting", arrays, classes))
        arms._weights = Weights(*(arrays[f"learnt_stack_{name}"] for name in Weights._fields))
        if "learnt_grown_nodes" in arrays:
            arms._trees = Trees(*(arrays[f"learnt_grown_{name}"] for name in Trees._fields))
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
        sound = sound and len(self.labels) <= room and 0 <= self._places <= models
        sound = sound and (self.fitting is None or bool(self.fitting.rows))
        if trees is not None:
            sound = sound and trees.is_sound and len(trees.first) <= max(2, len(self.labels))
        if not sound:
            raise ValueError("what learnt arms know does not fit together")


def voted(count: int, heard: Opinions) -> list[Any]:
    """Return what models say together before any label is known: each speaks for its label as in a new stack."""
    found: list[Any] = []
    for row in range(count):
        answers = {model: column[row] for model, column in heard.said.items() if is_hashable(column[row])}
        scores = dict.fromkeys((label for label in answers.values() if label is not None), 0.0)
        for model, label in answers.items():
            if label is not None:
                sure = float(heard.sure[model][row]) if model in heard.sure else math.nan
                scores[label] += SPEAKS_FOR * (1.0 + (0.0 if math.isnan(sure) else odds_of(sure, len(scores))))
        found.append(max(scores, key=lambda label: scores[label]) if scores else None)
    return found


def odds_of(sure: float, labels: int) -> float:
    """Return the log odds of an answer against each of the other labels, as a stack hears it."""
    odds = np.empty(1)
    log_odds(np.array([sure]), LEAST_SURE, max(1, labels - 1), odds)
    return float(odds[0])


def is_hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _lacks(note: Known, arm: str) -> bool:
    """Tell whether an arm had no opinion on an item."""
    return arm not in note.models or note.said[note.models.index(arm)] is None


def _with_newest(values: Values, newest: Ints, axes: int | None = None) -> Values:
    """Return values with the newest known label as the first of them, `axes` of the others; newer ones are unknown."""
    axes = values.shape[1] if axes is None else axes
    row = np.full((len(values), 1 + axes), np.nan, np.float32)
    row[:, 0] = np.where(newest == NONE, np.nan, newest)
    common = min(axes, values.shape[1])
    row[:, 1 : 1 + common] = values[:, :common]
    return row


def _sure_of(notes: Sequence[Known], models: int) -> npt.NDArray[np.float32]:
    """Return [note, model]: how sure each model was; opinions that came late do not say."""
    whole = b"".join([note.sure.ljust(4 * models, MISSING) for note in notes])
    return np.frombuffer(whole, np.float32).reshape(len(notes), models)


def _packed(name: str, rows: Collection[tuple[bytes, int, int]]) -> dict[str, npt.NDArray[Any]]:
    """Return labelled items as arrays: what was seen, and [row] (length of that, newest label, true label)."""
    numbers = np.array([(len(seen), newest, truth) for seen, newest, truth in rows], np.int64).reshape(len(rows), 3)
    seen = np.frombuffer(b"".join([row[0] for row in rows]), np.uint8)
    return {f"{name}_seen": seen, f"{name}_rows": numbers}


def _unpacked(name: str, arrays: Mapping[str, npt.NDArray[Any]], classes: int) -> list[tuple[bytes, int, int]]:
    seen, rows = arrays[f"{name}_seen"].tobytes(), arrays[f"{name}_rows"].tolist()
    ends = [*accumulate(length for length, _, _ in rows)]
    sound = all(length >= 0 and not length % WIDTH for length, _, _ in rows) and (ends or [0])[-1] == len(seen)
    if not sound or not all(NONE <= newest < classes and 0 <= truth < classes for _, newest, truth in rows):
        raise ValueError("it has labelled items with labels or values that do not exist")
    return [(seen[end - row[0] : end], row[1], row[2]) for end, row in zip(ends, rows, strict=True)]
