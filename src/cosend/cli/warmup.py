"""`cosend warmup`: compile the rules now, so that the first run and the first decision of a service do not wait."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cosend.cli.shared import new_console, say_errors, saying_when_compiling
from cosend.errors import install

if TYPE_CHECKING:
    from cosend.algorithm.policies import Policy
    from cosend.algorithm.values import ScoreLocal
    from cosend.axes import Feature
    from cosend.engine.events import Event

FEW = 300  # items: enough for every step to happen


def warmup() -> None:
    """Precompile, so that the first run starts at once. Useful when you build a container image."""
    from cosend.compiled import CACHE_FOLDER

    console, start = new_console(), time.perf_counter()
    with say_errors(), saying_when_compiling(console):
        warm_up_sites()
        if find_spec("sklearn") is None:
            console.print(f"skipped `cosend run`: its models need {install('models')}")
        else:
            warm_up_runs()
    where = CACHE_FOLDER or "Numba's folder for your user"
    console.print(f"compiled in {time.perf_counter() - start:.0f} s; cached in {where}", highlight=False)


def warm_up_sites() -> None:
    """Do what programs and services do: sites that decide and learn, and logs that are read back."""
    from cosend import MixedViews, ZoomingKLUCB, fold
    from cosend.axes import Feature

    axis = Feature("x", range=(0, 1))
    for policy, context in ((MixedViews(), axis), (MixedViews(), None), (ZoomingKLUCB(), axis)):
        fold(_log_of(policy, context))


def warm_up_runs() -> None:
    """Do what `cosend run` does: a simulation with all baselines, and sites that ask each other."""
    from cosend.config.network_file import load
    from cosend.run.play import play, play_sites
    from cosend.run.prepare import prepare

    network, folder = load(None)
    few = network.model_copy(update={"stream": network.stream and network.stream.model_copy(update={"items": FEW})})
    prepared = prepare(few, folder)
    play(prepared)
    play_sites(prepared, prepared.policy)


def _log_of(policy: Policy, context: Feature | None) -> list[Event]:
    from cosend import Site

    log: list[Event] = []
    models = {"one": lambda item: 1, "two": lambda item: 2}
    scored: ScoreLocal = "all" if policy.mixes else "used"
    site = Site("here", classifiers=models, context=context, policy=policy, score_local=scored, journal=log.append)
    for decision in site.classify_many([{"x": n / FEW} for n in range(FEW)]):
        site.learn(decision.id, 1)
    site.learn(site.classify({"x": 0.5}).id, 2)
    if policy.mixes:
        site.explain({"x": 0.5})
    return log
