"""A network file made ready to play: every context is known, and every prediction that can be known in advance.

A model that does not learn always says the same about an item: it is asked once, in batches. A model that learns from
every label of its site says what the labels before have taught it, whichever arm was used: it is asked and taught once,
in the order of the stream. The predictions of a model that learns from the items it was used for, or from labels that
peers forward, cannot be known in advance: they depend on the policy. Nor are those of arms that a site learns itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.algorithm.learner import Learner
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import ScoreLocal
from cosend.axes import Axis, PreviousLabel, Time, read_columns
from cosend.config.build import Built, read_stream
from cosend.config.network_file import SOURCE, NetworkFile
from cosend.config.sections import SiteSection
from cosend.engine.encoding import Encoder
from cosend.engine.scoring import Range, gain_of, right_or_wrong
from cosend.errors import ClassifierError, ContextError, NetworkFileError, SettingError, cut, in_one_line, listed, shown
from cosend.models.adapters import Classifier, Failure, Item, Label, Predicted, answers_of, teach
from cosend.models.built_in import Coded
from cosend.simulation.simulate import NO_LABEL
from cosend.streams.table import Mask, Table

NOTHING: Final = -1  # no item arrives in this slot
NO_CLASS: Final = -1  # a label that never is the true one, or no prediction
AT_ONCE: Final = 256  # items in a batch for a model
LONGEST_REASON: Final = 300
MOST_SHOWN: Final = 1_000
Progress = Callable[[str, int, int], None]  # which model is asked, rows done, rows in all
Model = TypeVar("Model", bound=Classifier)
Gains = npt.NDArray[np.uint8] | Floats
Labels = list[Label]  # [row]: what a model says; None where it has no prediction


def no_progress(name: str, done: int, rows: int) -> None:
    pass


class Predictions(NamedTuple):
    """Opinions of all models about all rows."""

    labels: dict[str, Labels]  # by model, if they do not depend on what is played
    sure: dict[str, list[float]]  # by model that never learns: how sure it is of each, not a number where unknown
    codes: Ints  # [row, model]: positions in the classes; NO_CLASS where nothing is known
    known: npt.NDArray[np.bool_]  # [model]: whether its predictions are in `labels`
    constant: frozenset[str]  # models that never learn and have a prediction for every row
    unknown: list[str]  # why the others cannot be known
    incomplete: list[str]  # why a model may fail, so that another arm is taken
    notes: list[str]


def predict_all(
    built: Built,
    table: Table,
    rows: Sequence[Item],
    classes: Sequence[Any],
    order: Sequence[Ints],
    comes: Sequence[Mask],
    progress: Progress = no_progress,
) -> Predictions:
    """Ask every model about every row of a table.

    rows   the same as items
    order  [site]: the rows as they arrive there
    comes  [site]: whether their labels arrive
    """
    found = _Found(built, rows, table.truths(), progress)
    for site, own, labelled in zip(built.network.sites, order, comes, strict=True):
        models = built.models(site.name)
        for name, model in models.items():
            if not model.learns:
                found.ask_about_all_rows(name, model)
        if any(model.learns for model in models.values()):
            found.teach_in_order(site, models, own.tolist(), labelled.tolist())
    names, code_of = [each.name for _, _, each in built.network.models()], {c: n for n, c in enumerate(classes)}
    columns = [_codes(found.labels.get(name, [None] * len(rows)), code_of) for name in names]
    notes = [
        f"{name!r} never gives a label that occurs: it says {_examples(found.labels[name])}, "
        f"and the labels are {listed(classes)}; let it return one of these, where quotes mark text"
        for name, column in zip(names, columns, strict=True)
        if name in found.labels and name not in found.failing and (column == NO_CLASS).all()
    ]
    return Predictions(
        found.labels,
        found.sure,
        np.stack(columns, axis=1),
        np.array([name in found.labels for name in names]),
        frozenset(found.labels) - found.failing.keys() - found.learning,
        list(found.unknown.values()),
        list(found.failing.values()),
        [*notes, *found.paid.values()],
    )


class _Found:
    def __init__(self, built: Built, rows: Sequence[Item], truths: Labels, progress: Progress) -> None:
        self._built, self._rows, self._truths, self._progress = built, rows, truths, progress
        self.labels: dict[str, Labels] = {}
        self.sure: dict[str, list[float]] = {}
        self.learning: set[str] = set()
        self.unknown: dict[str, str] = {}  # why its predictions cannot be known
        self.failing: dict[str, str] = {}  # why it has no prediction for some rows
        self.paid: dict[str, str] = {}  # a remark on one whose answers have their costs

    def ask(self, name: str, model: Classifier, items: Sequence[Any]) -> Predicted:
        """Return what a model says about items, None where it fails."""
        said = answers_of(name, model, items)
        failures = [each for each in said.labels if type(each) is Failure]
        if not failures:
            return said
        reason = cut(failures[0].reason, LONGEST_REASON)
        self.failing.setdefault(name, f"{name!r} cannot label every row ({reason})")
        return Predicted([None if type(each) is Failure else each for each in said.labels])

    def ask_about_all_rows(self, name: str, model: Classifier) -> None:
        count = len(self._rows)
        if isinstance(model, Coded):
            self._progress(name, 0, count)
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # models refuse the result
                    self._keep(name, [model.predict_rows(self._built.rows_for(model.features))])
            except (ValueError, ArithmeticError) as error:
                raise NetworkFileError(SOURCE, [f"classifier {name!r} cannot label all rows ({error})"]) from error
            return
        parts = []
        for start in range(0, count, AT_ONCE):
            self._progress(name, start, count)
            items = [{**item} for item in self._rows[start : start + AT_ONCE]]  # a model may change its items
            parts.append(self.ask(name, model, items))
        self._keep(name, parts)
        self._note_gaps(name, self.labels[name])

    def _keep(self, name: str, parts: Iterable[Predicted]) -> None:
        self.labels[name], self.sure[name] = [], []
        for labels, sure, costs in parts:
            self.labels[name] += labels
            self.sure[name] += [math.nan] * len(labels) if sure is None else sure
            if costs is not None and name not in self.paid:
                self.paid[name] = f"{name!r} says what its answers cost; a run counts the cost that its file names"

    def teach_in_order(
        self, site: SiteSection, models: dict[str, Classifier], order: list[int], comes: list[bool]
    ) -> None:
        """Ask and teach the models of a site that learn, unless what they learn depends on what is played."""
        self.learning.update(name for name, model in models.items() if model.learns)
        for name in (name for name, model in models.items() if model.learns):
            why = self._why_unknown(site)
            if why:
                self.unknown[name] = f"{name!r} {why}"
        students = _Students(models, self)
        if not students.names:
            return
        late = max(1, self._built.network.label_delay)
        for n, row in enumerate(order):
            if n % AT_ONCE == 0:
                self._progress(" and ".join(students.names), n, len(order))
            if n >= late and comes[n - late]:
                earlier = order[n - late]
                students.learn(self._rows[earlier], self._truths[earlier])
            students.predict(self._rows[row], row)
        for name in students.names:
            self.labels[name] = [students.labels[name].get(row) for row in range(len(self._rows))]
            self._note_gaps(name, [self.labels[name][row] for row in order])

    def _note_gaps(self, name: str, labels: Labels) -> None:
        if any(label is None for label in labels):
            self.failing.setdefault(name, f"{name!r} has no answer to some rows")

    def _why_unknown(self, site: SiteSection) -> str:
        """Say why what models of a site learn depends on what is played; nothing if it does not."""
        if site.learns_from == "used":
            return "learns from the items that it was used for"
        if len(self._built.network.sites) > 1:
            return "learns also from labels that peers pass on"
        if self._built.network.patience != Patience():
            return "learns, and labels are not awaited forever"
        return ""


class _Students:
    """Copies of the models of a site that learn, on their way through its stream."""

    def __init__(self, models: dict[str, Classifier], found: _Found) -> None:
        learning = {name: model for name, model in models.items() if model.learns and name not in found.unknown}
        self._models = {name: fresh_copy(name, each) for name, each in learning.items()}
        self.names = list(learning)
        self.labels: dict[str, dict[int, Label]] = {name: {} for name in learning}  # by row
        self._found = found

    def predict(self, item: Any, row: int) -> None:
        for name, model in self._models.items():
            (self.labels[name][row],) = self._found.ask(name, model, [{**item}]).labels

    def learn(self, item: Any, truth: Label) -> None:
        for name, model in self._models.items():
            teach(name, model, {**item}, truth)


def fresh_copy(name: str, model: Model) -> Model:
    """Return a copy of a model that learns, as the file has it, to be played once."""
    try:
        return deepcopy(model)
    except Exception as error:  # a user's model may raise anything
        raise ClassifierError(f"classifier {name!r} learns and cannot be copied ({in_one_line(error)})") from error


def _codes(labels: Sequence[Label], code_of: dict[Any, int]) -> Ints:
    return np.array([_code(label, code_of) for label in labels], np.int64)


def _code(label: Label, code_of: dict[Any, int]) -> int:
    try:
        return code_of.get(label, NO_CLASS)
    except Exception:  # a list, or a user's label that raises when it is compared
        return NO_CLASS


def _examples(labels: Sequence[Label]) -> str:
    return ", ".join(sorted({shown(label) for label in labels[:MOST_SHOWN]})[:3])


class PolicyPerSite(NamedTuple):
    """How the sites of a network decide."""

    name: str
    by_site: dict[str, tuple[Policy, ScoreLocal]]  # the policy of each, and which of its models a label scores
    learnt: Mapping[str, Mapping[str, str]] = {}  # by site that learns arms itself: what each of them is

    @property
    def policies(self) -> list[Policy]:
        return [policy for policy, _ in self.by_site.values()]


class Prepared(NamedTuple):
    """Everything that a policy or baseline may be played against."""

    network: NetworkFile
    built: Built
    training: Table
    items: Table
    rows: list[dict[str, Any]]  # the items as sites get them
    arrivals: Ints  # [slot, site]: the item that arrives, or NOTHING
    comes: Mask  # [slot, site]: whether its label arrives
    contexts: Floats  # [arrival, axis]; for a category, codes that all sites share
    places: Ints  # [slot, site]: the row in `contexts` and `right`, or NOTHING
    right: npt.NDArray[np.uint8]  # [arrival, model]; 0 where the prediction is unknown, and everywhere without labels
    gains: Gains  # the same: what predictions gain
    predictions: Predictions  # for the training rows, then the items
    classes: list[Any]  # the labels that occur, sorted
    given: list[Axis]
    axes: list[Axis]  # those given, or else the time, for policies that need an axis
    policy: PolicyPerSite
    one_by_one: list[str]  # why real sites must play it item by item; empty if the compiled simulation can
    notes: list[str]  # what a reader should know

    @property
    def known_models(self) -> Ints:
        """The models whose predictions are known in advance, whatever is played."""
        return np.flatnonzero(self.predictions.known)

    @property
    def all_known(self) -> bool:
        return bool(self.predictions.known.all())

    @property
    def owners(self) -> Ints:
        counts = [len([*self.network.models(site.name)]) for site in self.network.sites]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def units(self) -> Range | None:
        """The lowest and the highest score; None where there are labels."""
        return self.built.units if self.network.is_scored else None

    @property
    def known_by(self) -> str:
        """The truth about answers: labels or scores."""
        return "score" if self.network.is_scored else "label"

    @property
    def measured(self) -> list[int]:
        return [n for n, axis in enumerate(self.axes) if not axis.is_category]

    @property
    def delays(self) -> int | Ints:
        """How many slots later labels are known: for all, or for each [slot, site] if some never come."""
        delay = self.network.label_delay
        if self.comes[self.arrivals != NOTHING].all():
            return delay
        return np.where(self.comes, delay, NO_LABEL)  # any value where nothing arrives

    @property
    def features(self) -> list[Mapping[str, Any]]:
        """The features of every item that sites without a context look at."""
        return [*read_columns(self.built.axes[-1:], self.rows)[0]]

    def learners(self, policy: PolicyPerSite) -> list[Learner]:
        learners = [self.learner(site, policy) for site in self.network.sites]
        for learner in learners:
            for name, (cost, functions) in self.built.peers(learner.name).items():
                learner.add_peer(name, cost, functions=functions)
        return learners

    def learner(self, site: SiteSection, how: PolicyPerSite) -> Learner:
        policy, score_local = how.by_site[site.name]
        axes = self.given if self.looks_at_features(how) else self.axes
        return Learner(
            site.name,
            own={each.name: each.cost for _, _, each in self.network.models(site.name)},
            dimensions=len(axes),
            categories=[n for n, axis in enumerate(axes) if axis.is_category],
            policy=policy,
            seed=self.network.seed,
            score_local=score_local,
        )

    def looks_at_features(self, policy: PolicyPerSite) -> bool:
        """Tell whether sites look at every feature; otherwise they get the axes that there are."""
        return self.network.watches and any(each.mixes for each in policy.policies)

    def labelled(self, site: int) -> Mask:
        """Return for every item of a site whether its true label is known, here if not there."""
        return self.items.known[self.items_of(site)]

    def told(self, site: int) -> Mask:
        """Return for every item of a site whether its label arrives there."""
        told: Mask = self.comes[self.arrivals[:, site] != NOTHING, site]
        return told

    def inputs(self, policy: PolicyPerSite) -> Mapping[str, Any]:
        inputs = {"contexts": self.contexts, "gains": self.gains, "items": self.places}
        if not self.looks_at_features(policy):
            return inputs
        features = self.features
        if self.given:
            arrived = self.arrivals[self.arrivals != NOTHING]
            return {**inputs, "features": [features[item] for item in arrived.tolist()]}
        no_axes = np.zeros((len(self.items), 0))  # then an item is the same wherever and whenever it arrives
        gains = gains_about(self.predictions, self.items, self.classes, self.built)
        return {"contexts": no_axes, "gains": gains, "items": self.arrivals, "features": features}

    def rows_of(self, site: int) -> Ints:
        """Return the rows of `contexts` and `right` that belong to a site, in the order of its stream."""
        rows: Ints = self.places[self.places[:, site] != NOTHING, site]
        return rows

    def items_of(self, site: int) -> Ints:
        items: Ints = self.arrivals[self.arrivals[:, site] != NOTHING, site]
        return items

    def costs(self, site: int) -> Floats:
        """Return what using each model costs a site: its own cost, or the cost of the call."""
        own = np.array([each.cost for _, _, each in self.network.models()])
        called = np.array(list(self.network.call_costs().values()))[self.owners]
        return np.where(self.owners == site, own, called)

    def first_slots(self, slots: int) -> Prepared:
        arrived = int((self.arrivals[:slots] != NOTHING).sum())
        return self._replace(
            arrivals=self.arrivals[:slots],
            comes=self.comes[:slots],
            places=self.places[:slots],
            contexts=self.contexts[:arrived],
            right=self.right[:arrived],
            gains=self.gains[:arrived],
        )


def prepare(network: NetworkFile, folder: Path, progress: Progress = no_progress) -> Prepared:
    """Read the stream, make the models, ask them what can be asked in advance, and compute every context."""
    table = read_stream(network, folder)
    built = Built(network, folder, table)
    built.models()
    classes = np.unique(table.labels).tolist()
    first = network.training
    training, items = table.part(0, first), table.part(first, len(table))
    arrivals = arrivals_at(network, items)
    comes, arrived = coming(network, arrivals, items), (arrivals != NOTHING).T
    order = [first + own[here] for own, here in zip(arrivals.T, arrived, strict=True)]
    told = [own[here] for own, here in zip(comes.T, arrived, strict=True)]
    if not items.known.any():
        wrong = f"stream: none of the {len(items):,} rows that arrive has a label, at least one is needed"
        raise NetworkFileError(SOURCE, [wrong])
    rows = [item for item, _ in table.rows()]
    predictions = predict_all(built, table, rows, classes, order, told, progress)
    given: list[Axis] = [axis for axis in built.axes if not axis.watches and not axis.hears]
    axes = given or [Time(busiest(arrivals))]
    places, contexts = contexts_of(arrivals, comes, rows[first:], items.truths(), axes, network.label_delay)
    prepared = Prepared(
        network=network,
        built=built,
        training=training,
        items=items,
        rows=rows[first:],
        arrivals=arrivals,
        comes=comes,
        contexts=contexts,
        places=places,
        right=right_about(predictions, items, classes)[arrivals[arrivals != NOTHING]],
        gains=gains_about(predictions, items, classes, built)[arrivals[arrivals != NOTHING]],
        predictions=predictions,
        classes=classes,
        given=given,
        axes=axes,
        policy=policy_per_site(network, built.policy),
        one_by_one=[*predictions.unknown, *predictions.incomplete, *_beyond_simulation(network, arrivals, comes)],
        notes=[
            *_unlabelled_notes(network, training, items),
            *_unused_confusions(network, classes),
            *(() if network.is_scored else predictions.notes),
        ],
    )
    try:
        prepared.learners(prepared.policy)
    except SettingError as error:  # the policy does not go with this number of axes or items
        raise NetworkFileError(SOURCE, [f"policy: {error}"]) from error
    return prepared


def policy_per_site(network: NetworkFile, policy: Policy | None) -> PolicyPerSite:
    """Return how the sites of a file decide with a policy, or with the default."""
    chosen = {site.name: network.policy_of(site, policy) for site in network.sites}
    learnt = {site.name: arms for site in network.sites if (arms := network.learnt_arms(site, policy))}
    name = " and ".join(dict.fromkeys(type(each).__name__ for each, _ in chosen.values()))
    return PolicyPerSite(name, chosen, learnt)


def right_about(predictions: Predictions, items: Table, classes: list[Any]) -> npt.NDArray[np.uint8]:
    """Return [item, model]: whether a model is right about an item; 0 where that is unknown."""
    truth = np.searchsorted(np.array(classes), items.labels)
    codes = predictions.codes[len(predictions.codes) - len(items) :]
    right: npt.NDArray[np.uint8] = ((codes == truth[:, None]) & items.known[:, None]).astype(np.uint8)
    return right


def gains_about(predictions: Predictions, items: Table, classes: list[Any], built: Built) -> Gains:
    """Return [item, model]: what a model gains on an item; 0 where that is unknown."""
    if built.reward is right_or_wrong:
        return right_about(predictions, items, classes)
    truths, first = items.truths(), len(predictions.codes) - len(items)
    gains = np.zeros((len(items), predictions.codes.shape[1]))
    for number, (_, _, model) in enumerate(built.network.models()):
        if model.name in predictions.labels:
            said = predictions.labels[model.name][first:]
            known = [n for n, truth in enumerate(truths) if truth is not None and said[n] is not None]
            where = f"{model.name!r}, item"
            found = [gain_of(built.reward, said[n], truths[n], f"{where} {n + 1}") for n in known]
            gains[known, number] = found
    return gains


def _unlabelled_notes(network: NetworkFile, training: Table, items: Table) -> Iterator[str]:
    few = [
        f"{100 * site.label_share:.3g}% of the items at {site.name}" for site in network.sites if site.label_share < 1
    ]
    if few:
        yield f"true labels arrive for {' and '.join(few)}; the results count all items"
    if items.unlabelled:
        yield (
            f"{items.unlabelled:,} of {len(items):,} items have no label: they are routed like all others, but teach "
            "nothing and count in no error and no reward"
        )
    if training.unlabelled:
        yield f"{training.unlabelled:,} of {len(training):,} training rows have no label: no model is trained on them"


def _unused_confusions(network: NetworkFile, classes: Sequence[Any]) -> Iterator[str]:
    for n, each in enumerate(network.reward.confusions, start=1):
        if each.truth not in classes:
            yield f"reward.confusions.{n}.truth: {shown(each.truth)} never occurs; the labels are {listed(classes)}"


def _beyond_simulation(network: NetworkFile, arrivals: Ints, comes: Mask) -> Iterator[str]:
    """Yield what real sites can do and the compiled simulation cannot."""
    missing = int(((arrivals != NOTHING) & ~comes).sum(axis=0).max())
    for axis in network.context:
        if axis.kind == "category":
            yield f"{axis.feature!r} is a category"
    if network.heard:
        yield f"the context has opinions ({', '.join(axis.title for axis in network.heard)})"
    if network.patience != Patience():
        yield "labels are not awaited forever"
    elif missing + network.label_delay > Patience().max_pending:
        yield "more labels are missing than a site waits for"
    if network.strict_labels:
        yield "labels are strict"
    kept = [site.name for site in network.sites if site.sharing.limits] if len(network.sites) > 1 else []
    yield from (f"{name!r} keeps features from its peers" for name in kept)
    if any(network.budget_of(site) is not None for site in network.sites):
        yield "there is a budget"
    if network.watches and (arrivals[:1] == NOTHING).any():
        yield "nothing arrives at some sites, which would have features to look at"


def busiest(arrivals: Ints) -> int:
    return max(1, int((arrivals != NOTHING).sum(axis=0).max()))


def arrivals_at(network: NetworkFile, items: Table) -> Ints:
    """Return [slot, site]: which item arrives."""
    names = [site.name for site in network.sites]
    if items.sites is not None:
        own = [np.flatnonzero(items.sites == name) for name in names]
    else:
        own = [np.arange(len(items))] * len(names)
    arrivals = np.full((max(len(each) for each in own), len(names)), NOTHING, np.int64)
    for site, each in enumerate(own):
        arrivals[: len(each), site] = each
    return arrivals


def coming(network: NetworkFile, arrivals: Ints, items: Table) -> Mask:
    """Return [slot, site]: whether the label of the item that arrives will come."""
    comes = np.zeros(arrivals.shape, np.bool_)
    for number, site in enumerate(network.sites):
        here = arrivals[:, number] != NOTHING
        comes[here, number] = items.known[arrivals[here, number]]
        if site.label_share < 1:
            drawn = np.random.default_rng([network.seed, number]).random(len(comes))
            comes[:, number] &= drawn < site.label_share
    return comes


def contexts_of(
    arrivals: Ints, comes: Mask, rows: list[dict[str, Any]], labels: list[Any], axes: list[Axis], delay: int
) -> tuple[Ints, Floats]:
    """Return [slot, site]: the row of the context of every arrival, and the contexts, read as a real site does."""
    places = np.where(arrivals == NOTHING, NOTHING, np.cumsum(arrivals.ravel() != NOTHING).reshape(arrivals.shape) - 1)
    contexts = np.zeros((int((arrivals != NOTHING).sum()), len(axes)))
    codes = Encoder(axes).codes  # all sites share them here
    at_once = 1 if any(isinstance(axis, PreviousLabel) for axis in axes) else max(1, len(arrivals))
    for site in range(arrivals.shape[1]):
        here = arrivals[:, site] != NOTHING
        encoder, own, told = Encoder(axes), arrivals[here, site].tolist(), comes[here, site].tolist()
        encoder.codes = codes
        for n in range(0, len(own), at_once):
            known = n - max(1, delay)  # the newest item with a label, which matters if items go one by one
            if known >= 0 and told[known]:
                encoder.remember_label([known + 1], [labels[own[known]]])
            some = own[n : n + at_once]
            columns = _read(axes, rows, some)
            contexts[places[n : n + len(some), site]] = encoder.place(columns, n)
    return places, contexts


def _read(axes: list[Axis], rows: list[dict[str, Any]], items: list[int]) -> list[Any]:
    """Return what axes read from items, or raise with the number of the first that cannot be read."""
    try:
        return read_columns(axes, [rows[item] for item in items])
    except ContextError as error:
        if len(items) > 1:
            for item in items:
                _read(axes, rows, [item])
        raise ContextError(f"item {items[0] + 1}, counted after the training rows: {error}") from error
