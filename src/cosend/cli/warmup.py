"""`cosend warmup`: compile the rules now, so that the first run and the first decision of a service do not wait."""

from __future__ import annotations

import time
from importlib.util import find_spec

from cosend.cli.errors import say_errors
from cosend.cli.show import new_console, saying_when_compiling
from cosend.compiled import CACHE_FOLDER
from cosend.config.scenario import load
from cosend.core.learner.values import ScoreLocal
from cosend.core.policy.mixed import MixedViews
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import ZoomingKLUCB
from cosend.errors import install
from cosend.experiments.scenario import live, run
from cosend.experiments.scenario.world import build
from cosend.site.context import Context
from cosend.site.events import Event
from cosend.site.fold import fold
from cosend.site.site import Site

FEW = 300  # items: enough for every step to happen


def warmup() -> None:
    """Compile the rules now, for images and machines where the first run should not wait."""
    console, start = new_console(), time.perf_counter()
    with say_errors(), saying_when_compiling(console):
        a_site()
        if find_spec("sklearn") is None:
            console.print(f"runs are left out: their models need {install('models')}")
        else:
            a_run()
    where = CACHE_FOLDER or "Numba's folder of this user"
    console.print(f"ready after {time.perf_counter() - start:.0f} s; kept in {where}", highlight=False)


def a_site() -> None:
    """Do what programs and services do: sites that decide and learn, and logs that are read back."""
    axis = Context("x", range=(0, 1))
    for policy, context in ((MixedViews(), axis), (MixedViews(), None), (ZoomingKLUCB(), axis)):
        fold(a_log(policy, context))


def a_run() -> None:
    """Do what commands do: a replay with all baselines, and sites that ask each other."""
    scenario, folder = load(None)
    few = scenario.model_copy(update={"stream": scenario.stream and scenario.stream.model_copy(update={"items": FEW})})
    world = build(few, folder)
    run.run(world)
    live.play(world, world.way)


def a_log(policy: Policy, context: Context | None) -> list[Event]:
    """Return what a site writes down while it decides and learns."""
    log: list[Event] = []
    models = {"one": lambda item: 1, "two": lambda item: 2}
    score_local: ScoreLocal = "all" if policy.mixes else "used"
    site = Site("here", classifiers=models, context=context, policy=policy, score_local=score_local, journal=log.append)
    for decision in site.classify_many([{"x": n / FEW} for n in range(FEW)]):
        site.learn(decision.id, 1)
    site.learn(site.classify({"x": 0.5}).id, 2)
    return log
