"""Four sites with two models each, three public streams, and nothing configured: `make worlds`.

A world is a stream of items with true labels, and what eight models say about each item and how sure they are: two of
site 1, two of site 2, and so on. Each site may ask the others. They are given no context, no policy, and nothing else
that could be chosen. Site 1 is reported. The scenarios:

    together      every item arrives at all four sites
    apart         each item arrives at one: where most of its kind do
    few-labels    as together, and a label comes for one item in twenty
    well-trained  as together; models have seen all rows but the last thousand, which are the stream

With `--field`, bandits of other libraries play the items of site 1 too. Their arms are all eight models, those of other
sites at the cost of a call, which is more choice than a site has; their context is every feature, scaled to [0, 1] by
its extremes in the stream. Their labels are as late.

The folder of the streams has `worlds.py`, which makes the arrays NAME_SEED.npz and NAME_SEED.items.json; or it has
these already. It is not part of cosend.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from itertools import permutations, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cosend import Network, Site
from cosend.algorithm.layout import Ints
from cosend.checks import check_one_of, check_whole
from cosend.engine.learnt_arms import Learnt
from cosend.errors import CosendError, SettingError
from cosend.run.play import Heard
from research.beyond.learnt import Numbered, look_up
from research.other_libraries import COMPILED, FIELD
from research.other_libraries import play as play_other
from research.output import Section, TableText, as_markdown
from research.output import write as write_all

WORLDS: Final = ("letter", "eeg", "bike")
SCENARIOS: Final = ("together", "apart", "few-labels", "well-trained")
DELAYS: Final = (1, 100, 1_000)  # items until a label is known
COSTS: Final = (0.0, 0.05, 0.2)  # of a call
SITES: Final = ("site1", "site2", "site3", "site4")
OWN: Final = 2  # models of a site
STREAMS: Final = Path("streams")
SCRIPT: Final = "worlds.py"  # in the folder of the streams
MADE: Final = "streams"  # in the folder of the results: what that script makes
PROCESSES: Final = 2
AT_HOME: Final = 0.8  # of the items of a kind, where they are apart
LABELLED: Final = 0.05  # of the items, where labels are few
SHORT: Final = 1_000  # items, where models are well trained
LEAST_ITEMS: Final = 100
SLOW: Final = {"mabwiser_ucb1"}  # the rule of river's UCB, many times slower
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
    scenario: str = SCENARIOS[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a user may change."""

    data: Path = STREAMS
    worlds: tuple[str, ...] = WORLDS
    scenarios: tuple[str, ...] = SCENARIOS[:1]
    delays: tuple[int, ...] = DELAYS
    costs: tuple[float, ...] = COSTS
    seeds: int = 3
    items: int | None = None  # at most; all unless given
    learnt: bool = True
    field: bool = False  # whether the bandits of other libraries play too
    processes: int = PROCESSES

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds)
        check_whole("processes", self.processes)
        if self.items is not None:
            check_whole("items", self.items, least=LEAST_ITEMS)
        for world in self.worlds:
            check_one_of("world", world, WORLDS)
        for scenario in self.scenarios:
            check_one_of("scenario", scenario, SCENARIOS)
        for delay in self.delays:
            check_whole("late", delay, least=0)
        for cost in self.costs:
            if not 0.0 <= cost <= 1.0:
                raise SettingError("cost", cost, "a number in [0, 1]")

    @property
    def places(self) -> list[Place]:
        """All runs."""
        return [
            Place(*each) for each in product(self.worlds, range(self.seeds), self.delays, self.costs, self.scenarios)
        ]


class World(NamedTuple):
    """A stream, and what models say about it."""

    items: list[Numbered]
    labels: list[int]
    answers: list[list[tuple[int, float]]]  # [model][item]: what it says, and how sure it is

    def right_of(self, model: int, items: Sequence[int] | None = None) -> list[bool]:
        """Return of items, or of all, whether a model is right."""
        answers, labels = self.answers[model], self.labels
        return [answers[n][0] == labels[n] for n in (range(len(labels)) if items is None else items)]

    def best_of(self, models: Sequence[int], items: Sequence[int] | None = None) -> int:
        """Return the model that is right most often."""
        return max(models, key=lambda model: sum(self.right_of(model, items)))


def load(folder: Path, world: str, seed: int, items: int | None = None) -> World:
    """Read a world."""
    path = folder / f"{world}_{seed}.npz"
    try:
        with np.load(path) as arrays:
            labels, said, sure = (arrays[name][:items].tolist() for name in ("y", "said", "sure"))
        rows = json.loads(path.with_suffix(".items.json").read_text())[:items]
    except (OSError, KeyError, ValueError) as error:
        raise CosendError(f"{path} and its items cannot be read: {error}") from None
    return world_of(rows, labels, said, sure)


def world_of(rows: Sequence[Any], labels: list[int], said: Sequence[Any], sure: Sequence[Any]) -> World:
    """Return a world of items, and [item][model] what models say and how sure they are."""
    answers = [[*zip(*each, strict=True)] for each in zip(columns(said), columns(sure), strict=True)]
    return World([Numbered(row, n) for n, row in enumerate(rows)], labels, answers)


@lru_cache(maxsize=1)
def well_trained(script: Path, name: str, seed: int) -> World:
    """Return the last rows of a world, and what models say about them that have learnt from all others."""
    spec = importlib.util.spec_from_file_location("worlds_of_streams", script)
    if spec is None or spec.loader is None or not script.is_file():
        raise CosendError(f"well-trained models are made with {script}, which is not there")
    worlds = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worlds)
    table, labels, part, in_time, *_ = getattr(worlds, name)()
    random, first = np.random.default_rng(seed), len(labels) - SHORT
    order = np.arange(len(labels)) if in_time else random.permutation(len(labels))
    rows, labels = table.iloc[order].reset_index(drop=True), labels[order]
    numbers = rows.astype(float).to_numpy()
    part = worlds.clusters(numbers[:first], seed) if part is None else part[order][:first]
    said = np.zeros((SHORT, len(worlds.MODELS)), np.int64)
    sure = np.zeros(said.shape)
    for model, build in enumerate(worlds.MODELS):
        own = np.flatnonzero(part == model // OWN)
        seen = np.r_[own, random.choice(first, len(own) // 4, replace=False)]  # one part in five is of any kind
        with warnings.catch_warnings(action="ignore"):  # some of them do not converge
            fitted = build().fit(numbers[seen], labels[seen])
        chances = fitted.predict_proba(numbers[first:])
        said[:, model], sure[:, model] = fitted.classes_[chances.argmax(axis=1)], chances.max(axis=1)
    return world_of(rows.iloc[first:].to_dict("records"), labels[first:].tolist(), said.tolist(), sure.tolist())


def homes(world: World, seed: int) -> Ints:
    """Return for every item the site where it arrives if they are apart: for most of them, that of their kind.

    Kinds are clusters of the items; each belongs to another site, so that models know those at home as well as can be.
    """
    clusters, scales = import_module("sklearn.cluster"), import_module("sklearn.preprocessing")
    numbers = np.array([[float(value) for value in item.values()] for item in world.items])
    low, high = np.quantile(numbers, [0.02, 0.98], axis=0)
    scaled = scales.StandardScaler().fit_transform(np.clip(numbers, low, high))
    kinds = clusters.KMeans(len(SITES), n_init=3, random_state=seed).fit(scaled).labels_
    right = np.array([world.right_of(model) for model in range(len(world.answers))]).reshape(len(SITES), OWN, -1)
    known = np.array([right[:, :, kinds == kind].sum(axis=(1, 2)) for kind in range(len(SITES))])  # [kind, site]
    order = max(permutations(range(len(SITES))), key=lambda each: known[range(len(SITES)), each].sum())
    random, home = np.random.default_rng(seed), np.array(order)[kinds]
    moved: Ints = (home + random.integers(1, len(SITES), len(home))) % len(SITES)
    return np.where(random.random(len(home)) < AT_HOME, home, moved)


class Arriving(NamedTuple):
    """What arrives where in a scenario, and which labels come."""

    items: list[list[int]]  # [site]: their numbers
    told: list[bool]  # [item]


def arriving(world: World, scenario: str, seed: int) -> Arriving:
    """Return the streams of a scenario."""
    count, random = len(world.items), np.random.default_rng(seed)
    home = homes(world, seed) if scenario == "apart" else None
    items = [[*range(count)] if home is None else np.flatnonzero(home == site).tolist() for site in range(len(SITES))]
    share = LABELLED if scenario == "few-labels" else 1.0
    return Arriving(items, (random.random(count) < share).tolist())


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


def play(
    world: World, delay: int, cost: float, *, seed: int = 0, learnt: bool = True, scenario: str = SCENARIOS[0]
) -> Row:
    """Play a world at four sites and return the numbers of site 1."""
    heard, (arrives, told) = Heard(kind.value for kind in Learnt), arriving(world, scenario, seed)
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
    streams = {
        site: [(world.items[n], world.labels[n] if told[n] else None) for n in items]
        for site, items in zip(SITES, arrives, strict=True)
    }
    network, begun = Network(sites, call_cost=cost), time.perf_counter()
    turns = [turn for turn in network.run(streams, label_delay=delay) if turn.site == SITES[0]]
    seconds = time.perf_counter() - begun
    labels = [world.labels[n] for n in arrives[0]]
    right = share([turn.decision.label == label for turn, label in zip(turns, labels, strict=True)])
    sent = share([turn.decision.arm in SITES for turn in turns])
    best, stacked = world.best_of(range(OWN), arrives[0]), heard.said[Learnt.STACK.value]
    alone = {
        arm: share([label == truth for label, truth in zip(filled(said, stacked), labels, strict=True)])
        for arm, said in heard.said.items()
    }
    return {
        "net": right - cost * sent,
        "right": right,
        "sent": sent,
        **(alone if learnt else {}),
        "best_local": share(world.right_of(best, arrives[0])),
        "us_per_decision": 1e6 * seconds / sum(map(len, arrives)),
    }


def field(world: World, place: Place) -> dict[str, float]:
    """Return the net reward of every bandit of another library that plays the items of site 1, in %."""
    arrives, told = arriving(world, place.scenario, place.seed)
    items = arrives[0]
    right = np.array([world.right_of(model, items) for model in range(len(world.answers))]).T
    values = right - np.where(np.arange(right.shape[1]) < OWN, 0.0, place.cost)
    numbers = np.array([[float(value) for value in world.items[n].values()] for n in items])
    low, high = numbers.min(0), numbers.max(0)
    contexts = (numbers - low) / np.where(high > low, high - low, 1.0)
    delays = np.where(np.array(told)[items], place.delay, len(items)).astype(np.int64)
    earned = {}
    for name in FIELD.keys() - SLOW:
        picks = COMPILED.get(name, partial(play_other, name))(values, contexts, delays=delays, seed=place.seed)
        earned[name] = share(values[np.arange(len(items)), picks].tolist())
    return dict(sorted(earned.items()))


def filled(said: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return what an arm said about every item; where that is nothing, what another one did."""
    return [other if label is None else label for label, other in zip(said, others, strict=True)]


def share(hits: Sequence[float]) -> float:
    """Return how many are true, or the mean of values, in %."""
    return 100 * sum(hits) / len(hits)


def run_one(folder: Path, settings: Settings, place: Place) -> Row:
    """Play one run."""
    if place.scenario == "well-trained":
        world = well_trained(settings.data / SCRIPT, place.world, place.seed)
    else:
        world = load(folder, place.world, place.seed, settings.items)
    options: dict[str, Any] = {"seed": place.seed, "learnt": settings.learnt, "scenario": place.scenario}
    others = {"field": field(world, place)} if settings.field else {}
    return {**place._asdict(), **play(world, place.delay, place.cost, **options), **others}


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

    def place(row: Row) -> tuple[Any, ...]:
        return SCENARIOS.index(row["scenario"]), WORLDS.index(row["world"]), row["delay"], row["cost"], row["seed"]

    ordered = sorted(found, key=place)
    shown = ("seeds", "items", "learnt", "field")
    return {"rows": ordered, "settings": {name: getattr(settings, name) for name in shown}}


def tables(results: Mapping[str, Any]) -> list[TableText]:
    """Return a table for each scenario."""
    return [table(results, scenario) for scenario in dict.fromkeys(row["scenario"] for row in results["rows"])]


def table(results: Mapping[str, Any], scenario: str = SCENARIOS[0]) -> TableText:
    """Return a line for each world, delay and cost."""
    by_place: dict[tuple[str, int, float], list[Row]] = {}
    for row in (row for row in results["rows"] if row["scenario"] == scenario):
        by_place.setdefault((row["world"], row["delay"], row["cost"]), []).append(row)
    arms = [kind.value for kind in Learnt if results["settings"]["learnt"]]
    shown = ["net", "sent", *arms, "best_local"]
    heading = ["world", "late", "call", "net", "sent %", *(f"{arm} alone" for arm in arms), "best local"]
    heading += [*(["best bandit"] if results["settings"]["field"] else []), "us", "seeds"]
    lines = []
    for (world, delay, cost), own in by_place.items():
        means = [f"{np.mean([row[name] for row in own]):.2f}" for name in shown]
        speed = f"{np.mean([row['us_per_decision'] for row in own]):.0f}"
        bandit = [f"{reward:.2f} ({name})" for name, reward in [best_of_field(own)] if name]
        lines.append([world, f"{delay:,}", f"{cost:g}", *means, *bandit, speed, str(len(own))])
    return f"Net reward of site 1 in %, nothing configured: {scenario}", heading, lines


def best_of_field(rows: Sequence[Row]) -> tuple[str, float]:
    """Return the bandit of another library that earns most over the draws of a world; no name if none played."""
    means = {name: float(np.mean([row["field"][name] for row in rows])) for name in rows[0].get("field", {})}
    return max(means.items(), key=lambda each: each[1], default=("", 0.0))


def remarks(results: Mapping[str, Any]) -> list[str]:
    """Say how far site 1 is from the better of its learnt arms, where it falls short of it most."""
    if not results["settings"]["learnt"]:
        return []
    short = [
        (
            max(row[kind.value] for kind in Learnt) - row["net"],
            f"{row['scenario']}, {row['world']}, {row['delay']:,} late, {row['cost']:g}",
        )
        for row in results["rows"]
    ]
    worst, where = max(short)
    if worst <= 0.0:
        return ["Nowhere below the better learnt arm alone."]
    return [f"Furthest below the better learnt arm alone: {worst:.2f} points ({where} a call)."]


def console_sections(results: Mapping[str, Any]) -> list[Section]:
    return [(each, [CAPTION]) for each in tables(results)]


def write(results: Mapping[str, Any], folder: Path) -> list[str]:
    """Write results.json and tables.md; returns the names of the files."""
    text = as_markdown("Worlds", CAPTION, [(each, ()) for each in tables(results)], remarks(results))
    return write_all(folder, results, {"tables.md": text}, {})
