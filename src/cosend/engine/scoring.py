"""The gain of predictions once the true label or a score is known, and whether a true label is possible at all."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cosend.checks import check_callable, check_kind, check_unit, is_missing, is_number
from cosend.engine.site_state import NO_LABEL, LabelKinds, kind_of
from cosend.errors import (
    LabelError,
    LabelWarning,
    RewardError,
    ScoreError,
    SettingError,
    levels_to_the_user,
    listed,
    shown,
)

Gain: TypeAlias = Callable[[Any, Any], float]  # (label, truth) -> gain in [0, 1]
Score: TypeAlias = float | Mapping[str, float | None]  # of the arm that was used, or by arm where more is known
Range: TypeAlias = tuple[float, float]
Where: TypeAlias = Callable[[int], str]  # by place among the labels: which one it is, for error messages
NO_GAIN: Final = math.nan  # of a model that has no opinion, or a decision without an answer


def right_or_wrong(label: Any, truth: Any) -> float:
    return 1.0 if label == truth else 0.0


UNITS: Final[Range] = (0.0, 1.0)  # of scores, unless they have others


@dataclass(frozen=True, kw_only=True)
class Reward:
    """The value of answers: `Site(reward=Reward(...))`, or the table `[reward]` of a network file.

    >>> from cosend import Reward
    >>> reward = Reward(confusions={("ill", "well"): 1.0, ("well", "ill"): 0.2})
    >>> [reward("ill", "ill"), reward("ill", "well"), reward("well", "ill")]
    [1.0, 0.8, 0.0]

    confusions  (true label, prediction) -> the cost of that mistake, as a share of a correct one's value; one that is
                not named costs all of it
    range       the units of scores, (lowest, highest): they are mapped to [0, 1]
    function    (label, truth) -> gain in [0, 1], instead of confusions
    """

    confusions: Mapping[tuple[Any, Any], float] | None = None
    range: Range = UNITS
    function: Gain | None = None

    def __post_init__(self) -> None:
        if self.confusions is not None and self.function is not None:
            raise SettingError("function", self.function, "None where confusions are given: they say what answers gain")
        if self.function is not None:
            check_callable("function", self.function, "a function (label, truth) -> gain in [0, 1]")
        if self.confusions is not None:
            check_kind("confusions", self.confusions, Mapping, "a mapping from (true label, said label) to a cost")
            for pair, cost in self.confusions.items():
                if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] == pair[1]:
                    raise SettingError("confusions", pair, "pairs of two different labels, (true label, said label)")
                if not is_number(cost) or not 0.0 <= cost <= 1.0:
                    raise SettingError(f"the cost of the confusion {shown(pair)}", cost, "a number in [0, 1]")
        good = isinstance(self.range, tuple | list) and len(self.range) == 2 and all(map(is_number, self.range))
        if not good or not self.range[0] < self.range[1]:
            raise SettingError("range", self.range, "the lowest and the highest score, two numbers")

    def __call__(self, label: Any, truth: Any) -> float:
        """Return what an answer gains."""
        if self.function is not None:
            return self.function(label, truth)
        if label == truth or self.confusions is None:
            return right_or_wrong(label, truth)
        return 1.0 - self.confusions.get((truth, label), 1.0)

    @property
    def gain(self) -> Gain:
        """The gain of labels; `right_or_wrong` itself by default."""
        return right_or_wrong if self.confusions is None and self.function is None else self


# Scores


def gains_by_arm(score: Score, used: str, arms: Collection[str], units: Range, where: str) -> dict[str, float]:
    """Return gains in [0, 1] by arm from what was given as a score; raises if it is none, with its decision."""
    if not isinstance(score, Mapping):
        return {used: _in_units(score, units, where)}
    for arm in score:
        if arm not in arms:
            raise ScoreError(f"{where} has a score for {shown(arm)}, which is no arm: the arms are {listed(arms)}")
    known = {arm: each for arm, each in score.items() if not is_missing(each)}
    if used not in known:
        raise ScoreError(f"{where} needs a score for {used!r}, the arm that was used; it has {listed(known)}")
    return {arm: _in_units(each, units, f"{arm!r} for {where}") for arm, each in known.items()}


def _in_units(score: Any, units: Range, where: str) -> float:
    low, high = units
    if not is_number(score) or isinstance(score, bool) or not low <= score <= high:
        raise ScoreError(f"the score of {where} must be a number from {low:g} to {high:g}, got {shown(score)}")
    return float(score) if units == UNITS else min(1.0, (float(score) - low) / (high - low))


def as_score(gain: float, units: Range) -> float:
    """Return a gain in [0, 1] as a score in its units, as people see it."""
    low, high = units
    return gain if units == UNITS else float(f"{low + gain * (high - low):.12g}")


# Labels


def gain_of(reward: Gain, label: Any, truth: Any, where: str) -> float:
    """Return what a prediction gains, or raise with the decision that it belongs to."""
    try:
        gain = reward(label, truth)
    except (Exception, SystemExit) as error:  # a user's function may raise anything, and so may a comparison of arrays
        raise RewardError("gain", error, where) from error
    check_unit("gain", gain, where)
    return float(gain)


def gains_of(reward: Gain, labels: Sequence[Any], truths: Sequence[Any], where: Where) -> list[float]:
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
    reward: Gain, opinions: Mapping[str, Sequence[Any]], truths: Sequence[Any], where: Where
) -> dict[str, list[float]]:
    """Return what the opinions of local models gain, by model."""
    if reward is right_or_wrong:
        with suppress(Exception):  # as above
            return {model: _right_or_wrong(column, truths) for model, column in opinions.items()}

    def named(model: str) -> Where:
        return lambda place: f"{model!r}, {where(place)}"

    return {model: gains_of(reward, column, truths, named(model)) for model, column in opinions.items()}


# Whether a true label is one that some arm could have given

ENOUGH_WRONG: Final = 5  # labels that equal no answer


class LabelCheck:
    """Compares true labels with those that arms can give: if none can, every item would silently count as wrong.

    strict  refuse a suspicious label; else warn once
    """

    def __init__(self, site: str, *, strict: bool) -> None:
        self.site, self.strict = site, strict
        self._warned = False

    def check(
        self, truths: Sequence[Any], known: frozenset[Any] | None, given: LabelKinds, called: Sequence[Any]
    ) -> None:
        """Warn or raise if a true label is of a kind that no arm has given, or not one that arms can give.

        truths  None for a score
        called  what the decisions are called
        """
        if self._warned and not self.strict:
            return
        for n, truth in enumerate(() if known is None and given.types.issuperset(map(type, truths)) else truths):
            wrong = None if truth is None else _wrong(truth, known, given.kinds)
            if wrong is not None:
                self._complain(truth, wrong, called[n])

    def _complain(self, truth: Any, wrong: str, called: Any) -> None:
        could = f"no arm of site {self.site!r} could have given the true label {shown(truth)} of decision {called}"
        sentence = f"{could}: {wrong}"
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


class FreeTextCheck:
    """Warns once about true labels where arms answer with free text, none of which will ever equal a label.

    It never refuses one: a label that no arm has said so far may be a rare class.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._said = set[str]()
        self._wrong = 0

    def check(self, truths: Sequence[Any], said: Callable[[int], Collection[Any]], why: str, where: Where) -> None:
        """Compare labels, None for a score, with what arms have said; warns at once if it is known `why` scores fit.

        Else it warns if the first labels equal no answer, and no answer comes twice. A label that some arm has said, or
        that is not text, ends it.
        """
        for n, truth in enumerate(truths):
            answers = () if truth is None else said(n)
            if not answers:
                continue
            is_text = all(isinstance(each, str) for each in (truth, *answers))
            if not is_text or truth in answers or not (why or self._said.isdisjoint((truth, *answers))):
                self.is_over = True
                return
            self._said.update(answers)
            self._wrong += 1
            if why or self._wrong == ENOUGH_WRONG:
                self.is_over = True
                self._warn(truth, why or f"no answer to the first {ENOUGH_WRONG} labelled items came twice", where(n))
                return

    def _warn(self, truth: str, why: str, where: str) -> None:
        wrong = (
            f"the true label {shown(truth)} of {where} equals no answer, and {why}: it counts as wrong for every arm"
        )
        allowed = "where answers are free text, send a score, or set a reward function"
        warnings.warn(f"{wrong}; {allowed}", LabelWarning, stacklevel=levels_to_the_user())
