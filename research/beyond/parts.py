"""The parts that play streams with known labels: windows, changed windows, and streams on which nothing was chosen.

A part is a list of settings: a name, a setup, problems by seed, and who plays them.

    windows     the paper's window and four further ones, with every context, one by one and together
    delays      labels that come late; nothing may use a label that is not yet known
    late        all windows with late labels
    costs       peers that cost something; to flat arms the functions of other learners cost as much
    drift       a stream that is the same throughout, and one that changes in the middle
    no-context  nobody chooses a context: every feature is looked at, beside the contexts of the paper
    unseen      two more windows, and two small sets of river; neither a rule nor a constant was chosen on them
    default     the default of a site beside `ZoomingKLUCB`, both as they come, in all settings there are

Of each set of river every seed draws another order; the first quarter trains the functions, the rest is played. Each
learner knows a quarter of the values of the first feature only, and has a naive Bayes and a tree trained there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.algorithm.policies import DEFAULT_CELLS, MixedViews
from cosend.models.built_in import train
from cosend.simulation.simulate import simulate
from research.beyond.field import few_of_the_field, field_methods, field_without_context, informed_field
from research.beyond.learning import river_module
from research.beyond.play import (
    Job,
    Method,
    Numbers,
    Place,
    bandit_methods,
    measured,
    percent_wrong,
    played,
    policy_methods,
    simple_methods,
    simulation_delay,
    summary,
)
from research.beyond.problems import (
    Outcome,
    Problem,
    changed_window,
    delays_of,
    in_order,
    window_data,
    window_outputs,
    window_problems,
    with_delays,
)
from research.beyond.settings import (
    BACK_WITHIN,
    DELAYS,
    EVERY_FEATURE,
    LATE,
    LEARNT_SEEDS,
    MAIN,
    PEER_COSTS,
    POLICIES,
    RUNNING_ITEMS,
    SHARED,
    STILL,
    TOGETHER,
    UNSEEN,
    WINDOWS,
    WITH_LEARNT,
    Settings,
    Window,
)
from research.paper.run import BOOSTERS, Data, Outputs, four_learners
from research.paper.settings import LEARNERS, SCENARIOS

CURVE_STEP: Final = 100  # items between two points of the curve of a plot
OF_ALL_WINDOWS: Final = {"windows", "late", "no-context", "costs", "default"}  # parts
OURS, BESIDE = "MixedViews", "ZoomingKLUCB"  # of the part default
RIVER: Final = "river"  # in the place of a setup
SETS: Final = ("Phishing", "Bananas")  # of river, and part of the package
MODELS: Final = ("naive_bayes", "tree")
Problems = Callable[[], Sequence[Problem]]


class Setting(NamedTuple):
    """What is played in a part, and by whom."""

    name: str
    scenario: str
    problems: Problems
    methods: Iterable[Method]
    measure: Callable[[Problems, Method], Numbers] = measured


def jobs_of(part: str, settings: Settings) -> Iterator[Job]:
    """Yield a job for every method in every setting of a part."""
    for setting, scenario, problems, methods, measure in SETTINGS[part](settings):
        for method in methods:
            place = Place(part, setting, scenario, method.context, method.name, method.kind)
            yield Job(place, partial(measure, problems, method))


def windows(settings: Settings) -> Iterator[Setting]:
    """Yield all windows and scenarios."""
    for window, scenario in product(WINDOWS, SCENARIOS):
        field = [*field_methods(SHARED), *informed_field()] if window == MAIN else few_of_the_field()
        boosters = _boosters(settings, window, scenario)
        methods = [*policy_methods(), *simple_methods(), *bandit_methods(SHARED), *boosters, *field]
        yield Setting(window.name, scenario, partial(window_problems, settings, window.start, scenario), methods)


def delays(settings: Settings) -> Iterator[Setting]:
    """Yield the main window with all delays."""
    for delay, scenario in product(DELAYS, SCENARIOS):
        problems = partial(changed_window, settings, MAIN.start, scenario, delay)
        yield Setting(str(delay), scenario, problems, _usual(with_field=bool(delay)))  # to the field 0 is the same as 1


def late(settings: Settings) -> Iterator[Setting]:
    """Yield all windows with late labels."""
    for window, scenario in product(WINDOWS, SCENARIOS):
        yield Setting(window.name, scenario, partial(changed_window, settings, window.start, scenario, LATE), _usual())


def costs(settings: Settings) -> Iterator[Setting]:
    """Yield the main window with all costs, and the others with one."""
    for cost, scenario in product(PEER_COSTS, SCENARIOS):
        problems = partial(changed_window, settings, MAIN.start, scenario, cost=cost)
        methods = [*policy_methods(), *simple_methods(), *bandit_methods(SHARED), *few_of_the_field()]
        yield Setting(f"{cost:g} per call", scenario, problems, methods)
    for window in WINDOWS[1:]:
        problems = partial(changed_window, settings, window.start, "S1", cost=PEER_COSTS[0])
        yield Setting(f"{PEER_COSTS[0]:g} per call, {window.name}", "S1", problems, _usual())


def drift(settings: Settings) -> Iterator[Setting]:
    """Yield a stream that is the same throughout, and one that changes in the middle."""
    for name, change in ((STILL, False), ("abrupt change", True)):
        yield Setting(name, "S1", partial(shuffled, settings, change), _usual(), recovered)


def no_context(settings: Settings) -> Iterator[Setting]:
    """Yield all windows, with labels that come before the next item and late, without a context."""
    for window, scenario, delay in product(WINDOWS, SCENARIOS, (1, LATE)):
        problems = partial(with_features, settings, window.start, scenario, delay)
        methods = [*WITHOUT_CONTEXT, *_policies("MixedViews", WITH_LEARNT), *field_without_context()]
        yield Setting(f"{window.name}, {delay} late", scenario, problems, methods)


def unseen(settings: Settings) -> Iterator[Setting]:
    """Yield further windows and other streams, with labels before the next item and late."""
    field = [method for method in few_of_the_field() if method.context in (None, TOGETHER)]
    ours = [*_policies("ZoomingKLUCB", "MixedViews", WITH_LEARNT), *WITHOUT_CONTEXT]
    methods = [*ours, *simple_methods(), *field, *field_without_context()]
    for window, scenario, delay in product(UNSEEN, SCENARIOS, (1, LATE)):
        problems = partial(with_features, settings, window.start, scenario, delay)
        yield Setting(f"{window.name}, {delay} late", scenario, problems, methods)
    for name, delay in product(SETS, (1, LATE)):
        yield Setting(f"{name}, {delay} late", RIVER, partial(stream_problems, settings, name, delay), methods)


def default(settings: Settings) -> Iterator[Setting]:
    """Yield all windows with all delays, the time alone with two of them; and two windows with calls that cost."""
    free = [(window, delay, 0.0) for window, delay in product(WINDOWS, DELAYS)]
    dear = [(window, delay, cost) for window, cost, delay in product((MAIN, WINDOWS[-1]), PEER_COSTS, (1, LATE))]
    for (window, delay, cost), scenario in product([*free, *dear], SCENARIOS):
        problems = partial(changed_window, settings, window.start, scenario, delay, cost)
        contexts = [each for each in SHARED if each != "time" or cost or delay in (1, LATE)]
        name = f"{window.name}, {delay} late, {cost:g} per call"
        yield Setting(name, scenario, problems, _policies(OURS, BESIDE, contexts=contexts))


SETTINGS: Final[dict[str, Callable[[Settings], Iterator[Setting]]]] = {
    "windows": windows,
    "delays": delays,
    "late": late,
    "no-context": no_context,
    "costs": costs,
    "drift": drift,
    "unseen": unseen,
    "default": default,
}


def _usual(*, with_field: bool = True) -> list[Method]:
    return [*policy_methods(), *simple_methods(), *(few_of_the_field() if with_field else ())]


def _policies(*names: str, contexts: Sequence[str] = (TOGETHER,)) -> list[Method]:
    return policy_methods([policy for policy in POLICIES if policy.name in names], contexts)


def described(settings: Settings) -> list[dict[str, Any]]:
    """Return where the windows start, and their shares of attacks and of label switches in %."""
    rows = []
    windows = WINDOWS if OF_ALL_WINDOWS & set(settings.parts) else WINDOWS[:1]
    for window in (*windows, *UNSEEN) if "unseen" in settings.parts else windows:
        labels = window_data(settings.data, window.start, settings.rows).labels
        switches = 100 * float((labels[1:] != labels[:-1]).mean())
        attacks = 100 * float(labels.mean())
        rows.append({"name": window.name, "start": window.start, "attacks": attacks, "switches": switches})
    return rows


def _boosters(settings: Settings, window: Window, scenario: str) -> Iterator[Method]:
    for name, booster in BOOSTERS.items():
        play = partial(_boosted, settings, window, scenario, booster)
        yield Method(name, "baseline", None, play, most_seeds=1 if name.endswith("_every_item") else None)


def _boosted(
    settings: Settings,
    window: Window,
    scenario: str,
    booster: Callable[[Data, Outputs], Ints],
    problem: Problem,
    seed: int,
) -> Outcome:
    """Return what came of boosting, which asks all functions about every item and pays for each."""
    data, outputs = window_outputs(settings.data, window.start, settings.rows, scenario, settings.seeds)
    return problem.said(booster(data, outputs[seed])[: len(problem.labels)], float(problem.costs.sum()))


# A change in the middle


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


# Every feature


@lru_cache(maxsize=1)
def with_features(settings: Settings, start: int, scenario: str, delay: int) -> list[Problem]:
    """Return a window with its items, whose labels come so late."""
    items = [item for item, _ in window_data(settings.data, start, settings.rows).window.rows()][-settings.rows :]
    delays = delays_of(delay, settings.rows, 0)
    problems = window_problems(settings, start, scenario)
    return [replace(with_delays(problem, delays), items=items) for problem in problems]


def play_features(problem: Problem, seed: int) -> Outcome:
    """Replay the four learners without a context, as sites do to which none is given."""
    policy = MixedViews(max_cells=DEFAULT_CELLS)
    learners = four_learners(
        policy, dimensions=0, peer_cost=problem.peer_cost, seed=seed, score_local="all", functions=problem.own
    )
    nothing = np.zeros((len(problem.labels), 0))
    trace = simulate(learners, nothing, problem.right, delay=simulation_delay(problem), features=problem.items)
    return problem.outcome(trace.functions[:, 0])


WITHOUT_CONTEXT: Final = (
    Method("MixedViews", "policy", EVERY_FEATURE, play_features, len(LEARNERS)),
    Method(WITH_LEARNT, "policy", EVERY_FEATURE, play_features, len(LEARNERS), LEARNT_SEEDS, learnt=True),
)


# Streams of river


@lru_cache(maxsize=1)
def stream_problems(settings: Settings, name: str, delay: int) -> list[Problem]:
    """Return a set of river in another order for every seed."""
    pairs = list(getattr(river_module("datasets"), name)())
    items = [{str(feature): float(value) for feature, value in item.items()} for item, _ in pairs]
    labels = np.array([label for _, label in pairs], np.int64)
    return [_drawn(items, labels, delay, seed) for seed in range(settings.seeds)]


def _drawn(items: list[dict[str, float]], labels: Ints, delay: int, seed: int) -> Problem:
    order = np.random.default_rng(seed).permutation(len(items))
    training, played = order[: len(order) // 4], order[len(order) // 4 :]
    rows = np.array([list(item.values()) for item in items])
    said = said_by_learners(rows[training], labels[training], rows[played])
    first = rows[played, 0]
    axes = [
        np.zeros(len(played)),
        (first - rows[:, 0].min()) / np.ptp(rows[:, 0]),
        np.arange(len(played)) / len(played),
    ]
    right = (said == labels[played, None]).astype(np.uint8)
    delays = delays_of(delay, len(played), seed)
    shown = [items[n] for n in played]
    return with_delays(Problem(labels[played], right, np.stack(axes, axis=1), delays, items=shown), delays)


def said_by_learners(rows: Any, labels: Ints, played: Any) -> Ints:
    """Return [row, function]: what models say that are trained on a quarter of the values of the first feature."""
    quarters = np.array_split(np.argsort(rows[:, 0], kind="stable"), len(LEARNERS))
    trained = [train(model, rows[quarter], labels[quarter]) for quarter, model in product(quarters, MODELS)]
    return np.stack([model.predict(played) for model in trained], axis=1)
