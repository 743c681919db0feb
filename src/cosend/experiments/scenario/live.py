"""A network played item by item through real sites: models learn, categories and limits of patience are real."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from cosend.classifiers.adapters import Classifier, Label, SeesPart
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import View
from cosend.errors import LabelWarning
from cosend.experiments.scenario.answers import fresh_copy
from cosend.experiments.scenario.world import NOTHING, Way, World
from cosend.simulation.kernel.loop import Trace
from cosend.simulation.network import Network, Playing, played

LOOKS: Final = 100  # how often whoever watches is told how far it is
MOST_NAMED: Final = 3  # parts of the context that a note names
Watch = Callable[[int, float], None]  # slots that are done, share of errors so far


class Live(NamedTuple):
    """What real sites did; `right` is by site, in the order of its items."""

    learners: list[Learner]
    trace: Trace  # its `functions` are unknown: a peer does not say which of its models it used
    right: list[Floats]
    notes: list[str]


class Elsewhere(Protocol):
    """The sites of a scenario as they run somewhere else, and what they know when all is played."""

    @property
    def sites(self) -> Mapping[str, Playing]:
        """The sites by name."""
        ...

    def learners(self) -> list[Learner]:
        """Return their learners, in the order of the file."""
        ...


def play(world: World, way: Way, watch: Watch | None = None, elsewhere: Elsewhere | None = None) -> Live:
    """Play all sites, which decide in some way, with models as they were before anything was played.

    elsewhere  where the sites run, if not here; they decide in that way already
    """
    notes: list[str] = []
    with _label_warnings(notes):
        network = _network(world, way)
        learners = [network.sites[site.name].learner for site in world.scenario.sites]
        sites = network.sites if elsewhere is None else elsewhere.sites
        trace, right = _played(world, sites, learners, watch, here=elsewhere is None)
    if elsewhere is None:
        notes += [*_what_they_go_by(network)]
    return Live(learners if elsewhere is None else elsewhere.learners(), trace, right, notes)


def _what_they_go_by(network: Network) -> Iterator[str]:
    """Yield for sites that look at every feature which of them matter."""
    for name, site in network.sites.items():
        if site.rules.past.features is not None:
            yield what_it_goes_by(name, site.trust())


def what_it_goes_by(site: str, trust: Mapping[str, View]) -> str:
    """Return which parts of the context a site trusts most, in words."""
    trusted = sorted(trust.items(), key=lambda each: -each[1].share)[:MOST_NAMED]
    return f"what {site} goes by: " + ", ".join(f"{what} ({100 * view.share:.0f} %)" for what, view in trusted)


def _network(world: World, way: Way) -> Network:
    built = world.built
    sites = [
        built.site(
            name,
            context=None if policy.mixes else world.axes,
            policy=policy,
            score_local=score_local,
            classifiers=_fresh(world, built.classifiers(name)),
        )
        for name, (policy, score_local) in way.by_site.items()
    ]
    return Network(sites, call_cost=world.scenario.call_costs())


class Row(dict[str, Any]):
    """An item of the stream that knows its number, so that nobody need ask a model twice about it."""

    def __init__(self, item: Mapping[str, Any], number: int) -> None:
        super().__init__(item)
        self.number = number


class Recorded(SeesPart):
    """A model that was asked about every row of the stream before: it sees of an item only which of them it is."""

    def __init__(self, model: Classifier, said: Sequence[Label]) -> None:
        super().__init__(model)
        self.said = said

    def predict(self, items: Sequence[Row]) -> list[Label]:
        """Return what the model has said of every item."""
        return [self.said[self._view(item)] for item in items]

    def _view(self, item: Row) -> int:
        return item.number


def _fresh(world: World, classifiers: dict[str, Classifier]) -> dict[str, Classifier]:
    """Return classifiers of which those that learn are copies: every play begins with the models of the file."""
    said, steady = world.answers.said, world.answers.steady
    return {
        name: Recorded(each, said[name]) if name in steady else fresh_copy(name, each) if each.learns else each
        for name, each in classifiers.items()
    }


def _played(
    world: World, sites: Mapping[str, Playing], learners: list[Learner], watch: Watch | None, *, here: bool
) -> tuple[Trace, list[Floats]]:
    shape = world.arrivals.shape
    trace = Trace(np.zeros(shape, np.int8), np.zeros(shape, np.int16), np.full(shape, NOTHING, np.int16))
    first, labels = len(world.training), world.items.truths()
    streams: dict[str, Iterator[Any]] = {
        site.name: (
            (Row(world.rows[item], first + item) if here else {**world.rows[item]}, labels[item])  # which may change
            for item in world.items_of(number).tolist()
        )
        for number, site in enumerate(world.scenario.sites)
    }
    number_of = {site.name: number for number, site in enumerate(world.scenario.sites)}
    right: list[list[float]] = [[] for _ in world.scenario.sites]
    done, errors, pause = 0, 0.0, max(1, len(world.arrivals) // LOOKS)
    for name, made, truth in played(sites, streams, world.scenario.label_delay):
        site = number_of[name]
        slot = len(right[site])
        if watch is not None and slot % pause == 0 and slot > 0 and done and site == 0:
            watch(slot, errors / done)
        trace.phases[slot, site] = made.phase.value
        trace.arms[slot, site] = learners[site].arms.number(made.arm)
        right[site].append(float(truth is not None and _equal(made.label, truth)))
        if truth is not None:
            done, errors = done + 1, errors + 1.0 - right[site][-1]
    if watch is not None:
        watch(len(world.arrivals), errors / max(1, done))
    return trace, [np.array(each) for each in right]


def _equal(label: Any, truth: Any) -> bool:
    try:
        return bool(label == truth)
    except Exception:  # an array, or whatever a user's label does when it is compared
        return False


@contextmanager
def _label_warnings(notes: list[str]) -> Iterator[None]:
    """Turn warnings about labels into notes, each once, and let all others pass."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LabelWarning)
        yield
    for each in caught:
        if not issubclass(each.category, LabelWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif str(each.message) not in notes:
            notes.append(str(each.message))
