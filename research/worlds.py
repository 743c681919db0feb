"""Four sites with two models each, three public streams, and nothing configured: `make worlds`.

A world is a stream of items with true labels, and what eight models say about each item and how sure they are: two of
site 1, two of site 2, and so on. Every item arrives at all four sites, each of
which may ask the others. They are given no
context, no policy, and nothing else that could be chosen. Site 1 is reported.

The folder of the streams has `worlds.py`, which makes the arrays NAME_SEED.npz and NAME_SEED.items.json; or it has
these already. It is not part of cosend.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cosend import Network, Site
from cosend.checks import check_one_of, check_whole
from cosend.engine.learnt_arms import Learnt
from cosend.errors import CosendError, SettingError
from cosend.text import TableText
from research.beyond.learnt import Heard, Numbered, look_up
from research.output import Section, as_markdown
from research.output import write as write_all

WORLDS: Final = ("letter", "eeg", "bike")
DELAYS: Final = (1, 100, 1_000)  # items until a label is known
COSTS: Final = (0.0, 0.05, 0.2)  # of a call
SITES: Final = ("site1", "site2", "site3", "site4")
OWN: Final = 2  # models of a site
STREAMS: Final = Path("../shared/data/streams")
SCRIPT: Final = "worlds.py"  # in the folder of the streams
MADE: Final = "streams"  # in the folder of the results: what that script makes
PROCESSES: Final = 2
LEAST_ITEMS: Final = 100
FILES: Final = ("results.json", "tables.md")
CAPTION: Final = (
    "Net reward of site 1: % of its items with a right label, minus what it paid for calls in % of its items. Alone: "
    "what one learnt arm said about every item; for trees before their first fit, what the stack said. The best model "
    "of site 1 is known in hindsight. All are means over the seeds. Time: of the whole run, divided by the decisions "
    "of all four sites."
)

Row = dict[str, Any]
Progress = Callable[[str, float, float | None], None]


class Place(NamedTuple):
    """One run: a world, one of its draws, how late labels are, and what a call costs."""

    world: str
    seed: int
    delay: int
    cost: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a user may change."""

    data: Path = STREAMS
    worlds: tuple[str, ...] = WORLDS
    delays: tuple[int, ...] = DELAYS
    costs: tuple[float, ...] = COSTS
    seeds: int = 3
    items: int | None = None  # at most; all unless given
    learnt: bool = True
    processes: int = PROCESSES

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds)
        check_whole("processes", self.processes)
        if self.items is not None:
            check_whole("items", self.items, least=LEAST_ITEMS)
        for world in self.worlds:
            check_one_of("world", world, WORLDS)
        for delay in self.delays:
            check_whole("late", delay, least=0)
        for cost in self.costs:
            if not 0.0 <= cost <= 1.0:
                raise SettingError("cost", cost, "a number in [0, 1]")

    @property
    def places(self) -> list[Place]:
        """All runs."""
        return [Place(*each) for each in product(self.worlds, range(self.seeds), self.delays, self.costs)]


class World(NamedTuple):
    """A stream, and what models say about it."""

    items: list[Numbered]
    labels: list[int]
    answers: list[list[tuple[int, float]]]  # [model][item]: what it says, and how sure it is

    def right_of(self, model: int) -> list[bool]:
        return [said == label for (said, _), label in zip(self.answers[model], self.labels, strict=True)]

    def best_of(self, models: Sequence[int]) -> int:
        """Return the model that is right most often."""
        return max(models, key=lambda model: sum(self.right_of(model)))


def load(folder: Path, world: str, seed: int, items: int | None = None) -> World:
    """Read a world."""
    path = folder / f"{world}_{seed}.npz"
    try:
        with np.load(path) as arrays:
            labels, said, sure = (arrays[name][:items].tolist() for name in ("y", "said", "sure"))
        rows = json.loads(path.with_suffix(".items.json").read_text())[:items]
    except (OSError, KeyError, ValueError) as error:
        raise CosendError(f"{path} and its items cannot be read: {error}") from None
    answers = [[*zip(*each, strict=True)] for each in zip(columns(said), columns(sure), strict=True)]
    return World([Numbered(row, n) for n, row in enumerate(rows)], labels, answers)


def columns(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [*zip(*rows, strict=True)]


def made(settings: Settings, out: Path) -> Path:
    """Return the folder that has the arrays of all worlds; if only the script is there, it makes them."""
    names = [f"{world}_{seed}.npz" for world, seed in product(settings.worlds, range(settings.seeds))]
    for folder in (settings.data, out / MADE):
        if all((folder / name).is_file() for name in names):
            return folder
    script = settings.data / SCRIPT
    if not script.is_file():
        missing = next(name for name in names if not (settings.data / name).is_file())
        raise CosendError(
            f"{settings.data} has neither {missing} nor {SCRIPT}, which makes it: name the folder of the streams, or "
            "of what that script has made, with --data"
        )
    command = [sys.executable, str(script), str(out / MADE), str(settings.seeds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's folder
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise CosendError(f"{script} failed: {last}")
    return out / MADE


def play(world: World, delay: int, cost: float, *, seed: int = 0, learnt: bool = True) -> Row:
    """Play a world at four sites and return the numbers of site 1."""
    heard = Heard()
    sites = [
        Site(
            name,
            classifiers={
                f"model {n + 1}": partial(look_up, world.answers[n]) for n in range(place * OWN, (place + 1) * OWN)
            },
            seed=seed,
            learnt=learnt,
            journal=heard if place == 0 else None,
        )
        for place, name in enumerate(SITES)
    ]
    stream = [*zip(world.items, world.labels, strict=True)]
    network, begun = Network(sites, call_cost=cost), time.perf_counter()
    turns = [turn for turn in network.run(dict.fromkeys(SITES, stream), label_delay=delay) if turn.site == SITES[0]]
    seconds = time.perf_counter() - begun
    right = share([turn.decision.label == turn.truth for turn in turns])
    sent = share([turn.decision.arm in SITES for turn in turns])
    best, stacked = world.best_of(range(OWN)), heard.said[Learnt.STACK.value]
    alone = {
        arm: share([label == truth for label, truth in zip(filled(said, stacked), world.labels, strict=True)])
        for arm, said in heard.said.items()
    }
    return {
        "net": right - cost * sent,
        "right": right,
        "sent": sent,
        **(alone if learnt else {}),
        "best_local": share(world.right_of(best)),
        "us_per_decision": 1e6 * seconds / (len(SITES) * len(turns)),
    }


def filled(said: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return what an arm said about every item; where that is nothing, what another one did."""
    return [other if label is None else label for label, other in zip(said, others, strict=True)]


def share(hits: Sequence[bool]) -> float:
    """Return how many are true, in %."""
    return 100 * sum(hits) / len(hits)


def run_one(folder: Path, settings: Settings, place: Place) -> Row:
    """Play one run."""
    world = load(folder, place.world, place.seed, settings.items)
    return {**place._asdict(), **play(world, place.delay, place.cost, seed=place.seed, learnt=settings.learnt)}


def rows(settings: Settings, out: Path, progress: Progress) -> Iterator[Row]:
    """Yield what came of every run, as soon as it is there; several are played at once."""
    progress("making the worlds", 0, None)
    folder, places = made(settings, out), settings.places
    progress("playing", 0, len(places))
    if settings.processes == 1:
        for done, place in enumerate(places, start=1):
            yield run_one(folder, settings, place)
            progress("playing", done, len(places))
        return
    pool = ProcessPoolExecutor(settings.processes, mp_context=get_context("spawn"))
    try:
        waiting = [pool.submit(run_one, folder, settings, place) for place in places]
        for done, each in enumerate(as_completed(waiting), start=1):
            yield each.result()
            progress("playing", done, len(places))
    finally:
        pool.shutdown(cancel_futures=True)


def results(settings: Settings, found: Sequence[Row]) -> dict[str, Any]:
    """Return what was found in the shape of results.json."""
    ordered = sorted(found, key=lambda row: (WORLDS.index(row["world"]), row["delay"], row["cost"], row["seed"]))
    return {"rows": ordered, "settings": {"seeds": settings.seeds, "items": settings.items, "learnt": settings.learnt}}


def table(results: Mapping[str, Any]) -> TableText:
    """Return a line for each world, delay and cost."""
    by_place: dict[tuple[str, int, float], list[Row]] = {}
    for row in results["rows"]:
        by_place.setdefault((row["world"], row["delay"], row["cost"]), []).append(row)
    arms = [kind.value for kind in Learnt if results["settings"]["learnt"]]
    shown = ["net", "sent", *arms, "best_local"]
    heading = ["world", "late", "call", "net", "sent %", *(f"{arm} alone" for arm in arms), "best local", "us", "seeds"]
    lines = []
    for (world, delay, cost), own in by_place.items():
        means = [f"{np.mean([row[name] for row in own]):.2f}" for name in shown]
        speed = f"{np.mean([row['us_per_decision'] for row in own]):.0f}"
        lines.append([world, f"{delay:,}", f"{cost:g}", *means, speed, str(len(own))])
    return "Net reward of site 1 in %, nothing configured", heading, lines


def remarks(results: Mapping[str, Any]) -> list[str]:
    """Say how far site 1 is from the better of its learnt arms, where it falls short of it most."""
    if not results["settings"]["learnt"]:
        return []
    short = [
        (
            max(row[kind.value] for kind in Learnt) - row["net"],
            f"{row['world']}, {row['delay']:,} late, {row['cost']:g}",
        )
        for row in results["rows"]
    ]
    worst, where = max(short)
    if worst <= 0.0:
        return ["Nowhere below the better learnt arm alone."]
    return [f"Furthest below the better learnt arm alone: {worst:.2f} points ({where} a call)."]


def console_sections(results: Mapping[str, Any]) -> list[Section]:
    return [(table(results), [CAPTION])]


def write(results: Mapping[str, Any], folder: Path) -> list[str]:
    """Write results.json and tables.md; returns the names of the files."""
    text = as_markdown("Worlds", CAPTION, [(table(results), ())], remarks(results))
    return write_all(folder, results, {"tables.md": text}, {})
