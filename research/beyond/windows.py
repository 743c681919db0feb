"""The windows part: the paper's window and four further ones, with every context, one by one and together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, Final

from cosend.algorithm.layout import Ints
from research.beyond.field import few_of_the_field, field_methods, informed_field
from research.beyond.play import Job, Method, bandit_methods, jobs_for, policy_methods, simple_methods
from research.beyond.problems import Outcome, Problem, window_data, window_outputs, window_problems
from research.beyond.settings import MAIN, SHARED, UNSEEN, WINDOWS, Settings, Window
from research.paper.run import BOOSTERS, Data, Outputs
from research.paper.settings import SCENARIOS

OF_ALL_WINDOWS: Final = {"windows", "late", "no-context", "costs", "default"}  # parts


def windows(settings: Settings) -> Iterator[Job]:
    """Yield the rows of all windows and scenarios."""
    for window, scenario in product(WINDOWS, SCENARIOS):
        problems = partial(window_problems, settings, window.start, scenario)
        field = [*field_methods(SHARED), *informed_field()] if window == MAIN else few_of_the_field()
        boosters = _boosters(settings, window, scenario)
        methods = [*policy_methods(), *simple_methods(), *bandit_methods(SHARED), *boosters, *field]
        yield from jobs_for("windows", window.name, scenario, problems, methods)


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
