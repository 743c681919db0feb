"""What predictions gain once the true label is known, and whether a true label can be right at all."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from cosend.checks import check_unit
from cosend.engine.site_state import NO_LABEL, LabelKinds, kind_of
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


# Whether a true label is one that some arm could have given


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
