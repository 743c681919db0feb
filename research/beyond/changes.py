"""Parts that change one thing about the paper's window: late labels, costs of peers, an abrupt drift in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats
from research.beyond.field import few_of_the_field
from research.beyond.play import (
    Job,
    Method,
    Numbers,
    Place,
    bandit_methods,
    jobs_for,
    percent_wrong,
    played,
    policy_methods,
    simple_methods,
    summary,
)
from research.beyond.problems import Problem, changed_window, in_order, window_problems
from research.beyond.settings import (
    BACK_WITHIN,
    DELAYS,
    LATE,
    MAIN,
    PEER_COSTS,
    RUNNING_ITEMS,
    SHARED,
    STILL,
    WINDOWS,
    Settings,
)
from research.paper.settings import SCENARIOS

CURVE_STEP = 100  # items between two points of the curve of a plot


def delays(settings: Settings) -> Iterator[Job]:
    """Yield the rows of labels that come late; nothing may use a label that is not yet known."""
    for delay, scenario in product(DELAYS, SCENARIOS):
        problems = partial(changed_window, settings, MAIN.start, scenario, delay)
        field = few_of_the_field() if delay else ()  # to the field 0 is the same as 1
        methods = [*policy_methods(), *simple_methods(), *field]
        yield from jobs_for("delays", str(delay), scenario, problems, methods)


def late(settings: Settings) -> Iterator[Job]:
    """Yield the rows of all windows with late labels."""
    for window, scenario in product(WINDOWS, SCENARIOS):
        problems = partial(changed_window, settings, window.start, scenario, LATE)
        methods = [*policy_methods(), *simple_methods(), *few_of_the_field()]
        yield from jobs_for("late", window.name, scenario, problems, methods)


def costs(settings: Settings) -> Iterator[Job]:
    """Yield the rows of peers that cost something; to flat arms the functions of other learners cost as much."""
    for cost, scenario in product(PEER_COSTS, SCENARIOS):
        problems = partial(changed_window, settings, MAIN.start, scenario, cost=cost)
        methods = [*policy_methods(), *simple_methods(), *bandit_methods(SHARED), *few_of_the_field()]
        yield from jobs_for("costs", f"{cost:g} per call", scenario, problems, methods)
    for window in WINDOWS[1:]:
        problems = partial(changed_window, settings, window.start, "S1", cost=PEER_COSTS[0])
        methods = [*policy_methods(), *simple_methods(), *few_of_the_field()]
        yield from jobs_for("costs", f"{PEER_COSTS[0]:g} per call, {window.name}", "S1", problems, methods)


def drift(settings: Settings) -> Iterator[Job]:
    """Yield the rows of a stream that is the same throughout, and of one that changes in the middle."""
    for setting, change in ((STILL, False), ("abrupt change", True)):
        problems = partial(shuffled, settings, change)
        methods = [*policy_methods(), *simple_methods(), *few_of_the_field()]
        for method in methods:
            place = Place("drift", setting, "S1", method.context, method.name, method.kind)
            yield Job(place, partial(recovered, problems, method))


@lru_cache(maxsize=2)
def shuffled(settings: Settings, change: bool) -> list[Problem]:
    """Return the paper's window in random order, so that nothing changes but what is changed here.

    The change: in the second half every function does what its mirror in the list of all eight did before. The good
    local function of learner 1 becomes useless, and two useless peers become good.
    """
    problems = []
    for seed, problem in enumerate(window_problems(settings, MAIN.start, "S1")):
        mixed = in_order(problem, np.random.default_rng(seed).permutation(len(problem.labels)))
        right, half = mixed.right.copy(), len(mixed.labels) // 2
        if change:
            right[half:] = mixed.right[half:, ::-1]
        problems.append(replace(mixed, right=right))
    return problems


def recovered(problems: Callable[[], Sequence[Problem]], method: Method) -> Numbers:
    """Play a method and say how many items after the middle its running error was back."""
    by_seed, outcomes, speed = played(problems, method)
    items = [items_to_recover(outcome.right) for outcome in outcomes]
    running = np.mean([running_error(outcome.right) for outcome in outcomes], axis=0)
    return {
        **summary(by_seed, outcomes, speed),
        "recovery": float(np.mean(items)),
        "never_back": sum(each >= len(by_seed[0].labels) // 2 for each in items),
        "curve": running[::CURVE_STEP].tolist(),
    }


def running_error(right: npt.NDArray[Any]) -> Floats:
    """Return the error in % over the last items, for every item; over fewer at the beginning."""
    wrong = np.concatenate([[0.0], np.cumsum(1.0 - right)])
    until = np.arange(1, len(right) + 1)
    since = np.maximum(0, until - RUNNING_ITEMS)
    errors: Floats = 100 * (wrong[until] - wrong[since]) / (until - since)
    return errors


def items_to_recover(right: npt.NDArray[Any]) -> int:
    """Return how many items after the middle the error over a whole run of items is back at its level before.

    Its level is the error of the second quarter. All that are left if it never comes back.
    """
    half = len(right) // 2
    before = percent_wrong(right[half // 2 : half])
    after = running_error(right[half:])[RUNNING_ITEMS - 1 :]
    back = np.flatnonzero(after <= before + BACK_WITHIN)
    return int(back[0]) if len(back) else half
