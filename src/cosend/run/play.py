"""Play a network file: its policy at every site, and other policies and the baselines on the same items.

The compiled simulation plays what it can. Otherwise real sites play it item by item: models that learn, categories and
limits of patience are real then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.algorithm.layout import EXPLORE, TRAIN, Floats
from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import MOST_CUBE_AXES, CellKLUCB, CoS, Policy, ZoomingKLUCB
from cosend.algorithm.values import View
from cosend.axes import plain_name
from cosend.errors import LabelWarning
from cosend.models.adapters import Classifier, Label, SeesPart
from cosend.network import Network
from cosend.run.competitors import HINDSIGHT, NEED_PREDICTIONS, Played, baselines, slices_of
from cosend.run.predictions import fresh_copy
from cosend.run.prepare import NOTHING, PolicyPerSite, Prepared, policy_per_site
from cosend.simulation.feature_axes import features_with_axes
from cosend.simulation.loop import Trace
from cosend.simulation.simulate import simulate
from cosend.site import trusted_views

LOOKS: Final = 100  # how often `watch` is called
MOST_NAMED: Final = 3  # parts of the context that a note names
Watch = Callable[[int, float], None]  # slots that are done, share of errors so far


class Learnt(NamedTuple):
    """What sites with a policy have decided, and their learners afterwards."""

    policy: PolicyPerSite
    learners: list[Learner]
    trace: Trace  # `functions` are unknown if real sites played: a peer does not say which of its models it used
    right: list[Floats]  # [site]: 1 or 0 for every item
    notes: list[str]


class Outcome(NamedTuple):
    """What was played: the policy of the file, and other policies."""

    played: list[Played]
    first: Learnt
    others: Sequence[Learnt]
    notes: list[str]  # what a reader should know


def play(prepared: Prepared, watch: Watch | None = None, *, others: bool = True) -> Outcome:
    """Play the policy of the file, other policies if `others`, and all baselines."""
    first = play_policy(prepared, prepared.policy, watch)
    learnt = [play_policy(prepared, each) for each in other_policies(prepared)] if others else []
    played = [each for policy in (first, *learnt) for each in _played(prepared, policy)]
    labelled = {each.name: prepared.labelled(site) for site, each in enumerate(prepared.network.sites)}
    played = [each._replace(labelled=labelled[each.site]) for each in (*played, *baselines(prepared))]
    return Outcome(played, first, learnt, [*_how_it_was_played(prepared), *prepared.notes, *first.notes])


def play_policy(prepared: Prepared, policy: PolicyPerSite, watch: Watch | None = None) -> Learnt:
    """Play all sites with a policy: in the compiled simulation if it can, else as real sites."""
    return play_sites(prepared, policy, watch) if prepared.one_by_one else _simulated(prepared, policy, watch)


def _simulated(prepared: Prepared, policy: PolicyPerSite, watch: Watch | None) -> Learnt:
    def seen(slots: int, trace: Trace) -> None:
        if watch is not None:
            watch(slots, _errors_so_far(prepared, trace, slots))

    learners = prepared.learners(policy)
    watching = None if watch is None else seen
    trace = simulate(learners, **prepared.inputs(policy), delay=prepared.delays, watch=watching)
    functions = [trace.functions[prepared.places[:, site] != NOTHING, site] for site in range(len(learners))]
    right = [prepared.right[prepared.rows_of(site), used].astype(np.float64) for site, used in enumerate(functions)]
    notes = []
    if prepared.looks_at_features(policy):
        features, given = prepared.features, [plain_name(axis) for axis in prepared.given]
        for site, learner in enumerate(learners):
            names = features_with_axes([features[item] for item in prepared.items_of(site).tolist()])
            notes.append(trusted_note(learner.name, trusted_views(learner.views(), [*given, *names])))
    return Learnt(policy, learners, trace, right, notes)


def _errors_so_far(prepared: Prepared, trace: Trace, slots: int) -> float:
    places = prepared.places[:slots]
    arrived = (places != NOTHING) & prepared.items.known[prepared.arrivals[:slots]]
    if not arrived.any():
        return 0.0
    return 1.0 - float(prepared.right[places[arrived], trace.functions[:slots][arrived]].mean())


class Row(dict[str, Any]):
    """An item that knows its row in the stream, so that no model need be asked twice about it."""

    def __init__(self, item: Mapping[str, Any], number: int) -> None:
        super().__init__(item)
        self.number = number


class Recorded(SeesPart):
    """A model that was asked about every row of the stream before."""

    def __init__(self, model: Classifier, labels: Sequence[Label]) -> None:
        super().__init__(model)
        self.labels = labels

    def predict(self, items: Sequence[Row]) -> list[Label]:
        """Return what the model has said about every item."""
        return [self.labels[item.number] for item in items]

    def _view(self, item: Row) -> int:
        return item.number


def play_sites(prepared: Prepared, policy: PolicyPerSite, watch: Watch | None = None) -> Learnt:
    """Play real sites, with models as they were before anything was played."""
    notes: list[str] = []
    with _label_warnings(notes):
        sites = [
            prepared.built.site(
                name,
                context=None if each.mixes else prepared.axes,
                policy=each,
                score_local=score_local,
                classifiers=_fresh_models(prepared, name),
            )
            for name, (each, score_local) in policy.by_site.items()
        ]
        network = Network(sites, call_cost=prepared.network.call_costs())
        learners = [site.learner for site in sites]
        trace, right = _run(prepared, network, learners, watch)
    notes += [trusted_note(site.name, site.trust()) for site in sites if site.engine.state.encoder.features is not None]
    return Learnt(policy, learners, trace, right, notes)


def _fresh_models(prepared: Prepared, site: str) -> dict[str, Classifier]:
    """Return the models of a site: copies of those that learn, and recorded predictions of those that do not."""
    labels, constant = prepared.predictions.labels, prepared.predictions.constant
    return {
        name: Recorded(each, labels[name]) if name in constant else fresh_copy(name, each) if each.learns else each
        for name, each in prepared.built.classifiers(site).items()
    }


def _run(
    prepared: Prepared, network: Network, learners: list[Learner], watch: Watch | None
) -> tuple[Trace, list[Floats]]:
    shape, first, labels = prepared.arrivals.shape, len(prepared.training), prepared.items.truths()
    trace = Trace(np.zeros(shape, np.int8), np.zeros(shape, np.int16), np.full(shape, NOTHING, np.int16))
    streams = {
        site.name: ((Row(prepared.rows[item], first + item), labels[item]) for item in prepared.items_of(n).tolist())
        for n, site in enumerate(prepared.network.sites)
    }
    number_of = {learner.name: number for number, learner in enumerate(learners)}
    right: list[list[float]] = [[] for _ in learners]
    done, errors, pause = 0, 0.0, max(1, len(prepared.arrivals) // LOOKS)
    for name, decision, truth in network.run(streams, label_delay=prepared.network.label_delay):
        site = number_of[name]
        slot = len(right[site])
        if watch is not None and slot % pause == 0 and slot > 0 and done and site == 0:
            watch(slot, errors / done)
        trace.phases[slot, site] = decision.phase.value
        trace.arms[slot, site] = learners[site].arms.number(decision.arm)
        right[site].append(float(truth is not None and _equal(decision.label, truth)))
        if truth is not None:
            done, errors = done + 1, errors + 1.0 - right[site][-1]
    if watch is not None:
        watch(len(prepared.arrivals), errors / max(1, done))
    return trace, [np.array(each) for each in right]


def _equal(label: Any, truth: Any) -> bool:
    try:
        return bool(label == truth)
    except Exception:  # an array, or a user's label that raises when it is compared
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


def trusted_note(site: str, trust: Mapping[str, View]) -> str:
    """Say which parts of the context a site trusts most."""
    trusted = sorted(trust.items(), key=lambda each: -each[1].share)[:MOST_NAMED]
    return f"what {site} goes by: " + ", ".join(f"{what} ({100 * view.share:.0f} %)" for what, view in trusted)


def _how_it_was_played(prepared: Prepared) -> Iterator[str]:
    if prepared.one_by_one:
        yield f"played item by item, because {' and '.join(prepared.one_by_one)}"
    if not len(prepared.known_models):
        yield (
            f"left out, because they must know in advance what a classifier says: {', '.join(NEED_PREDICTIONS)}; "
            "and with the oracle, regret"
        )
    elif not prepared.all_known:
        without = " and ".join(map(repr, unknown_models(prepared)))
        yield (
            f"{', '.join(NEED_PREDICTIONS)} do without {without}, because what is played decides what they learn; "
            "and regret is not known"
        )


def unknown_models(prepared: Prepared) -> list[str]:
    """Return the models whose predictions depend on what is played."""
    names = [setting.name for _, _, setting in prepared.network.classifiers()]
    return [name for name, known in zip(names, prepared.predictions.known.tolist(), strict=True) if not known]


def what_others_see(prepared: Prepared) -> str | None:
    """Say what everything but the policy of the file decides by, if that is less; None if it is the same."""
    if not prepared.looks_at_features(prepared.policy):
        return None
    known = "the axes that the file names" if prepared.network.given else "the time"
    return f"{prepared.policy.name} looks at every feature. All others, the oracle per cell too, see only {known}."


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
    paper = policy_per_site(network, CoS(horizon=prepared.horizon, slices=slices))
    alike = [
        PolicyPerSite(type(each).__name__, {site: (each, scored) for site, (_, scored) in default.by_site.items()})
        for each in policies
    ]
    return [each for each in (default, paper, *alike) if each.name != prepared.policy.name]


def _played(prepared: Prepared, learnt: Learnt) -> Iterator[Played]:
    """Yield what a policy did at every site."""
    for site, learner in enumerate(learnt.learners):
        arrived = prepared.places[:, site] != NOTHING
        arms, phases = learnt.trace.arms[arrived, site].astype(np.int64), learnt.trace.phases[arrived, site]
        yield Played(
            learnt.policy.name,
            learner.name,
            learnt.right[site],
            np.asarray(learner.arms.costs)[arms],
            (arms >= len(learner.arms.own)).astype(np.float64),
            (phases == TRAIN).astype(np.float64),
            (phases == EXPLORE).astype(np.float64),
        )


def summary(played: list[Played], *, known: bool = True) -> list[dict[str, Any]]:
    """Return one row for every site and policy.

    Regret is against the oracle per cell: None if that did not play, or lacked some of the models (not `known`).
    """
    oracle = {each.site: float(each.net.sum()) for each in played if known and each.policy == "oracle per cell"}
    played = [each for each in played if each.counted.any()]  # the others have no labelled item
    return [
        {
            "site": each.site,
            "policy": each.policy,
            "error": _percent(1.0 - each.right[each.counted]),
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
