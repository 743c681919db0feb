"""What sites learn from their own labels, worked out in advance: trees and a stack as functions of every learner.

What learnt arms say hangs on the items, on their labels and on what the site's own models say, but not on whom a site
asks. So a site plays alone, item by item, and what its learnt arms said is all that a replay needs of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Ints
from cosend.axes import Feature
from cosend.engine.learnt_arms import Learnt
from cosend.run.play import Heard
from cosend.site import Site
from research.beyond.problems import Problem
from research.beyond.settings import AXES

Said = npt.NDArray[np.int8]

_found: dict[bytes, Said] = {}  # functions that do not draw say the same with every seed, whatever they cost


class Numbered(dict[str, Any]):
    """An item that knows its number in the stream, which is none of its features."""

    def __init__(self, item: Any, number: int) -> None:
        super().__init__(item)
        self.number = number


def look_up(said: Sequence[Any], item: Numbered) -> Any:
    """Return what a model has said about an item; bound to `said` it stands for the model."""
    return said[item.number]


def with_learnt(problem: Problem, every_feature: bool) -> Problem:
    """Return a problem with two more functions of every learner, behind the others: what it learns itself.

    They see every feature of the items, or the three contexts. Before they say anything, the first function does.
    """
    said = np.where(problem.right == 1, problem.labels[:, None], 1 - problem.labels[:, None])  # there are two labels
    columns = []
    for first in range(0, said.shape[1], problem.own):
        own = said[:, first : first + problem.own]
        learnt = learnt_said(problem, own, every_feature)
        columns += [own, np.where(learnt < 0, own[:, :1], learnt)]
    right = (np.hstack(columns) == problem.labels[:, None]).astype(np.uint8)
    return replace(problem, right=right, own=problem.own + len(Learnt))


def learnt_said(problem: Problem, said: Ints, every_feature: bool) -> Said:
    """Return [item, arm]: what the learnt arms of a site say that has models which say this; -1 for nothing."""
    key = blake2b(repr(problem.items).encode() if every_feature else problem.contexts.tobytes())
    for part in (said, problem.labels, problem.delays):
        key.update(np.ascontiguousarray(part, np.int64).tobytes())
    if key.digest() not in _found:
        _found[key.digest()] = _played_alone(problem, said, every_feature)
    return _found[key.digest()]


def _played_alone(problem: Problem, said: Ints, every_feature: bool) -> Said:
    heard, items = Heard(kind.value for kind in Learnt), problem.items if every_feature else items_of(problem)
    site = Site(
        "alone",
        classifiers={f"model {n}": partial(look_up, column) for n, column in enumerate(said.T.tolist())},
        context=None if every_feature else CONTEXT,
        learnt=True,
        journal=heard,
    )
    play_alone(site, [Numbered(item, n) for n, item in enumerate(items)], problem)
    codes = [[-1 if label is None else label for label in heard.said[arm]] for arm in Learnt]
    return np.array(codes, np.int8).T


CONTEXT: Final = [Feature(axis, range=(0, 1)) for axis in AXES]


def items_of(problem: Problem) -> list[dict[str, float]]:
    """Return the contexts of a problem as items."""
    return [dict(zip(AXES, row, strict=True)) for row in problem.contexts.tolist()]


def play_alone(site: Site, items: Sequence[Numbered], problem: Problem) -> None:
    """Let a site label items; it learns every label when that is known, in the order of the items where several are."""
    due = np.arange(len(items)) + np.maximum(1, problem.delays)
    order = np.argsort(due, kind="stable")
    waiting = deque(zip(due[order].tolist(), order.tolist(), strict=True))
    labels, decided = problem.labels.tolist(), list[int]()
    for n, item in enumerate(items):
        while waiting[0][0] <= n:  # never empty: the label of this very item is still to come
            earlier = waiting.popleft()[1]
            site.learn(decided[earlier], labels[earlier])
        decided.append(site.classify(item).id)
