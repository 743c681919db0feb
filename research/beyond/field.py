"""The field beside us: which of its players plays where, and what it is told.

Its players see all functions of all learners as flat arms. They play without learnt arms, with the two of every learner
as more arms, and with these and told: of every label they then learn what each function of learner 1 was worth,
whichever arm was picked. Vowpal Wabbit cannot be told, because it learns from picks with a known chance. The two LinUCB
play in compiled form, which picks the same, with all seeds: what they draw first decides much of what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Final

import numpy as np

from cosend.algorithm.layout import Floats
from research.beyond.play import Method, Play
from research.beyond.problems import Outcome, Problem
from research.beyond.settings import AXES, CONTEXTS, EVERY_FEATURE, LEARNT, SHARED, TOGETHER
from research.other_libraries import COMPILED, FIELD, LOGGED, play

CONTEXT_FREE: Final = ("river_ucb", "mabwiser_ucb1")
SLICES: Final = (4, 16)  # of a feature; our rule has them too
TOLD: Final = ", told"
SLOW: Final = "mabwiser_ucb1"  # the rule of river's UCB, many times slower: one seed, and the main window only


def field_methods(contexts: Sequence[str], seeds_alone: int | None = None) -> Iterator[Method]:
    """Yield the field without learnt arms; with one context alone it may have fewer seeds."""
    for name in FIELD:
        for context in [None] if name in CONTEXT_FREE else contexts:
            run = partial(_play, name, CONTEXTS[context or TOGETHER])
            most_seeds = seeds_alone if context in AXES else None
            yield _method(name, name, context, run, 1 if name == SLOW else most_seeds)


def few_of_the_field() -> Iterator[Method]:
    """Yield the field where it is not the main thing: with one context alone, what is not compiled plays one seed."""
    yield from (method for method in field_methods(SHARED, seeds_alone=1) if method.name != SLOW)
    yield from informed_field()


def informed_field() -> Iterator[Method]:
    """Yield the field with what `MixedViews with learnt arms` has."""
    for name, told in told_or_not([name for name in FIELD if name != SLOW]):
        run = partial(_play, name, CONTEXTS[TOGETHER], told=told)
        context = None if name in CONTEXT_FREE else TOGETHER
        yield _method(name, name + LEARNT + told * TOLD, context, run, None)._replace(learnt=True)


def field_without_context() -> Iterator[Method]:
    """Yield the field with every feature."""
    for name, told in told_or_not([name for name in FIELD if name not in CONTEXT_FREE]):
        yield _method(name, name + told * TOLD, EVERY_FEATURE, partial(_play_features, name, told=told), None)


def _method(name: str, row: str, context: str | None, run: Play, most_seeds: int | None) -> Method:
    """Return a row; what is compiled plays all seeds, and has no speed: it is not that of the library."""
    if name in COMPILED:
        return Method(row, "field", context, run, sites=0)
    return Method(row, "field", context, run, most_seeds=most_seeds)


def told_or_not(names: Sequence[str]) -> list[tuple[str, bool]]:
    """Return players without and with what they may be told: that helps some of them and harms others."""
    return [(name, told) for name, told in product(names, (False, True)) if not (told and name in LOGGED)]


def _play(name: str, axes: tuple[int, ...], problem: Problem, seed: int, *, told: bool = False) -> Outcome:
    return _played(name, np.ascontiguousarray(problem.contexts[:, axes]), problem, seed, told=told)


def _play_features(name: str, problem: Problem, seed: int, *, told: bool) -> Outcome:
    places = problem.places
    return _played(name, sliced(places) if name in LOGGED else places, problem, seed, told=told)


def _played(name: str, contexts: Floats, problem: Problem, seed: int, *, told: bool) -> Outcome:
    picks, scored = COMPILED.get(name, partial(play, name)), problem.own if told else 0
    return problem.outcome(picks(problem.values, contexts, delays=problem.delays, seed=seed, scored=scored))


def sliced(places: Floats) -> Floats:
    """Return [item, slice]: 1 for the slices that an item is in, which suits Vowpal Wabbit better than a place does."""
    there, hot = places != 0.0, []  # no feature lies at 0 once its edges are laid
    for count, axis in product(SLICES, range(places.shape[1])):
        slices = np.minimum((places[:, axis] * count).astype(np.int64), count - 1)
        hot.append((slices[:, None] == np.arange(count)) & there[:, axis, None])
    found = np.hstack(hot)
    return found[:, found.any(axis=0)].astype(np.float64)
