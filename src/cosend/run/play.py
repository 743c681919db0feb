"""Play a network file: its policy at every site, and other policies and the baselines on the same items.

The compiled simulation plays what it can; real sites play the rest item by item: models that learn, categories, and
labels that are not awaited forever. The baselines:

    local only         the policy of the run at a site without peers
    epsilon-greedy     flat bandits over all models of all sites, by cell
    LinUCB             and with a linear model of the context
    uniform random     any model
    AdaBoost, SWA 100  ensembles: they ask every model about every item, and pay for each
    previous label     the newest known label; no model at all
    commonest label    the label that came most often

    best local model   the best of the site's own models, known in hindsight
    best single model  the best model of any site, known in hindsight
    oracle             the best model of every cell, known in hindsight

Labels arrive as late for all of them as for the policy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.algorithm.cells import keys_of
from cosend.algorithm.layout import EXPLORE, TRAIN, Floats, Ints
from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import MOST_CELLS, MOST_CUBE_AXES, CellKLUCB, CoS, EqualCells, Policy, ZoomingKLUCB
from cosend.algorithm.values import View
from cosend.axes import plain_name
from cosend.engine.events import Chosen, Event
from cosend.engine.learnt_arms import Learnt
from cosend.engine.scoring import Range, as_score, gain_of, right_or_wrong
from cosend.errors import LabelWarning, SettingError
from cosend.models.adapters import Classifier, Label, Predicted, SeesPart, predicted_by
from cosend.network import Network, Turn
from cosend.run.prepare import NOTHING, Gains, PolicyPerSite, Prepared, busiest, fresh_copy, policy_per_site
from cosend.simulation.adaboost import MOST_FUNCTIONS, adaboost, sliding_window_adaboost
from cosend.simulation.baselines import (
    best_fixed,
    commonest,
    epsilon_greedy,
    linucb,
    per_cell_oracle,
    persistence,
    uniform_random,
)
from cosend.simulation.loop import Trace
from cosend.simulation.simulate import features_with_axes, simulate
from cosend.site import LearntArm, Site, weighted_views
from cosend.streams.table import Mask

WINDOW: Final = 100  # of the sliding-window AdaBoost
NOTHING_LEARNT: Final = "no learnt arms"
HINDSIGHT: Final = ("oracle", "best single model", "best local model")  # these know all labels in advance
MOST_VALUES: Final = 20  # of a category that a linear model gets a column for
NEED_PREDICTIONS: Final = (  # these choose among models whose predictions are known in advance
    "the oracle",
    "best single model",
    "best local model",
    "epsilon-greedy",
    "LinUCB",
    "uniform random",
    "AdaBoost",
)
LOOKS: Final = 100  # how often `watch` is called
MOST_NAMED: Final = 3  # parts of the context that a note names
Watch = Callable[[int, float], None]  # slots that are done, share of errors so far


class Played(NamedTuple):
    """The decisions of one policy at one site, item by item."""

    policy: str
    site: str
    right: Floats  # 1 or 0; without labels, the scores
    paid: Floats
    sent: Floats  # 1 where a peer was asked
    trained: Floats | None = None  # 1 in a training phase; None for baselines
    explored: Floats | None = None
    counted: Mask = np.ones(0, np.bool_)  # where the label is known
    gained: Floats | None = None  # None: 1 for a correct prediction, 0 for an incorrect one

    @property
    def gains(self) -> Floats:
        return self.right if self.gained is None else self.gained

    @property
    def net(self) -> Floats:
        return (self.gains - self.paid)[self.counted]


def baselines(prepared: Prepared) -> Iterator[Played]:
    """Yield what every baseline would have done at every site; most may use all models of all sites."""
    alone = without_peers(prepared) if len(prepared.network.sites) > 1 and not prepared.one_by_one else None
    for site in range(len(prepared.network.sites)):
        found, labelled = list[Played](), prepared.labelled(site)
        if not labelled.any():
            continue
        if len(prepared.known_models):
            found += [*_choosing(prepared, site), *_combining(prepared, site, prepared.costs(site))]
        if alone is not None:
            found.append(alone[site])
        yield from (each._replace(counted=labelled) for each in [*found, *_repeating(prepared, site)])


def _late(prepared: Prepared) -> int:
    """Return how many items later a label is known, if labels are looked at once before every item."""
    return max(1, prepared.network.label_delay)


def _repeating(prepared: Prepared, site: int) -> Iterator[Played]:
    labels, name = prepared.items.labels[prepared.items_of(site)], prepared.network.sites[site].name
    free, told = np.zeros(len(labels)), prepared.told(site)
    repeated = () if prepared.network.is_scored else (("previous label", persistence), ("commonest label", commonest))
    for policy, predicted in repeated:
        said = predicted(labels, _late(prepared), told)
        right = (said == labels).astype(np.float64)
        yield Played(policy, name, right, free, free, gained=_gained(prepared, said, labels))


def _gained(prepared: Prepared, said: Any, labels: Any) -> Floats:
    """Return what these labels gain."""
    if prepared.built.reward is right_or_wrong:
        return np.asarray(said == labels, np.float64)
    both = zip(said.tolist(), labels.tolist(), strict=True)
    return np.array([_gain(prepared, label, truth) for label, truth in both], np.float64)


def without_peers(prepared: Prepared) -> list[Played]:
    """Play the policy of the run at sites without peers: the difference is what the network is worth."""
    if not prepared.policy.learnt:
        return [_without_peers(prepared, site) for site in range(len(prepared.network.sites))]
    alone = play_sites(prepared, prepared.policy, peers=False)
    return [each._replace(policy="local only", trained=None, explored=None) for each in _played(prepared, alone)]


def _without_peers(prepared: Prepared, site: int) -> Played:
    rows, name, own = prepared.rows_of(site), prepared.network.sites[site].name, prepared.owners == site
    seen, learner = prepared.inputs(prepared.policy), prepared.learner(prepared.network.sites[site], prepared.policy)
    items = seen["items"][prepared.places[:, site] != NOTHING, site : site + 1]
    gains = np.ascontiguousarray(seen["gains"][:, own])
    delays = prepared.delays
    if not isinstance(delays, int):
        delays = delays[prepared.places[:, site] != NOTHING, site : site + 1]
    trace = simulate([learner], **{**seen, "gains": gains, "items": items}, delay=delays)
    arms, paid = trace.arms[:, 0].astype(np.int64), np.asarray(learner.arms.costs)
    used = np.arange(len(rows)), trace.functions[:, 0]
    right, gained = (each[rows][:, own][used].astype(np.float64) for each in (_right(prepared), prepared.gains))
    return Played("local only", name, right, paid[arms], np.zeros(len(rows)), gained=gained)


def _right(prepared: Prepared) -> Gains:
    """Return [arrival, model]: whether a model is right; its score where there are no labels."""
    return prepared.gains if prepared.network.is_scored else prepared.right


def _choosing(prepared: Prepared, site: int) -> Iterator[Played]:
    """Yield the baselines that choose a model for every item, among those whose predictions are known."""
    rows, late, known = prepared.rows_of(site), _late(prepared), prepared.known_models
    costs, owners = prepared.costs(site)[known], prepared.owners[known]
    right, gained = (each[rows][:, known].astype(np.float64) for each in (_right(prepared), prepared.gains))
    values, contexts = gained - costs, prepared.contexts[rows]
    values[~prepared.labelled(site)] = np.nan
    learnt_from = np.where(prepared.told(site)[:, None], values, np.nan)
    cells, own = cells_of(prepared, contexts), np.flatnonzero(owners == site)
    has_peers = len(prepared.network.sites) > 1  # else it is the best single model
    choosing: dict[str, Ints] = {
        "oracle": per_cell_oracle(values, cells),
        "best single model": best_fixed(values),
        **({"best local model": own[best_fixed(values[:, own])]} if len(own) and has_peers else {}),
        "epsilon-greedy": epsilon_greedy(learnt_from, cells, seed=prepared.network.seed, delay=late),
        "LinUCB": linucb(learnt_from, _as_numbers(prepared, contexts), delays=late),
        "uniform random": uniform_random(values, prepared.network.seed),
    }
    for policy, picked in choosing.items():
        sent = (owners[picked] != site).astype(np.float64)
        name = prepared.network.sites[site].name
        used = np.arange(len(rows)), picked
        yield Played(policy, name, right[used], costs[picked], sent, gained=gained[used])


def cells_of(prepared: Prepared, contexts: Floats) -> Ints:
    """Return a number for the cell of every context: equal slices of numbers, and a cell for every category."""
    keys = keys_of(contexts[:, prepared.measured], slices_of(prepared))
    if len(prepared.measured) == len(prepared.axes):
        return keys
    codes = np.delete(contexts, prepared.measured, axis=1).astype(np.int64)
    cells: Ints = np.unique(np.column_stack([keys, codes]), axis=0, return_inverse=True)[1].reshape(-1)
    return cells


def _as_numbers(prepared: Prepared, contexts: Floats) -> Floats:
    """Return contexts for a linear model: a column of 0 and 1 for each of a category's commonest values."""
    columns = [contexts[:, prepared.measured]]
    for axis in sorted(set(range(len(prepared.axes))).difference(prepared.measured)):
        values, counts = np.unique(contexts[:, axis], return_counts=True)
        commonest_values = values[np.argsort(-counts, kind="stable")[:MOST_VALUES]]
        columns.append((contexts[:, axis][:, None] == commonest_values).astype(np.float64))
    return np.ascontiguousarray(np.hstack(columns))


def _combining(prepared: Prepared, site: int, costs: Floats) -> Iterator[Played]:
    """Yield the ensembles, which ask every model about every item; they need two classes and few models."""
    items, name, late = prepared.items_of(site), prepared.network.sites[site].name, _late(prepared)
    items = items[prepared.labelled(site)]  # the others teach nothing and do not count
    trained_on = int(prepared.training.known.sum())
    outputs, costs = prepared.predictions.codes[:, prepared.known_models], costs[prepared.known_models]
    if len(prepared.classes) != 2 or outputs.shape[1] > MOST_FUNCTIONS or trained_on < WINDOW + late - 1:
        return
    if (outputs < 0).any():  # a vote that is for neither class
        return
    labels_of_all = np.concatenate([prepared.training.labels[prepared.training.known], prepared.items.labels[items]])
    truth = (labels_of_all == prepared.classes[1]).astype(np.int64)
    first = len(prepared.training)
    said = np.concatenate([outputs[:first][prepared.training.known], outputs[first + items]])
    labels = truth[trained_on:]
    boosted = adaboost(said[:trained_on], truth[:trained_on], said[trained_on:])
    comes = np.concatenate([np.ones(trained_on, np.bool_), prepared.told(site)[prepared.labelled(site)]])
    slid = sliding_window_adaboost(said, truth, first=trained_on, window=WINDOW, delay=late, comes=comes)
    arrived = len(prepared.items_of(site))
    everything = np.full(arrived, float(costs.sum()))
    always = np.full(arrived, float(len(prepared.network.sites) > 1))
    for policy, predicted in (("AdaBoost", boosted), (f"SWA {WINDOW}", slid)):
        right = np.zeros(arrived)
        right[prepared.labelled(site)] = predicted == labels
        gained, classes = np.zeros(arrived), np.array(prepared.classes)
        gained[prepared.labelled(site)] = _gained(prepared, classes[predicted], classes[labels])
        yield Played(policy, name, right, everything, always, gained=gained)


def slices_of(prepared: Prepared) -> int:
    """Return into how many slices an axis is cut where equal cells are needed.

    These are the slices of the policy, or of CoS if it has none; with an unknown horizon, those for the whole stream.
    """
    policy = prepared.policy.policies[0]
    if not isinstance(policy, EqualCells):
        policy = CoS(max_cells=MOST_CELLS)
    return policy.slices_at(policy.horizon or len(prepared.arrivals), max(1, len(prepared.measured)))


class Decided(NamedTuple):
    """Decisions of sites with a policy, and their learners afterwards."""

    policy: PolicyPerSite
    learners: list[Learner]
    arms: list[Ints]  # [site]: for every item that arrives there
    phases: list[Ints]
    right: list[Floats]  # 1 or 0; without labels, the scores
    gained: list[Floats]
    notes: list[str]
    own: list[Floats]  # [site]: [item, own arm]: what its answer gains or would gain, not a number where unknown
    learnt: Sequence[Mapping[str, LearntArm]] = ()  # [site]: the arms that it learns itself, in the end


class Outcome(NamedTuple):
    """The result of playing: the policy of the file, and other policies."""

    played: list[Played]
    first: Decided
    others: Sequence[Decided]
    notes: list[str]  # what a reader should know


def play(
    prepared: Prepared,
    watch: Watch | None = None,
    *,
    others: bool = True,
    comparing: Callable[[str], None] | None = None,
) -> Outcome:
    """Play everything: the policy of the file, which is watched, then the others.

    comparing  is told what is played next, after the policy of the file
    """

    def told(name: str) -> str:
        if comparing is not None:
            comparing(name)
        return name

    first = play_policy(prepared, prepared.policy, watch)
    rivals = other_policies(prepared) if others else []
    learnt = [play_policy(prepared, each) for each in rivals if told(each.name)]
    played = [each for policy in (first, *learnt) for each in _played(prepared, policy)]
    told("the baselines")
    return Outcome(
        [*played, *baselines(prepared)],
        first,
        learnt,
        [*_what_learnt_arms_see(prepared), *_how_it_was_played(prepared), *prepared.notes, *first.notes],
    )


def play_policy(prepared: Prepared, policy: PolicyPerSite, watch: Watch | None = None) -> Decided:
    """Play all sites with a policy: in the compiled simulation if it can, else as real sites."""
    by_sites = prepared.one_by_one or policy.learnt
    return play_sites(prepared, policy, watch) if by_sites else _simulated(prepared, policy, watch)


def _simulated(prepared: Prepared, policy: PolicyPerSite, watch: Watch | None) -> Decided:
    def seen(slots: int, trace: Trace) -> None:
        if watch is not None:
            watch(slots, _errors_so_far(prepared, trace, slots))

    learners = prepared.learners(policy)
    watching = None if watch is None else seen
    trace = simulate(learners, **prepared.inputs(policy), delay=prepared.delays, watch=watching)
    arms, phases, right, gained = [], [], [], []
    for site in range(len(learners)):
        arrived = prepared.places[:, site] != NOTHING
        arms.append(trace.arms[arrived, site].astype(np.int64))
        phases.append(trace.phases[arrived, site].astype(np.int64))
        used = prepared.rows_of(site), trace.functions[arrived, site]
        right.append(_right(prepared)[used].astype(np.float64))
        gained.append(prepared.gains[used].astype(np.float64))
    notes = []
    if prepared.looks_at_features(policy):
        features, given = prepared.features, [plain_name(axis) for axis in prepared.given]
        for site, learner in enumerate(learners):
            names = features_with_axes([features[item] for item in prepared.items_of(site).tolist()])
            notes.append(weights_note(learner.name, weighted_views(learner.views(), [*given, *names])))
    own = [_own_gained(prepared, site, [*learner.arms.own], {}) for site, learner in enumerate(learners)]
    return Decided(policy, learners, arms, phases, right, gained, notes, own)


def _own_gained(prepared: Prepared, site: int, arms: Sequence[str], said: Mapping[str, Sequence[Any]]) -> Floats:
    """Return [item, own arm]: what its answer gains or would gain; not a number where that is unknown.

    said  by arm that the site learns itself: what it said about every item, None for nothing
    """
    models = [each.name for _, _, each in prepared.network.models()]
    truths, rows = prepared.items.truths(), prepared.rows_of(site)
    found = np.full((len(rows), len(arms)), np.nan)
    for column, arm in enumerate(arms):
        if arm in said:
            both = zip(said[arm], prepared.items_of(site).tolist(), strict=True)
            found[:, column] = [np.nan if label is None else _gain(prepared, label, truths[n]) for label, n in both]
        elif prepared.predictions.known[models.index(arm)]:
            found[:, column] = prepared.gains[rows, models.index(arm)]
    found[~prepared.labelled(site)] = np.nan
    return found


def _errors_so_far(prepared: Prepared, trace: Trace, slots: int) -> float:
    places = prepared.places[:slots]
    arrived = (places != NOTHING) & prepared.items.known[prepared.arrivals[:slots]]
    if not arrived.any():
        return 0.0
    return 1.0 - float(_right(prepared)[places[arrived], trace.functions[:slots][arrived]].mean())


class Row(dict[str, Any]):
    """An item that knows its row in the stream, so that no model need be asked twice about it."""

    def __init__(self, item: Mapping[str, Any], number: int) -> None:
        super().__init__(item)
        self.number = number


class Recorded(SeesPart):
    """A model that was asked about every row of the stream before; it is now asked about a part of one."""

    def __init__(self, model: Classifier, labels: Sequence[Label], sure: Sequence[float]) -> None:
        super().__init__(model)
        self.labels, self.sure = labels, sure

    def predict(self, items: Sequence[Row]) -> list[Label]:
        return self.predict_sure(items).labels

    def predict_sure(self, items: Sequence[Row]) -> Predicted:
        if not all(isinstance(item, Row) for item in items):  # a peer keeps features from it
            return predicted_by(self.classifier, items)
        return Predicted(*([column[item.number] for item in items] for column in (self.labels, self.sure)))

    def _view(self, item: Row) -> int:
        return item.number


class Heard:
    """A journal that keeps what learnt arms said about each item, None where they had learnt nothing yet."""

    def __init__(self, arms: Iterable[str]) -> None:
        self.said: dict[str, list[Label]] = {arm: [] for arm in arms}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Chosen) and not event.again:
            for arm, said in self.said.items():
                said += event.opinions.get(arm, [None] * len(event.arms))


def play_sites(prepared: Prepared, policy: PolicyPerSite, watch: Watch | None = None, *, peers: bool = True) -> Decided:
    """Play real sites, with models as they were before anything was played; without peers each is alone."""
    notes: list[str] = []
    _check_budgets(prepared)
    heard = [Heard(policy.learnt.get(name, {})) for name in policy.by_site]
    with _label_warnings(notes):
        sites = [
            prepared.built.site(
                name,
                context=prepared.built.axes if each.mixes else prepared.axes,
                policy=each,
                score_local=score_local,
                classifiers=_fresh_models(prepared, name) | _learnt(policy, name),
                learnt=False,
                journal=journal if journal.said else None,
                **({} if each.mixes else {"budget": None}),  # no other keeps to one
            )
            for (name, (each, score_local)), journal in zip(policy.by_site.items(), heard, strict=True)
        ]
        costs = prepared.network.call_costs()
        networks = [Network(sites, call_cost=costs)] if peers else [Network([site]) for site in sites]
        learners = [site.learner for site in sites]
        arms, phases, right, gained = _run(prepared, networks, learners, watch)
    notes += [f"{site.name}: {each}" for site in sites for each in site.spending()]
    notes += [
        weights_note(site.name, weighted_views(site.learner.views(), _plain_names(site)))
        for site in sites
        if site.engine.state.encoder.features is not None
    ]
    own = [
        _own_gained(prepared, site, [*learner.arms.own], journal.said)
        for site, (learner, journal) in enumerate(zip(learners, heard, strict=True))
    ]
    learnt = [site.learnt() for site in sites]
    return Decided(policy, learners, arms, phases, right, gained, notes, own, learnt)


def _check_budgets(prepared: Prepared) -> None:
    """Raise if a budget goes by time: a recording is played as fast as it goes."""
    for site in prepared.network.sites:
        budget = prepared.network.budget_of(site)
        timed = [each.key for each in budget.limits() if each.seconds] if budget is not None else []
        if budget is not None and (timed or budget.at_most_per_second):
            key = timed[0] if timed else "at_most_per_second"
            raise SettingError("budget", key, "per_item where a recording is played: it has no clock")


def _fresh_models(prepared: Prepared, site: str) -> dict[str, Classifier]:
    """Return the models of a site: copies of those that learn, and recorded predictions of those that do not."""
    said = prepared.predictions
    return {
        name: Recorded(each, said.labels[name], said.sure[name])
        if name in said.constant
        else (fresh_copy(name, each) if each.learns else each)
        for name, each in prepared.built.models(site).items()
    }


def _learnt(policy: PolicyPerSite, site: str) -> dict[str, Any]:
    return {arm: Learnt(kind) for arm, kind in policy.learnt.get(site, {}).items()}


def _run(
    prepared: Prepared, networks: Sequence[Network], learners: list[Learner], watch: Watch | None
) -> tuple[list[Ints], list[Ints], list[Floats], list[Floats]]:
    """Return [site] the arms and phases of all items, whether they were right, and what they gained."""
    first, labels = len(prepared.training), prepared.items.truths()
    items = [prepared.items_of(site).tolist() for site in range(len(learners))]
    streams = {
        site.name: (
            (Row(prepared.rows[item], first + item), labels[item] if told else None)
            for item, told in zip(items[n], prepared.told(n).tolist(), strict=True)
        )
        for n, site in enumerate(prepared.network.sites)
    }
    number_of = {learner.name: number for number, learner in enumerate(learners)}
    arms, phases = ([list[int]() for _ in learners] for _ in range(2))
    right, gained = ([list[float]() for _ in learners] for _ in range(2))
    done, errors, pause = 0, 0.0, max(1, len(prepared.arrivals) // LOOKS)
    for name, decision, _ in _turns(networks, streams, prepared.network.label_delay):
        site = number_of[name]
        slot = len(right[site])
        truth = labels[items[site][slot]]
        if watch is not None and slot % pause == 0 and slot > 0 and done and site == 0:
            watch(slot, errors / done)
        phases[site].append(decision.phase.value)
        arms[site].append(learners[site].arms.number(decision.arm))
        gained[site].append(_gain(prepared, decision.label, truth))
        is_scored = prepared.network.is_scored
        right[site].append(
            gained[site][-1] if is_scored else float(truth is not None and _equal(decision.label, truth))
        )
        if truth is not None:
            done, errors = done + 1, errors + 1 - right[site][-1]
    if watch is not None:
        watch(len(prepared.arrivals), errors / max(1, done))
    whole = [[np.array(each, np.int64) for each in of_sites] for of_sites in (arms, phases)]
    known = [[np.array(each, np.float64) for each in of_sites] for of_sites in (right, gained)]
    return whole[0], whole[1], known[0], known[1]


def _gain(prepared: Prepared, label: Any, truth: Any) -> float:
    """Return what an answer gains; nothing if there is none, or if its label never comes."""
    if label is None or truth is None:
        return 0.0
    reward = prepared.built.reward
    return float(_equal(label, truth)) if reward is right_or_wrong else gain_of(reward, label, truth, "an item")


def _turns(networks: Sequence[Network], streams: Mapping[str, Iterable[Any]], delay: int) -> Iterator[Turn]:
    for network in networks:
        yield from network.run({site: streams[site] for site in network.sites}, label_delay=delay)


def _equal(label: Any, truth: Any) -> bool:
    try:
        return bool(label == truth)
    except Exception:  # an array, or a user's label that raises when it is compared
        return False


@contextmanager
def _label_warnings(notes: list[str]) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LabelWarning)
        yield
    for each in caught:
        if not issubclass(each.category, LabelWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif str(each.message) not in notes:
            notes.append(str(each.message))


def _plain_names(site: Site) -> list[str]:
    """Return the names of the axes of a site; a feature that has an axis twice has one name."""
    return [*map(plain_name, site.axes[:-1]), *site.axis_names[len(site.axes) - 1 :]]  # features are the last


def weights_note(site: str, trust: Mapping[str, View]) -> str:
    """Say which views a site trusts most; a feature that has an axis twice, of the file and its own, is one."""
    shares: dict[str, float] = {}
    for view, known in trust.items():
        what = " + ".join(dict.fromkeys(view.split(" + ")))
        shares[what] = shares.get(what, 0.0) + known.share
    heaviest = sorted(shares.items(), key=lambda each: -each[1])[:MOST_NAMED]
    return f"most weight at {site}: " + ", ".join(f"{what} ({100 * share:.0f}%)" for what, share in heaviest)


def _what_learnt_arms_see(prepared: Prepared) -> Iterator[str]:
    """Say that a context hides features from learnt arms, where the policy can look at all of them."""
    network, mixes = prepared.network, all(policy.mixes for policy in prepared.policy.policies)
    unseen = set(prepared.items.features).difference(network.hidden(), [axis.feature for axis in network.given])
    if prepared.policy.learnt and network.given and not network.watches and unseen and mixes:
        names = ", ".join(axis.title for axis in network.given)
        yield f'learnt arms see only the context ({names}); add kind = "features" to show them all features'


def _how_it_was_played(prepared: Prepared) -> Iterator[str]:
    if prepared.one_by_one:
        yield f"played item by item, because {' and '.join(prepared.one_by_one)}"
    if not len(prepared.known_models):
        yield (
            f"not played, because they need the predictions of the models in advance: {', '.join(NEED_PREDICTIONS)}; "
            "without the oracle, regret is unknown"
        )
    elif not prepared.all_known:
        names = [setting.name for _, _, setting in prepared.network.models()]
        known = prepared.predictions.known.tolist()
        without = " and ".join(repr(name) for name, is_known in zip(names, known, strict=True) if not is_known)
        yield (
            f"{', '.join(NEED_PREDICTIONS)} do not use {without}, because their predictions depend on what is played; "
            "so regret is unknown"
        )


def what_others_see(prepared: Prepared) -> str | None:
    """Say what everything but the policy of the file decides by, if that is less; None if it is the same."""
    network, more = prepared.network, list[str]()
    if prepared.looks_at_features(prepared.policy):
        more.append("sees every feature")
    if network.heard:
        more.append("sees the opinions of the models")
    if not more:
        return None
    sees = f"{prepared.policy.name} {' and '.join(more)}."
    if not network.context:
        return (
            f"{sees} Without a context, other policies and the oracle see only the time; name one with [[context]] for "
            "a fair comparison."
        )
    known = "the time"
    if network.given:
        known = "the other axes of the file" if network.heard else "the axes that the file names"
    return f"{sees} All others, the oracle included, see only {known}."


def other_policies(prepared: Prepared) -> list[PolicyPerSite]:
    """Return what is played besides the policy of the file: the default, and policies by name.

    Labels score the same models for them as for the default, except for CoS, which stays as the paper has it. Cubes
    split on a limited number of axes.
    """
    slices, network = slices_of(prepared), prepared.network
    policies: list[Policy] = [CellKLUCB(slices=slices)]
    if len(prepared.axes) <= MOST_CUBE_AXES:
        policies += [ZoomingKLUCB()]
    default = policy_per_site(network, None)
    paper = policy_per_site(network, CoS(horizon=busiest(prepared.arrivals), slices=slices))
    alike = [
        PolicyPerSite(type(each).__name__, {site: (each, scored) for site, (_, scored) in default.by_site.items()})
        for each in policies
    ]
    others = [each for each in (default, paper, *alike) if each.name != prepared.policy.name]
    if prepared.policy.learnt:
        others.insert(0, prepared.policy._replace(name=NOTHING_LEARNT, learnt={}))
    return others


def _played(prepared: Prepared, learnt: Decided) -> Iterator[Played]:
    for site, learner in enumerate(learnt.learners):
        arms, phases = learnt.arms[site], learnt.phases[site]
        yield Played(
            learnt.policy.name,
            learner.name,
            learnt.right[site],
            np.asarray(learner.arms.costs)[arms],
            (arms >= len(learner.arms.own)).astype(np.float64),
            (phases == TRAIN).astype(np.float64),
            (phases == EXPLORE).astype(np.float64),
            prepared.labelled(site),
            learnt.gained[site],
        )


def summary(played: list[Played], *, known: bool = True, units: Range | None = None) -> list[dict[str, Any]]:
    """Return one row for every site and policy; `units` are those of scores, None where there are labels.

    Regret is against the oracle: None if that did not play, or lacked some of the models (not `known`).
    """
    oracle = {each.site: float(each.net.sum()) for each in played if known and each.policy == "oracle"}
    played = [each for each in played if each.counted.any()]  # the others have no labelled item
    return [
        {
            "site": each.site,
            "policy": each.policy,
            "error": _percent(1.0 - each.right[each.counted]) if units is None else None,
            "score": None if units is None else as_score(float(each.right[each.counted].mean()), units),
            "mean_reward": float(each.net.sum()) / len(each.net),
            "sent": _percent(each.sent),
            "cost": float(each.paid.sum()),
            "training": None if each.trained is None else _percent(each.trained),
            "exploration": None if each.explored is None else _percent(each.explored),
            "regret": oracle[each.site] - float(each.net.sum()) if each.site in oracle else None,
            "hindsight": each.policy in HINDSIGHT,
        }
        for each in played
    ]


def _percent(share: Floats) -> float:
    return 100 * float(share.mean()) if len(share) else 0.0
