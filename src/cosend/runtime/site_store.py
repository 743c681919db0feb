"""The folder of a running site: how it starts from there, and what it writes there.

    folder/events.sqlite             events (store/event_log.py), and how they are found (store/log_index.py)
    folder/state-000000001200.npz    snapshots: the state, and the models that learn as they were then
    folder/lock                      held while the site runs

A site starts from its newest snapshot and the events after it. A model that learns is in the snapshot as a pickle,
which is read from nowhere but this folder, and is retaught the labels after it, in their order: it is then what
it would be if the site had never stopped.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import numpy as np

from cosend.algorithm.arms import Arms
from cosend.algorithm.state import State
from cosend.engine.budget import Accounts, changed_budget, in_words
from cosend.engine.engine import LearnsFrom
from cosend.engine.events import Event, ModeChanged, Started, decode
from cosend.engine.fold import fold
from cosend.engine.site_state import Example, SiteState
from cosend.errors import StateError, in_one_line
from cosend.models.adapters import Classifier
from cosend.runtime.model_threads import teach_all
from cosend.runtime.site_setup import Setup
from cosend.store.event_log import EventLog
from cosend.store.log_index import LogIndex
from cosend.store.recovery import newest, read_events, write_snapshot

P = ParamSpec("P")
T = TypeVar("T")
LOG: Final = logging.getLogger("cosend.runtime")
MODEL: Final = "model."  # before the name of a model, among the arrays of a snapshot
NODE: Final = "node"  # the facts of a snapshot that are not the state's
FILE: Final = "file"  # the setting that says what the network file said when the site was last started


@dataclass
class Recovered:
    """A site as its folder has it."""

    state: SiteState
    classifiers: dict[str, Classifier]
    observer: str | None = None  # the classifier that answers while decisions are only observed
    covered: int = 0  # the position of the snapshot it was started from


class Store:
    """The folder of one site, which belongs to this process while it is open."""

    def __init__(self, folder: Path, setup: Setup, *, durable: bool = True) -> None:
        self.setup = setup
        self.log = EventLog(folder, site=setup.name, durable=durable)
        with ExitStack() as on_error:
            on_error.callback(self.log.close)
            self.index = LogIndex(self.log.reader())
            on_error.callback(self.index.close)
            self._far = LogIndex(self.log.reader())
            on_error.pop_all()
        self._looking = ThreadPoolExecutor(1, "looks into the log")

    async def look(self, work: Callable[Concatenate[LogIndex, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        """Read in another thread what would hold the loop for too long."""
        call = partial(work, self._far, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._looking, call)

    def close(self) -> None:
        self._looking.shutdown()
        self._far.close()
        self.index.close()
        self.log.close()

    def recover(self) -> Recovered:
        """Return the site as it was, or a new one if the folder is empty; its state has no journal yet."""
        models = {arm: _copy(arm, model) for arm, model in self.setup.models.items()}
        if not self.log.position:
            return Recovered(self.setup.new_state(None), models)
        self._check_context()
        state, covered, snapshot = newest(self.log, self.setup.axes)
        recovered = Recovered(state or self.setup.new_state(None), models, covered=covered)
        if snapshot is not None:
            _restore(recovered, snapshot)
        tail = self._watched(recovered, covered)
        examples = _teaching(recovered.classifiers, self.setup.learns_from)
        recovered.state = fold(tail, axes=self.setup.axes, onto=state, first=covered, examples=examples)
        self._check_same(recovered.state)
        recovered.state.learnt.trees()  # fitted now if the log says they were: later, a client would wait for it
        return recovered

    def _watched(self, recovered: Recovered, start: int) -> Iterator[Event]:
        for _, event in read_events(self.log, start):
            if isinstance(event, ModeChanged):
                recovered.observer = event.model or None
            yield event

    def _check_context(self) -> None:
        """Raise if the file now describes items in another way: what was learnt would be useless."""
        start = decode(self.log.first())
        if isinstance(start, Started):
            self._check("context", tuple(start.axes), self.setup.context)

    def _check_same(self, state: SiteState) -> None:
        """Raise if the file now says something that cannot be changed under what was learnt.

        Where the file says nothing and the default has changed, the folder keeps its old setting.
        """
        setup, fresh, known = self.setup, self.setup.new_state(None).learner, state.learner
        self._check("policy", known.policy.facts(), fresh.policy.facts(), named=setup.policy is not None)
        labels = known.policy.share_labels, fresh.policy.share_labels
        self._check("share_labels", *labels, named=setup.share_labels is not None)
        self._check("score_local", known.score_local, fresh.score_local, named=setup.score_local is not None)
        self._check("patience", known.patience, fresh.patience)
        self._check("seed", known.seed, fresh.seed)

    def _check(self, what: str, then: Any, now: Any, *, named: bool = True) -> None:
        if now != then and named:
            raise StateError(
                f"{self.log.folder}: was made with the {what} {then}, and the site now has {now}; "
                f"use that one, or start in another folder"
            )
        if now != then:
            LOG.info(
                f"no {what} is named: the site keeps the one in its folder, not the default",
                extra={"of_the_folder": then, "default": now},
            )

    def last_run(self, recovered: Recovered) -> LastRun:
        """Return the site as its last run left it, and what its file said when it was started."""
        arms, said = recovered.state.learner.arms, self.index.setting(FILE)
        file = FromFile({}, {}) if said is None else msgspec.msgpack.decode(said, type=FromFile)
        return LastRun(dict(arms.own), dict(arms.peers), recovered.observer, file, recovered.state.accounts)

    def write_snapshot(self, finish: Callable[[], State], models: dict[str, bytes], facts: Any, position: int) -> None:
        """Write a snapshot; its events must be on the disk. Another thread may do this."""
        state = finish()
        arrays = {MODEL + arm: np.frombuffer(pickled, np.uint8) for arm, pickled in models.items()}
        write_snapshot(self.log, State({**state.facts, NODE: facts}, {**state.arrays, **arrays}), position)


def pickled(name: str, classifier: Classifier) -> bytes:
    """Return a model that learns as bytes, for the folder of its site."""
    try:
        return pickle.dumps(classifier)
    except Exception as error:  # a user's model may raise anything when it is pickled
        raise StateError(f"classifier {name!r} learns, and cannot be kept: {in_one_line(error)}") from error


def _copy(name: str, classifier: Classifier) -> Classifier:
    """Return a copy of a model that learns, as a site may start from it more than once."""
    if not classifier.learns:
        return classifier
    copy: Classifier = pickle.loads(pickled(name, classifier))  # noqa: S301 - it was pickled a moment ago
    return copy


def _restore(recovered: Recovered, state: State) -> None:
    """Replace fresh models by the ones in the snapshot."""
    recovered.observer = state.facts.get(NODE, {}).get("observer")
    for arm, classifier in recovered.classifiers.items():
        if classifier.learns and MODEL + arm in state.arrays:
            try:
                model = pickle.loads(state.arrays[MODEL + arm].tobytes())  # noqa: S301 - of this site's own folder
            except Exception as error:  # a user's model may raise anything
                raise StateError(
                    f"classifier {arm!r} cannot be read from the snapshot: {in_one_line(error)}"
                ) from error
            recovered.classifiers[arm] = model


def _teaching(classifiers: dict[str, Classifier], learns_from: LearnsFrom) -> Callable[[Sequence[Example]], None]:
    learning = {name: each for name, each in classifiers.items() if each.learns}

    def again(examples: Sequence[Example]) -> None:
        for name, model in learning.items():
            some = [(each.item, each.truth) for each in examples if learns_from == "all" or each.arm == name]
            teach_all(name, model, some)  # what fails failed the first time too

    return again


class FromFile(NamedTuple):
    """The settings of a site that its file may change from one start to the next."""

    costs: dict[str, float]
    hashes: Mapping[str, str]  # by classifier: of what its model was made of
    budget: dict[str, Any] | None = None  # in costs

    @classmethod
    def of(cls, setup: Setup) -> FromFile:
        costs, budget = {arm: setup.cost(arm) for arm in (*setup.local, *setup.peers)}, setup.budget_in_costs
        return cls(costs, setup.hashes, None if budget is None else budget.facts())


class LastRun(NamedTuple):
    """The site as its last run left it: its arms with their costs, and what its file said then."""

    own: Mapping[str, float]
    peers: Mapping[str, float]
    observer: str | None
    file: FromFile
    accounts: Accounts | None  # of its budget


def taken_over(last: LastRun, setup: Setup, arms: Arms, observer: str | None) -> Iterator[str]:
    """Yield a sentence for each thing that is not as it was, or not as the file says."""
    for kind, before, now in (("classifier", last.own, arms.own), ("peer", last.peers, arms.peers)):
        for arm in [arm for arm in now if arm not in before]:
            yield f"{kind} {arm!r} is new, at a cost of {setup.in_words(now[arm])}"
        for arm in [arm for arm in before if arm not in now]:
            yield f"{kind} {arm!r} is gone: what was learnt about it is dropped"
        for arm in [arm for arm in now if arm in before]:
            yield from _costs(arm, last, setup, now[arm])
    yield from _budget(last, setup)
    for arm in sorted(arms.paused):
        yield f"{arm!r} is still paused"
    for arm, known in setup.hashes.items():
        if arm in last.own and last.file.hashes.get(arm, known) != known:
            yield f"classifier {arm!r} is another model than at the last start; what was learnt about it is kept"
    if observer is not None:
        yield f"observe mode is still on: {observer!r} answers, and decisions are only learnt from"
    elif last.observer is not None:
        yield f"observe mode is off: {last.observer!r}, which answered, is gone"


def _budget(last: LastRun, setup: Setup) -> Iterator[str]:
    says, now = setup.budget_in_costs, None if last.accounts is None else last.accounts.budget
    if last.file.budget != FromFile.of(setup).budget:
        yield from changed_budget(last.accounts, says, setup.money)
    elif now != says:
        set_to, in_file = in_words(now, setup.money), in_words(says, setup.money)
        yield f"the budget is {set_to}, as it was set while the site ran; the file says {in_file}"


def _costs(arm: str, last: LastRun, setup: Setup, now: float) -> Iterator[str]:
    if arm not in setup.classifiers and arm not in setup.peers:
        return  # a peer that was discovered says itself what it costs
    said, says = last.file.costs.get(arm), setup.cost(arm)
    if said is not None and said != says:
        yield f"{arm!r} costs {setup.in_words(says)} now: the file said {setup.in_words(said)} at the last start"
    elif now != says:
        set_to, in_file = setup.in_words(now), setup.in_words(says)
        yield f"{arm!r} costs {set_to}, as it was set while the site ran; the file says {in_file}"
