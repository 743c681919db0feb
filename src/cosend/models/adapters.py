"""Every kind of model behind the same two verbs: `predict` for many items, `learn` from one.

    scikit-learn    anything with `predict`; items are rows of features in the order the model was fitted with
    river           anything with `predict_one`; learns online if it has `learn_one`; it gets items as mappings
    plain callable  item -> label; it gets the item as it came

Whatever kind of row an item is, models and contexts read its features by name. A label leaves here as a plain Python
value, so that labels of all models compare, travel and save alike.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from cosend.errors import ClassifierError, SettingError, in_one_line, listed, shown

PLAIN: Final = frozenset((str, int, float, bool, type(None)))  # labels that need not be looked at one by one
DICT: Final = frozenset({dict})
# Their labels are not the most probable ones: probabilities of another model, or their own threshold.
GUESS_APART: Final = ("SVC", "NuSVC", "FixedThresholdClassifier", "TunedThresholdClassifierCV")
NAMED: Final = "a mapping, a row of pandas, a named tuple, a dataclass, or a row of a NumPy array with named fields"
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


class Predicted(NamedTuple):
    """Labels of a model, how sure it is of each, and what each answer cost; NaN where it does not say.

    A classifier that knows how sure it is, or what it costs, has a method `predict_sure` that returns this, next to
    `predict`.
    """

    labels: list[Label]
    confidences: Sequence[float] | None = None
    costs: Sequence[float] | None = None


class Answer(NamedTuple):
    """An answer of a function, if it is not a bare label: the label, how sure it is, and what this answer cost.

    >>> Function(lambda item: Answer("ill", cost=0.003)).predict_sure([{"age": 31}])
    Predicted(labels=['ill'], confidences=None, costs=[0.003])
    """

    label: Label
    confidence: float | None = None  # a probability; None where it is not known
    cost: float | None = None  # in [0, 1], as costs are; None: the arm's own


FailureKind: TypeAlias = Literal["error", "label", "time", "network", "item"]


class Failure(NamedTuple):
    """The place holder for a label that an arm could not give."""

    reason: str
    kind: FailureKind = "error"  # item: it could not be sent, which says nothing about the arm
    wait_s: float = 0.0  # how long a pause the arm asks for


def named(item: Any) -> Mapping[Any, Any] | None:
    """Return the features of an item by name; None if it has no names: a plain tuple or list, a number, a table."""
    if isinstance(item, Mapping):
        return item
    if isinstance(item, type) or is_table(item):
        return None
    if isinstance(item, np.void | np.ndarray):
        return named_row(item) if item.dtype.names is not None else None
    if is_dataclass(item):
        return {each.name: getattr(item, each.name) for each in fields(item)}
    if isinstance(item, tuple):
        names = getattr(item, "_fields", None)
        return None if names is None else dict(zip(names, item, strict=True))
    if hasattr(item, "index") and hasattr(item, "to_dict"):  # a Series of pandas, with plain values
        features: Mapping[Any, Any] = item.to_dict()
        return features
    if hasattr(item, "keys") and hasattr(item, "__getitem__"):  # as `dict` takes it: a row of sqlite3, say
        return {name: item[name] for name in item.keys()}  # noqa: SIM118 - what is iterated may be the values
    return None


def named_row(row: Any) -> Mapping[str, Any]:
    """Return the fields of a row of NumPy as plain values; moments stay moments, and do not become numbers."""
    return {name: row[name] if row.dtype[name].kind in "mM" else row[name].item() for name in row.dtype.names}


def is_table(items: Any) -> bool:
    """Tell whether this is many items: a DataFrame of pandas or polars, or an array with named fields."""
    if isinstance(items, np.ndarray):
        return items.dtype.names is not None and items.ndim > 0
    return hasattr(items, "to_dicts") or (hasattr(items, "to_dict") and hasattr(items, "columns"))


def by_names(items: Sequence[Any]) -> Sequence[Any]:
    """Return items that have names as mappings, and all others as they are."""
    if DICT.issuperset(map(type, items)):
        return items
    return [item if (features := named(item)) is None else features for item in items]


def _in_order(item: Mapping[Any, Any], order: Sequence[Any]) -> list[Any]:
    """Return the values of an item by the names of the first one, or raise if its names are others."""
    if not isinstance(item, Mapping):
        raise ClassifierError(f"an item must have names for its features ({NAMED}), got {shown(item)}")
    if len(item) == len(order) and all(name in item for name in order):
        return [item[name] for name in order]
    wrong = [f"has no feature {name!r}" for name in order if name not in item]
    wrong += [f"has a feature {name!r} that the first item did not have" for name in item if name not in order]
    raise ClassifierError(f"an item {wrong[0]}; allowed are, in any order, {', '.join(map(repr, order))}")


def by_name(item: Item, names: Sequence[str]) -> list[Any]:
    """Return the values of an item by their names, or raise with the one that it has not."""
    if type(item) is not dict:
        (item,) = by_names([item])
    try:
        return [item[name] for name in names]
    except KeyError as error:
        has = f"; it has {listed(item)}" if isinstance(item, Mapping) else ""
        raise ClassifierError(f"an item has no feature {error.args[0]!r}{has}") from error
    except (TypeError, IndexError) as error:
        raise ClassifierError(f"an item must have names for its features ({NAMED}), got {shown(item)}") from error


def as_classifier(model: Any) -> Classifier:
    """Return a model as a classifier, by what it can do."""
    if isinstance(model, type) and (hasattr(model, "predict") or hasattr(model, "predict_one")):
        allowed = f"a model, not a class: perhaps {model.__name__}()"
        raise SettingError("classifier", model, allowed)
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


class Fixed:
    """A classifier that stays as it is."""

    learns = False
    all_labels: Sequence[Label] | None = None  # that it can give, if that is known
    says_free_text = False

    def learn(self, item: Item, label: Label) -> None:
        """Learn nothing."""


class SklearnModel(Fixed):
    """A model with scikit-learn's `predict`.

    A model that was fitted without the names of its features gets the names in the first mapping it labels, in their
    order: that item must have the order of the fit. Later ones are read by these names, whatever their order.
    `SeesOnly` fixes an order explicitly.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        names = getattr(model, "feature_names_in_", None)
        self.features = None if names is None else [str(name) for name in names]
        self.order: list[Any] | None = None  # of the first item, for a model that does not know its features

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item, in one call of the model."""
        labels: list[Label] = np.asarray(self._ask(self.model.predict, items)).tolist()
        return labels

    def predict_sure(self, items: Sequence[Item]) -> Predicted:
        """Return labels with their probabilities where the model has them: its label is the most probable one."""
        if hasattr(self.model, "predict_sure") and len(items):
            return Predicted(*(each.tolist() for each in self._ask(self.model.predict_sure, items)))
        classes = getattr(self.model, "classes_", None) if len(items) else None
        if guesses_apart(self.model) or classes is None or not hasattr(self.model, "predict_proba"):
            return Predicted(self.predict(items))
        chances = np.asarray(self._ask(self.model.predict_proba, items))
        if chances.ndim != 2 or chances.shape[1] != len(classes):  # of several outputs
            return Predicted(self.predict(items))
        best = chances.argmax(axis=1)
        return Predicted(np.asarray(classes)[best].tolist(), chances[np.arange(len(best)), best].tolist())

    def _ask(self, method: Callable[[Any], Any], items: Sequence[Item]) -> Any:
        if not len(items):
            return ()
        items, order = by_names(items), self.order
        if order is None and self.features is None and isinstance(items[0], Mapping):
            order = list(items[0])
        answers = method(self._table(items, order))
        self.order = order  # not before the model has taken it
        return answers

    def _table(self, items: Sequence[Item], order: list[Any] | None) -> Any:
        if not isinstance(items[0], Mapping):
            return np.asarray(items)
        if self.features is None:
            return np.array([_in_order(item, order or []) for item in items])
        rows = [by_name(item, self.features) for item in items]
        try:
            return importlib.import_module("pandas").DataFrame(rows, columns=self.features)
        except ImportError:  # scikit-learn takes an array too, and says that it misses the names
            return np.array(rows)


def guesses_apart(model: Any) -> bool:
    """Tell whether the label of a model, or of the one in a pipeline or search, is not the most probable one."""
    inner = getattr(model, "best_estimator_", None)
    steps = getattr(model, "steps", None)
    if inner is None and steps:
        inner = steps[-1][1]
    return type(model).__name__ in GUESS_APART if inner is None else guesses_apart(inner)


class RiverModel:
    """A model with river's `predict_one`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.learns = hasattr(model, "learn_one")

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item; None while the model has seen nothing."""
        return [plain(self.model.predict_one(item)) for item in by_names(items)]

    def predict_sure(self, items: Sequence[Item]) -> Predicted:
        """Return labels with their probabilities where the model has them."""
        ask = getattr(self.model, "predict_proba_one", None)
        if ask is None:
            return Predicted(self.predict(items))
        try:
            chances = [ask(item) for item in by_names(items)]
        except NotImplementedError:  # river's classifiers all have the method, whether it works or not
            return Predicted(self.predict(items))
        best = [max(each.items(), key=itemgetter(1)) if each else (None, math.nan) for each in chances]
        return Predicted([plain(label) for label, _ in best], [float(chance) for _, chance in best])

    def learn(self, item: Item, label: Label) -> None:
        """Learn online."""
        self.model.learn_one(*by_names([item]), label)


class Function(Fixed):
    """A plain function from an item to a label, or to (label, confidence) with a float in [0, 1] for its confidence.

    NaN is a confidence that it does not know; a tuple with any other number is a label. An `Answer` may also say what
    it cost.
    """

    def __init__(self, function: Callable[[Item], Label]) -> None:
        self.function = function

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item."""
        return self.predict_sure(items).labels

    def predict_sure(self, items: Sequence[Item]) -> Predicted:
        """Return a label for every item, and the confidences that the function gives."""
        labels = [*map(self.function, items)]
        if PLAIN.issuperset(map(type, labels)):
            return Predicted(labels)
        answers = [*map(parts_of, labels)]
        confidences, costs = ([math.nan if each[n] is None else each[n] for each in answers] for n in (1, 2))
        return Predicted([plain(each.label) for each in answers], known(confidences), known(costs))


def parts_of(label: Any) -> Answer:
    """Return what a function has returned, by its parts."""
    if isinstance(label, Answer):
        return label
    return Answer(*label) if is_sure(label) else Answer(label)


def known(numbers: Sequence[Any]) -> Sequence[Any] | None:
    """Return numbers if any of them is known."""
    return numbers if any(each == each for each in numbers) else None


def is_sure(label: Any) -> bool:
    """Tell whether this is (label, confidence)."""
    if type(label) is not tuple or len(label) != 2 or not isinstance(label[1], float | np.floating):
        return False
    return bool(0.0 <= label[1] <= 1.0 or math.isnan(label[1]))


class Returns(Fixed):
    """An arm that only names a choice: its answer is that name, whatever the item."""

    def __init__(self, name: str) -> None:
        self.name = name

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return the name for every item."""
        return [self.name] * len(items)


class RunsElsewhere(Fixed):
    """The place of a model that this process does not load, because workers run it."""

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Raise: this model is not here."""
        raise ClassifierError("its model is not in this process: workers run it")


class SeesPart(ABC):
    """A model that sees a part of the features; what it sees is for the kinds of it to say."""

    def __init__(self, model: Any) -> None:
        self.classifier = as_classifier(model)
        self.learns = self.classifier.learns

    def predict(self, items: Sequence[Item]) -> list[Label]:
        """Return a label for every item, from the features that the model may see."""
        return self.classifier.predict([self._view(item) for item in items])

    def predict_sure(self, items: Sequence[Item]) -> Predicted:
        """Return labels with confidences, from the features that the model may see."""
        return predicted_by(self.classifier, [self._view(item) for item in items])

    def learn(self, item: Item, label: Label) -> None:
        """Learn from the features that the model may see."""
        self.classifier.learn(self._view(item), label)

    @abstractmethod
    def _view(self, item: Item) -> Item:
        """Return what the model may see of an item."""


class SeesOnly(SeesPart):
    """A model that sees only some of the features, in the order they are named: vertically distributed data.

    >>> SeesOnly(lambda item: sorted(item), ["age"]).predict([{"age": 31, "pressure": 140}])
    [['age']]
    """

    def __init__(self, model: Any, features: Sequence[str]) -> None:
        check_names("the features that a model sees", features)
        super().__init__(model)
        self.features = list(features)

    def _view(self, item: Item) -> Item:
        return dict(zip(self.features, by_name(item, self.features), strict=True))


class SeesAllBut(SeesPart):
    """A model that does not see some of the features: context columns that are nothing to classify by."""

    def __init__(self, model: Any, hidden: Sequence[str]) -> None:
        check_names("the features that a model does not see", hidden)
        super().__init__(model)
        self.hidden = frozenset(hidden)

    def _view(self, item: Item) -> Item:
        features = named(item)
        if features is None:
            raise ClassifierError(f"an item must have names for its features ({NAMED}), got {shown(item)}")
        return {name: value for name, value in features.items() if name not in self.hidden}


def check_names(setting: str, names: object) -> None:
    """Raise unless this is a list of names; text is one too for Python, letter by letter."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise SettingError(setting, names, "a list of names")


def known_labels(classifier: Classifier) -> frozenset[Label] | None:
    """Return all labels that a classifier can give, or None if that is not known: a fitted one knows its classes."""
    if isinstance(classifier, SeesPart):
        return known_labels(classifier.classifier)
    if isinstance(classifier, Fixed) and classifier.all_labels is not None:
        return frozenset(classifier.all_labels)
    classes = getattr(classifier.model, "classes_", None) if isinstance(classifier, SklearnModel) else None
    try:
        return None if classes is None else frozenset(np.asarray(classes).tolist())
    except TypeError:  # several outputs, each with its own classes
        return None


def all_known_labels(classifiers: Iterable[Classifier]) -> frozenset[Label] | None:
    """Return all labels that classifiers can give, or None if they are not known for one of them, or there is none."""
    found = [*map(known_labels, classifiers)]
    known = [labels for labels in found if labels is not None]
    return frozenset().union(*known) if found and len(known) == len(found) else None


def all_say_free_text(classifiers: Iterable[Classifier]) -> bool:
    """Tell whether all classifiers, at least one, are known to answer with free text."""
    found = [isinstance(each, Fixed) and each.says_free_text for each in classifiers]
    return bool(found) and all(found)


def plain(label: Label) -> Label:
    """Return a NumPy scalar as the Python value it stands for, anything else as it is."""
    return label.item() if isinstance(label, np.generic) else label


def predicted_by(classifier: Classifier, items: Sequence[Item]) -> Predicted:
    """Return what a classifier says about items, with its confidences if it has any."""
    sure = getattr(classifier, "predict_sure", None)
    if sure is None:
        return Predicted(classifier.predict(items))
    predicted: Predicted = sure(items)
    return predicted


def predictions(name: str, classifier: Classifier, items: Sequence[Item]) -> Predicted:
    """Return the answers of a classifier; whatever goes wrong in it is a `ClassifierError` with its name."""
    try:
        predicted = predicted_by(classifier, items)
    except ClassifierError as error:
        raise ClassifierError(f"classifier {name!r} failed: {error}") from error
    except Exception as error:  # a user's model may raise anything
        raise ClassifierError(f"classifier {name!r} failed: {in_one_line(error)}") from error
    if not isinstance(predicted, Predicted):
        raise ClassifierError(f"predict_sure of classifier {name!r} must give a Predicted, gave {shown(predicted)}")
    if not isinstance(predicted.labels, list):
        raise ClassifierError(f"classifier {name!r} must give a list of labels, gave {shown(predicted.labels)}")
    if len(predicted.labels) != len(items):
        raise ClassifierError(f"classifier {name!r} gave {len(predicted.labels)} labels for {len(items)} items")
    sure = predicted.confidences
    if sure is not None and not (
        len(sure) == len(items) and all(isinstance(each, float | np.floating) for each in sure)
    ):
        allowed = "a list of floats, one for each item"
        raise ClassifierError(f"the confidences of classifier {name!r} must be {allowed}, got {shown(sure)}")
    costs = predicted.costs
    if costs is not None and not (len(costs) == len(items) and all(map(is_cost, costs))):
        allowed = "a list of numbers in [0, 1], one for each item, NaN where one is not known"
        raise ClassifierError(f"the costs of classifier {name!r} must be {allowed}, got {shown(costs)}")
    return predicted


class SaysWhatFails(Fixed, ABC):
    """A model that knows for each item why it has no label."""

    @abstractmethod
    def answers(self, items: Sequence[Item]) -> Predicted:
        """Ask about items and wait; a failure takes the place of a label."""


def answers_of(name: str, classifier: Classifier, items: Sequence[Item]) -> Predicted:
    """Return what a model says about items; if it fails on all of them together, each is asked separately."""
    if isinstance(classifier, SaysWhatFails):
        return classifier.answers(items)
    try:
        return predictions(name, classifier, items)
    except ClassifierError as error:
        if len(items) == 1:
            return Predicted([Failure(str(error))])
        answers, confidences, costs = list[Any](), list[float](), list[float]()
        for item in items:
            (answer,), sure, paid = answers_of(name, classifier, [item])
            answers.append(answer)
            confidences.append(math.nan if sure is None else sure[0])
            costs.append(math.nan if paid is None else paid[0])
        return Predicted(answers, confidences, known(costs))


def is_cost(cost: Any) -> bool:
    """Tell whether this may be what an answer cost: a number in [0, 1], or NaN if that is not known."""
    if isinstance(cost, bool) or not isinstance(cost, int | float | np.integer | np.floating):
        return False
    return bool(0.0 <= cost <= 1.0 or math.isnan(cost))


def teach(name: str, classifier: Classifier, item: Item, label: Label) -> None:
    """Let a classifier learn; whatever goes wrong in it is a `ClassifierError` with its name."""
    try:
        classifier.learn(item, label)
    except Exception as error:  # a user's model may raise anything
        raise ClassifierError(f"classifier {name!r} failed to learn: {in_one_line(error)}") from error
