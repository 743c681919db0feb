"""What predictions gain once the true label is known, and whether a true label can be right at all."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Number
from types import NoneType
from typing import Any, Final, TypeAlias

from cosend.checks import check_unit, is_missing
from cosend.engine.needs import Failure
from cosend.errors import LabelError, LabelWarning, RewardError, levels_to_the_user, shown

Reward: TypeAlias = Callable[[Any, Any], float]  # (label, truth) -> gain in [0, 1]
Where: TypeAlias = Callable[[int], str]  # by place among the labels: which one it is, for error messages
NO_GAIN: Final = math.nan  # of a model that has no opinion, or a decision without an answer


def right_or_wrong(label: Any, truth: Any) -> float:
    return 1.0 if label == truth else 0.0


def gain_of(reward: Reward, label: Any, truth: Any, where: str) -> float:
    """Return what a prediction gains, or raise with the decision that it belongs to."""
    try:
        gain = reward(label, truth)
    except (Exception, SystemExit) as error:  # a user's function may raise anything, and so may a comparison of arrays
        raise RewardError("gain", error, where) from error
    check_unit("gain", gain, where)
    return float(gain)


def gains_of(reward: Reward, labels: Sequence[Any], truths: Sequence[Any], where: Where) -> list[float]:
    """Return what predictions gain; not a number where there was no answer. A bad reward raises with its decision."""
    if reward is right_or_wrong:
        with suppress(Exception):  # labels of the user's that cannot be compared: find out below which
            return _right_or_wrong(labels, truths)
    both = zip(labels, truths, strict=True)
    return [
        NO_GAIN if label is None else gain_of(reward, label, truth, where(n)) for n, (label, truth) in enumerate(both)
    ]


def _right_or_wrong(labels: Sequence[Any], truths: Sequence[Any]) -> list[float]:
    both = zip(labels, truths, strict=True)
    return [NO_GAIN if label is None else 1.0 if label == truth else 0.0 for label, truth in both]


def scores_of(
    reward: Reward, opinions: Mapping[str, Sequence[Any]], truths: Sequence[Any], where: Where
) -> dict[str, list[float]]:
    """Return what the opinions of local models gain, by model."""
    if reward is right_or_wrong:
        with suppress(Exception):  # as above
            return {model: _right_or_wrong(column, truths) for model, column in opinions.items()}

    def named(model: str) -> Where:
        return lambda place: f"{model!r}, {where(place)}"

    return {model: gains_of(reward, column, truths, named(model)) for model, column in opinions.items()}


# What is a label at all, and whether a true label is one that some arm could have given

LABELS: Final = "a label is anything that can be hashed: text, a number, a tuple, an Enum"


def as_answer(arm: str, answer: Any) -> Any:
    """Return what an arm has said: a label, None if it has no answer, or a failure."""
    if isinstance(answer, Failure):
        return answer
    if is_missing(answer):
        return None
    try:
        hash(answer)
    except Exception:  # of a list, or whatever an object of the user's raises
        return Failure(f"{arm!r} returned {shown(answer)}; {LABELS}", "label")
    return answer


def kind_of(kind: type) -> str:
    """Return in a word what kind of label a type is; 1, 1.0 and True are of one kind, and so are equal labels."""
    if issubclass(kind, str):
        return "text"
    return "a number" if issubclass(kind, Number) else f"a {kind.__name__}"


NO_LABEL: Final = kind_of(NoneType)


class LabelKinds:
    """The kinds of labels that arms have given."""

    def __init__(self, kinds: Iterable[str] = ()) -> None:
        self.kinds = set(kinds)  # in words
        self.types: set[type] = set()  # some of theirs: these need no second look

    def remember(self, labels: Sequence[Any]) -> None:
        if not self.types.issuperset(map(type, labels)):
            self.types.update(map(type, labels))
            self.kinds.update(map(kind_of, self.types))


class LabelCheck:
    """Compares true labels with those that arms can give: if none can, every item would silently count as wrong.

    strict  refuse a suspicious label; else warn once
    """

    def __init__(self, site: str, *, strict: bool) -> None:
        self.site, self.strict = site, strict
        self._warned = False

    def check(self, truths: Sequence[Any], known: frozenset[Any] | None, given: LabelKinds) -> None:
        """Warn or raise if a true label is of a kind that no arm has given, or not one that arms can give."""
        if self._warned and not self.strict:
            return
        for truth in () if known is None and given.types.issuperset(map(type, truths)) else truths:
            wrong = _wrong(truth, known, given.kinds)
            if wrong is not None:
                self._complain(truth, wrong)

    def _complain(self, truth: Any, wrong: str) -> None:
        sentence = f"no arm of site {self.site!r} could have given the true label {shown(truth)}: {wrong}"
        if self.strict:
            raise LabelError(sentence)
        self._warned = True
        warnings.warn(f"{sentence}; every such item counts as wrong", LabelWarning, stacklevel=levels_to_the_user())


def _wrong(truth: Any, known: frozenset[Any] | None, kinds: Collection[str]) -> str | None:
    """Say why no arm could have given a true label; None if one could."""
    kind, given = kind_of(type(truth)), {*kinds} - {NO_LABEL}
    if given and kind not in kinds:
        return f"it is {kind}, and the arms say {' or '.join(sorted(given))}"
    try:
        possible = known is None or truth in known
    except TypeError:  # one that cannot be hashed is none of those that can
        possible = False
    return None if possible else f"the arms can say {', '.join(sorted(map(repr, known or ())))}"
