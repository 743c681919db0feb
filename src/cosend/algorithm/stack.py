"""The stack: a softmax regression that combines what models say about an item, and learns from every label.

It hears the slices of the item's places (4 and 16 of each axis), the newest known label, and of every model its answer
and, where the model says how sure it is, the log odds of that. All weights are 0 at first, but .5 where a model speaks
for its answer, so it begins as a soft vote. A label moves them by one step of AdaGrad. Plain arithmetic in a fixed
order: folded and decided again, the weights are the same bit for bit.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.compiled import compiled, entry_point

Slices: TypeAlias = npt.NDArray[np.uint8]  # [item, axis]

COARSE: Final = 4
FINE: Final = 16
PER_AXIS: Final = COARSE + FINE
NO_SLICE: Final = 255
NONE: Final = -1  # the code of a label that nobody has said
STEP: Final = 0.1
FIRST_SQUARE: Final = 0.01
SPEAKS_FOR: Final = 0.5
ODDS_SCALE: Final = 3.0
WEIGHT: Final = 0
SQUARE: Final = 1  # sum of squared gradients


class Weights(NamedTuple):
    """[..., class, weight or sum of squares], with room for more classes than there are."""

    labels: Floats  # [0: always, 1 + newest label, class, 2]
    axes: Floats  # [axis, slice, class, 2]
    models: Floats  # [model, answer, and then log odds of each class, class, 2]


class Heard(NamedTuple):
    """What is known of items before they are decided."""

    newest: Ints  # [item]: the newest known label, or NONE
    slices: Slices  # [item, axis]
    answers: Ints  # [item, model]: its answer, or NONE
    odds: Floats  # [item, model]: of its answer; not a number where a model does not say how sure it is


def weights_for(axes: int, models: int, room: int) -> Weights:
    """Return weights that have learnt nothing, with room for this many classes."""
    weights = Weights(
        np.zeros((1 + room, room, 2)), np.zeros((axes, PER_AXIS, room, 2)), np.zeros((models, 2 * room, room, 2))
    )
    for part in weights:
        part[..., SQUARE] = FIRST_SQUARE
    each = np.arange(room)
    for start in (0, room):
        weights.models[:, start + each, each, WEIGHT] = SPEAKS_FOR
    return weights


def widened(weights: Weights, axes: int, models: int, room: int) -> Weights:
    """Return weights with more room; what was learnt stays."""
    wider, before = weights_for(axes, models, room), weights.labels.shape[1]
    wider.labels[: 1 + before, :before] = weights.labels
    wider.axes[: len(weights.axes), :, :before] = weights.axes
    for old, new in ((0, 0), (before, room)):  # answers, then log odds
        part = weights.models[:, old : old + before]
        wider.models[: len(part), new : new + before, :before] = part
    return wider


@compiled
def _add(z: Floats, value: float, weights: Floats) -> None:
    """Add what an input of this value says to the score of every class."""
    for k in range(z.shape[0]):
        z[k] += value * weights[k, WEIGHT]


@compiled
def _scores(
    labels: Floats, axes: Floats, models: Floats, newest: int, slices: Slices, answers: Ints, odds: Floats, z: Floats
) -> None:
    """Write the chance of every class of an item."""
    room = labels.shape[1]
    z[:] = 0.0
    _add(z, 1.0, labels[0])
    if newest != NONE:
        _add(z, 1.0, labels[1 + newest])
    for axis in range(slices.shape[0]):
        fine = slices[axis]
        if fine != NO_SLICE:
            _add(z, 1.0, axes[axis, fine // COARSE])
            _add(z, 1.0, axes[axis, COARSE + fine])
    for model in range(answers.shape[0]):
        if answers[model] != NONE:
            _add(z, 1.0, models[model, answers[model]])
            if not math.isnan(odds[model]):
                _add(z, odds[model], models[model, room + answers[model]])
    _softmax(z)


@compiled
def _softmax(z: Floats) -> None:
    highest = z[0]
    for k in range(1, z.shape[0]):
        highest = max(highest, z[k])
    total = 0.0
    for k in range(z.shape[0]):
        z[k] = math.exp(z[k] - highest)
        total += z[k]
    for k in range(z.shape[0]):
        z[k] /= total


@entry_point
def log_odds(sure: Floats, least: float, others: int, odds: Floats) -> None:
    """Write the log odds of answers against each of the other labels, from how sure models are of them."""
    for n in range(sure.shape[0]):
        chance = max(least, min(1.0 - least, sure[n]))
        rest = max((1.0 - chance) / others, least)
        odds[n] = sure[n] if math.isnan(sure[n]) else math.log(chance / rest) / ODDS_SCALE


@entry_point
def stack_chances(
    labels: Floats,
    axes: Floats,
    models: Floats,
    newest: Ints,
    slices: Slices,
    answers: Ints,
    odds: Floats,
    out: Floats,
) -> None:
    """Write the probability of every class for every item to `out`."""
    for n in range(out.shape[0]):
        _scores(labels, axes, models, newest[n], slices[n], answers[n], odds[n], out[n])


@compiled
def _move(weights: Floats, value: float, errors: Floats) -> None:
    """Take a step of AdaGrad on the weights of one input."""
    for k in range(errors.shape[0]):
        gradient = errors[k] * value
        weights[k, SQUARE] += gradient * gradient
        weights[k, WEIGHT] -= STEP * gradient / math.sqrt(weights[k, SQUARE])


@entry_point
def stack_learn(
    labels: Floats,
    axes: Floats,
    models: Floats,
    newest: Ints,
    slices: Slices,
    answers: Ints,
    odds: Floats,
    truths: Ints,
    errors: Floats,
) -> None:
    """Learn the true classes of items; `errors` is room for one number a class."""
    room = labels.shape[1]
    for n in range(truths.shape[0]):
        _scores(labels, axes, models, newest[n], slices[n], answers[n], odds[n], errors)
        errors[truths[n]] -= 1.0
        _move(labels[0], 1.0, errors)
        if newest[n] != NONE:
            _move(labels[1 + newest[n]], 1.0, errors)
        for axis in range(slices.shape[1]):
            fine = slices[n, axis]
            if fine != NO_SLICE:
                _move(axes[axis, fine // COARSE], 1.0, errors)
                _move(axes[axis, COARSE + fine], 1.0, errors)
        for model in range(answers.shape[1]):
            if answers[n, model] != NONE:
                _move(models[model, answers[n, model]], 1.0, errors)
                if not math.isnan(odds[n, model]):
                    _move(models[model, room + answers[n, model]], odds[n, model], errors)
