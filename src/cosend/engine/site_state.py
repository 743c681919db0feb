"""The knowledge of a site, and the only ways to change it: the state that the events of a log fold to.

    encode, hear, describe  items get their places in the context
    choose, serve           items get arms, questions of a peer get local models
    complete, opine, fail   an arm has answered, a model gave its opinion late, an arm has failed
    settle, teach           true labels or scores have come, for the site's own decisions or for answers to a peer
    withdraw                no label will come
    peer_told               a peer has taken what was queued for it
    add_model, add_peer, remove, pause, resume, set_cost    an arm changes

A transition checks everything, changes the state, writes its event to the journal, and returns what follows, all at
once. It never waits and runs no model. Messages for peers are queued in `outbox`, which is part of the state.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import asdict
from itertools import islice, repeat
from numbers import Number
from operator import ne
from types import NoneType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import numpy as np

from cosend.algorithm.boosting import Trees
from cosend.algorithm.layout import TAUGHT, TRAIN, Floats
from cosend.algorithm.learner import NOBODY, Learner, Made
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import Policy, ShareLabels, how_to_decide, with_labels_shared
from cosend.algorithm.values import AskPeer, LabelledData, ScoreLocal
from cosend.axes import Axis, Column, Opinion, watches
from cosend.engine import events
from cosend.engine.budget import Accounts, Budget
from cosend.engine.encoding import Codes, Encoder, NewAxes, Spelled, none_for_nan
from cosend.engine.learnt_arms import LearntArms, Opinions, Seen, Sure, seen_at
from cosend.engine.needs import FORWARD, Forward, Pending
from cosend.engine.spent import Spent
from cosend.errors import (
    CosendError,
    DecisionError,
    SettingError,
    StateError,
    UnansweredDecision,
    UnknownDecision,
    listed,
)
from cosend.version import VERSION as SOFTWARE

P = ParamSpec("P")
T = TypeVar("T")
NO_MODELS: Final[tuple[str, ...]] = ()


class Note(msgspec.Struct, frozen=True, gc=False):
    """The notes on a pending id until its true label arrives.

    A million of them may wait for months: the garbage collector need not look at any.
    """

    label: Any  # the answer; None if no arm had one
    item: Any  # for models that learn; else None
    models: tuple[str, ...]  # whose opinions were heard
    said: tuple[Any, ...]  # what they said, None for nothing
    newest: Any  # the newest true label that was known then, for learnt arms
    sure: bytes = b""  # how sure each of these models was, floats of 32 bits, up to the last one that said it
    seen: bytes = b""  # what learnt arms see of the item
    paid: float | None = None  # what the answer itself says it cost
    charged: float | None = None  # what it counts as in the accounts of a budget, if there was one
    cost: float | None = None  # its expected cost, if any


NO_NOTE: Final = Note(None, None, NO_MODELS, (), None)


class Heard(NamedTuple):
    """The knowledge about items, besides their points, before their arms are chosen."""

    opinions: Mapping[str, Sequence[Any]] = {}  # by local model: what it says about each item, None for nothing
    sure: Mapping[str, Sure] = {}  # by local model: how sure it is of each, if it gives that
    items: Sequence[Any] = ()  # for models that learn; else empty
    seen: Sequence[bytes] = ()  # what learnt arms see of each; empty if there are none

    def __bool__(self) -> bool:
        return bool(self.opinions or self.items or self.seen)

    def first(self, count: int) -> Heard:
        """Return what is known about the first items."""
        return self.at(slice(count))

    def at(self, rows: slice) -> Heard:
        opinions = {model: column[rows] for model, column in self.opinions.items()}
        sure = {model: column[rows] for model, column in self.sure.items()}
        return Heard(opinions, sure, self.items[rows], self.seen[rows])

    def pick(self, rows: Sequence[int]) -> Heard:
        """Return what is known about some of the items."""
        opinions = {model: [column[row] for row in rows] for model, column in self.opinions.items()}
        sure = {model: column[[*rows]] for model, column in self.sure.items()}
        items, seen = ([column[row] for row in rows] if column else () for column in (self.items, self.seen))
        return Heard(opinions, sure, items, seen)

    def sure_in_bytes(self) -> dict[str, bytes]:
        return {model: column.tobytes() for model, column in self.sure.items()}


NOTHING: Final = Heard()
NOT_HEARD: Final = Opinions({}, {})


class Example(NamedTuple):
    """A labelled item for models that learn."""

    arm: str  # that was used
    item: Any
    truth: Any


class Step(NamedTuple):
    """The choices for the first items of a batch: they have the ids first, first + 1, ...

    The next item, if there is one, cannot be chosen before the peer of `ask` has told how much labelled data it has.
    """

    first: int
    arms: list[str]
    costs: dict[str, float]  # by arm
    kinds: list[int]  # TRAIN, EXPLORE or EXPLOIT
    cells: list[int]
    propensities: list[float]
    arrivals: list[int]  # the numbers of the items: what `choose` takes as `again` if an arm fails
    contexts: list[Spelled]
    ask: AskPeer | None


class Settled(NamedTuple):
    """Decisions that got labels: (number of the arm, kind, arrival) of each, and examples for models that learn."""

    found: Sequence[Sequence[int]]
    examples: list[Example]
    costs: Sequence[float | None] | None = None  # what each really cost, where that is known; None: nowhere


class Answering:
    """Answers to peers that wait for their labels: both ways between (caller, request) and id."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[int, int]] = {}  # by caller and request
        self._askers: dict[int, tuple[str, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._askers)

    def add(self, caller: str, requests: Sequence[int], ids: Sequence[int]) -> None:
        """Remember who asked for what is pending under ids; nothing is where the id is 0."""
        if not all(ids):
            both = [(request, id_) for request, id_ in zip(requests, ids, strict=True) if id_]
            requests, ids = [request for request, _ in both], [id_ for _, id_ in both]
        if ids:
            self._ids.setdefault(caller, {}).update(zip(requests, ids, strict=True))
            self._askers.update(zip(ids, zip(repeat(caller), requests, strict=False), strict=True))

    def of(self, caller: str) -> Mapping[int, int]:
        return self._ids.get(caller, {})

    def ids(self, caller: str, requests: Sequence[int]) -> list[int]:
        """Return the pending ids of requests; other requests are skipped."""
        known = self._ids.get(caller)
        return [known[request] for request in requests if request in known] if known else []

    def asker(self, id_: int) -> tuple[str, int] | None:
        return self._askers.get(id_)

    def forget(self, ids: Iterable[int]) -> None:
        """Forget ids that are no longer pending; others are skipped."""
        for id_ in ids:
            caller, request = self._askers.pop(id_, ("", 0))
            known = self._ids.get(caller)
            if known is not None and known.get(request) == id_:
                del known[request]
                if not known:
                    del self._ids[caller]

    def rows(self) -> list[list[Any]]:
        """Return [id, caller, request] of all, the oldest first."""
        return [[id_, *self._askers[id_]] for id_ in sorted(self._askers)]


def kind_of(kind: type) -> str:
    """Return in a word what kind of label a type is; 1, 1.0 and True are of one kind, and so are equal labels."""
    if issubclass(kind, str):
        return "text"
    return "a number" if issubclass(kind, Number) else f"a {kind.__name__}"


NO_LABEL: Final = kind_of(NoneType)


class LabelKinds:
    """The kinds of labels that arms have given."""

    def __init__(self, kinds: Iterable[str] = ()) -> None:
        self.kinds = set(kinds)  # in words
        self.types: set[type] = set()  # some of theirs: these need no second look

    def remember(self, labels: Sequence[Any]) -> None:
        if not self.types.issuperset(map(type, labels)):
            self.types.update(map(type, labels))
            self.kinds.update(map(kind_of, self.types))


class SiteState:
    """Everything that a site knows.

    local    the local models with their costs
    learnt   those of them that the site learns itself, and what each is: "grown" or "stack"
    fits_at_once    whether trees are in force with the label that made a fit due, or when `fitted` is called
    axes     of the context; they place items, and are not part of the state
    policy, patience, seed, score_local, share_labels    as of a Site
    journal  takes every event, for example `list.append`; None writes nothing
    """

    def __init__(
        self,
        name: str,
        *,
        local: Mapping[str, float],
        axes: Sequence[Axis],
        learnt: Mapping[str, str] | None = None,
        fits_at_once: bool = True,
        policy: Policy | None = None,
        patience: Patience | None = None,
        seed: int = 0,
        score_local: ScoreLocal | None = None,
        share_labels: ShareLabels | None = None,
        journal: events.Journal | None = None,
    ) -> None:
        self.name, self.encoder = name, Encoder(axes)
        policy, score_local = how_to_decide(policy, score_local)
        if watches(axes) and isinstance(policy, Policy) and not policy.mixes:
            allowed = "MixedViews where every feature is looked at; others need a context, without AllFeatures()"
            raise SettingError(f"the policy of site {name!r}", policy, allowed)
        if isinstance(policy, Policy):
            policy = with_labels_shared(policy, share_labels)
        self.share_labels = share_labels  # what was asked for, whatever a saved state says
        if self.encoder.heard:
            _check_heard(name, axes, local, policy, hears=bool(learnt) or score_local == "all")
        self.learner = Learner(
            name,
            own=local,
            dimensions=len(self.encoder.given),
            categories=self.encoder.categories,
            policy=policy,
            patience=patience,
            seed=seed,
            score_local=score_local,
            improving=[*(learnt or {})],
        )
        self.learnt = LearntArms(learnt or {}, at_once=fits_at_once)
        self.accounts: Accounts | None = None  # of the budget, if there is one
        self.spent = Spent()  # on the site's own decisions
        self.answering = Answering()
        self.unanswered: dict[int, Note] = {}  # chosen, and no answer yet: what was known before
        self.outbox: dict[str, deque[tuple[Any, ...]]] = {}  # by peer: (request, truth, withdrawn, score) to tell it
        self.to_tell: dict[str, None] = {}  # peers whose queue has grown since the last look
        self.kinds = LabelKinds()
        self.revised: set[int] = set()  # ids whose notes have changed since a copy of them began
        self.journal = journal
        self.is_behind = False  # a change was interrupted before its event was written
        if journal is not None:
            journal(self._started())

    def __repr__(self) -> str:
        return f"<SiteState of {self.name!r}: {self.learner.arrivals:,} items, {self.learner.pending_count:,} pending>"

    def draft(self) -> SiteState:
        """Return a copy that can make one choice while this one stays as it is; it has no journal.

        The learnt arms are shared: no choice changes them.
        """
        self.check_written()
        other = copy(self)
        other.encoder, other.learner, other.accounts = (
            self.encoder.draft(),
            self.learner.draft(),
            deepcopy(self.accounts),
        )
        other.answering, other.unanswered = deepcopy(self.answering), self.unanswered.copy()
        other.spent = self.spent.copy()
        other.outbox = {peer: queue.copy() for peer, queue in self.outbox.items()}
        other.to_tell, other.kinds, other.revised = {}, LabelKinds(self.kinds.kinds), self.revised.copy()
        other.journal = None
        return other

    def _started(self) -> events.Started:
        learner, encoder = self.learner, self.encoder
        return events.Started(
            version=events.VERSION,
            software=SOFTWARE,
            site=self.name,
            seed=learner.seed,
            policy=learner.policy.facts(),
            patience=asdict(learner.patience),
            axes=tuple(axis.description for axis in encoder.axes),
            categories=tuple(encoder.categories),
            ranked=dict(encoder.ranked),
            local=dict(learner.arms.own),
            score_local=learner.score_local,
            features=encoder.features is not None,
            learnt={name: kind.value for name, kind in self.learnt.kinds.items()},
            fits_at_once=self.learnt.at_once,
            heard=dict(encoder.heard),
        )

    # How a transition changes the state

    def _change(self, change: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Change the state; whatever interrupts this before the event is written leaves the journal behind the state.

        Nothing may continue then: the state must be folded from the journal. An error of ours was found by a check,
        before anything changed.
        """
        if self.journal is None:
            return change(*arguments, **options)
        self._begin()
        before = self.learner.last_id
        try:
            return change(*arguments, **options)
        except CosendError:
            self.is_behind = self.is_behind and self.learner.last_id != before
            raise

    def _begin(self) -> None:
        """Begin a change, which ends with `write`; raises if an earlier one was interrupted before that."""
        if self.journal is not None:
            self.check_written()
            self.is_behind = True

    def check_written(self) -> None:
        if self.is_behind:
            raise StateError(f"site {self.name!r} was stopped before it wrote its journal: recover from the journal")

    def write(self, *happened: events.Event | None) -> None:
        """Write the events of a change, if there are any; after that the journal has caught up."""
        if self.journal is not None:
            for event in happened:
                if event is not None:
                    self.journal(event)
        self.is_behind = False

    # Items get their places

    def encode(self, columns: Sequence[Column]) -> tuple[Floats, Seen]:
        """Return [item, axis]: the points of new items, from what the axes have read; and what learnt arms see.

        They have no place yet on axes that hear models: that comes with `hear`, and learnt arms do not see it.
        These may be fewer than the items, if some features get axes before the next one: it can be encoded when those
        before it have been chosen.
        """
        encoder = self.encoder
        if encoder.features is None:
            points = values = self._encode_given(columns) if encoder.read else np.zeros((len(columns[0]), 0))
        else:
            given = columns[:-1]
            items: Any = columns[-1]
            count = self._watch(items, own=True)
            read = self._encode_given([column[:count] for column in given]) if encoder.read else np.zeros((count, 0))
            numbers = encoder.features.numbers(items[:count])
            points, values = np.hstack([read, encoder.features.places(numbers)]), np.hstack([read, numbers])
        seen = seen_at(values, points, encoder.read_categories)
        return encoder.with_room(points) if encoder.heard else points, seen

    def hear(self, points: Floats, heard: Opinions) -> None:
        """Enter into the points of new items what models say about them, in the order of the items."""
        encoder = self.encoder
        known = {axis: len(codes.values) for axis, codes in encoder.codes.items() if axis in encoder.heard}
        self._change(encoder.hear, points, heard, Codes.code)
        new = {axis: tuple(encoder.codes[axis].values[count:]) for axis, count in known.items()}
        self.write(events.Encoded({}, new) if any(new.values()) else None)

    def look(self, items: Sequence[Any], points: Floats) -> Seen:
        """Return what learnt arms see of items of a peer, with these points."""
        encoder = self.encoder
        points = encoder.without_room(points) if encoder.heard else points
        numbers = points.copy()
        if encoder.features is not None:
            rows: Any = encoder.axes[-1].read(items)
            numbers[:, len(encoder.read) :] = encoder.features.numbers(rows)
        return seen_at(numbers, points, encoder.read_categories)

    def _encode_given(self, columns: Sequence[Column]) -> Floats:
        encoder = self.encoder
        if not encoder.codes and not encoder.ranked:  # nothing is remembered about the items
            return encoder.place(columns, self.learner.arrivals)
        known = {axis: len(codes.values) for axis, codes in encoder.codes.items()}
        points = self._change(encoder.place, columns, self.learner.arrivals)
        event = None
        if self.journal is not None:
            values = {axis: tuple(float(value) for value in columns[axis]) for axis in encoder.ranked}
            new = {axis: tuple(codes.values[known[axis] :]) for axis, codes in encoder.codes.items()}
            event = events.Encoded(values, new) if values or any(new.values()) else None
        self.write(event)
        return points

    def _watch(self, items: Sequence[Any], *, own: bool) -> int:
        """Create axes for features that are ready, then watch items until the next one is; return how many.

        Items of peers are watched only until the site has its first item.
        """
        features = self.encoder.feature_axes
        if features.own and not own:
            return len(items)
        found = features.found(items[0]) if items else features.found()
        if found is not None:
            self._change(self.create_axes, found)
            axes = found.axes
            names, edges, repeats, values, of, weights = zip(*axes, strict=True) if axes else ((),) * 6
            others = tuple(found.ignored), tuple(found.constant), of if any(of) else (), weights if any(weights) else ()
            self.write(events.AxesCreated(names, edges, repeats, values, *others))
        is_first = own and not features.own
        count, seen = self._change(features.watch, items, own=own)
        self.write(events.FeaturesSeen(seen, own) if seen or is_first else None)
        return count

    def create_axes(self, found: NewAxes) -> None:
        """Give axes to features, and note those that have never changed."""
        features = self.encoder.feature_axes
        if found.axes or found.constant:
            self.learner.add_axes(len(found.axes), len(found.constant), features.places_before(found))
        features.enter(found)

    def point(self, spelled: Sequence[Any], code: Callable[[Codes, Any], float] = Codes.find) -> tuple[float, ...]:
        return self.encoder.point(spelled, self.learner.dimensions, code)

    def describe(
        self, items: Sequence[Any], contexts: Sequence[Spelled], axes: Sequence[str] | None, *, watch: bool = True
    ) -> Sequence[Spelled]:
        """Return the contexts of a peer's items as this site spells them; `axes` are the names of the peer's axes.

        None: they are this site's own. This site's state tells ranks, the newest label and the time; only features are
        remembered, unless told not to.
        """
        encoder = self.encoder
        if axes is None or (encoder.features is None and tuple(axes) == encoder.names):
            return encoder.hear_spelled(contexts, NOT_HEARD) if encoder.heard else contexts
        lenient = self.learner.policy.mixes
        rows = encoder.describe(items, contexts, axes, self.learner.arrivals, lenient=lenient)
        if encoder.features is None:
            return rows
        read: Any = encoder.axes[-1].read(items)
        done = 0 if watch else len(items)
        while done < len(items):  # all of them before any is answered
            done += self._watch(read[done:], own=False)
        places = encoder.features.place(read).tolist()
        return [(*row, *map(none_for_nan, place)) for row, place in zip(rows, places, strict=True)]

    @property
    def watches_peers(self) -> bool:
        """Whether items of peers are watched: none of the site's own has come yet."""
        return self.encoder.features is not None and not self.encoder.features.own

    # Arms are chosen

    def choose(
        self,
        points: Floats,
        *,
        told: Mapping[str, LabelledData] = NOBODY,
        without: Collection[str] = (),
        again: Sequence[int] = (),
        heard: Heard = NOTHING,
        at: float | None = None,
        pays: bool = True,
    ) -> Step:
        """Choose arms for items, up to the first for which a peer must be asked; call again with the rest.

        told      reports of peers about the first item
        without   arms that cannot be used
        again     when an arm has failed: the arrival that `Step` gave; 0 for new ones
        heard     what is known before; a local model that is chosen and has an opinion has answered with it
        at        when, in seconds, for a budget that goes by time
        pays      whether these choices are within the budget, if there is one
        """
        learner = self.learner
        if learner.registry.narrow:
            learner.registry.widen_some()
        accounts = self.accounts if pays else None
        if again and (len(again) != len(points) or not 0 <= min(again) <= max(again) <= learner.arrivals):
            raise SettingError("again", again, "the arrival of each item as `choose` gave it, or 0 for a new one")
        ask: AskPeer | None = None
        if accounts is None or not accounts.weigh:
            made, ask, paid = self._change(self._decide, accounts, points, told, without, again)
        else:
            made, paid = self._change(self._decide_within, accounts, points, without, again, at)
        kinds, arms, cells, candidates = made  # paid: what each is expected to cost, and by what money counted
        names, costs, count = learner.arms.names, learner.arms.costs, len(arms)
        step = Step(
            learner.last_id - count + 1,
            [names[arm] for arm in arms],
            {names[arm]: costs[arm] for arm in {*arms}},
            kinds,
            cells,
            [1.0 / each for each in candidates],
            self._arrivals(again[:count], count),
            self.encoder.spell_all(points[:count]),
            None if ask is None else ask._replace(context=self.encoder.spell(points[count])),
        )
        if heard:
            heard = heard if count == len(points) else heard.first(count)
            self.enter_heard(range(step.first, step.first + count), step.arms, heard)
        self.enter_costs(step.first, step.arms, step.costs, [charge for charge, _ in paid])
        self.drop_expired()
        if self.journal is not None:
            factors = tuple(factor for _, factor in paid)
            at = at if accounts is not None and accounts.timed else None
            self._write_choices(step, told, tuple(sorted(without)), tuple(again), heard, at, factors)
        return step

    def _decide(
        self,
        accounts: Accounts | None,
        points: Floats,
        told: Mapping[str, LabelledData],
        without: Collection[str],
        again: Sequence[int],
    ) -> tuple[Made, AskPeer | None, list[tuple[float, float]]]:
        """Choose arms at their costs, and charge them if there is a budget."""
        made, ask = self.learner.decide(points, told, without, again)
        arms = self.learner.arms
        paid = [] if accounts is None else [(accounts.charge(arms.names[n], arms.costs[n]), 1.0) for n in made[1]]
        return made, ask, paid

    def _decide_within(
        self,
        accounts: Accounts,
        points: Floats,
        without: Collection[str],
        again: Sequence[int],
        at: float | None,
    ) -> tuple[Made, list[tuple[float, float]]]:
        """Choose arms within a budget, one item after the other: each has other costs."""
        learner = self.learner
        out, names, known = learner.check_out(without), learner.arms.names, learner.arms.costs
        learner.check_points(points)
        made, paid = list[tuple[int, int, int, int]](), list[tuple[float, float]]()
        for n, arrival in enumerate(again or (0,) * len(points)):
            if not arrival:
                accounts.arrive(at)
            costs, factor = accounts.costs(names, known, out)
            made.append(learner.decide_at(points[n], costs, arrival))
            arm = made[-1][1]
            paid.append((accounts.charge(names[arm], known[arm]), factor))
        kinds, arms, cells, candidates = ([*column] for column in zip(*made, strict=True)) if made else ([], [], [], [])
        return (kinds, arms, cells, candidates), paid

    def enter_costs(
        self, first: int, arms: Sequence[str], costs: Mapping[str, float], charges: Sequence[float] = ()
    ) -> None:
        """Count what choices are expected to cost, and keep it with their ids first, first + 1, ...

        costs    by arm; nothing where it has none
        charges  what each counts as in the accounts; empty without a budget
        """
        if not charges and not any(costs.values()):
            return
        for arm, count in Counter(arms).items():
            self.spent.add(arm, costs.get(arm, 0.0), count)
        notes, charged = self.learner.registry.notes, charges or repeat(None)
        for id_, arm, charge in zip(range(first, first + len(arms)), arms, charged, strict=False):
            cost = costs.get(arm) or None
            if cost is not None or charge is not None:
                table = notes if id_ in notes else self.unanswered
                table[id_] = msgspec.structs.replace(table.get(id_, NO_NOTE), charged=charge, cost=cost)

    def charge(self, arms: Sequence[str], again: Sequence[int], at: float | None) -> list[float]:
        """Enter choices within a budget into its accounts as they were made; returns what each counts as."""
        accounts, known, charges = self.accounts, self.learner.arms, list[float]()
        if accounts is None:
            raise StateError("it has choices within a budget, and there is none")
        for arm, arrival in zip(arms, again, strict=True):
            if not arrival:
                accounts.arrive(at)
            charges.append(accounts.charge(arm, known.costs[known.number(arm)]))
        if accounts.weigh:
            self.learner.explore_freely()
        return charges

    def unpaid_arms(self, count: int = 1) -> Collection[str]:
        """Return the arms for which too little is left of a total of the budget to be used this many times."""
        arms = self.learner.arms
        return () if self.accounts is None else self.accounts.unpaid(arms.names, arms.costs, count)

    def set_budget(self, budget: Budget | None) -> None:
        """Keep to a budget from now on, in costs; None: to none. Limits that stay keep their account."""
        if budget is not None:
            self._check_budget(budget)
        if budget == (None if self.accounts is None else self.accounts.budget):
            return
        self._change(self._set_budget, budget)
        self.write(events.BudgetSet(**({} if budget is None else budget.facts())))

    def _set_budget(self, budget: Budget | None) -> None:
        if budget is None or self.accounts is None:
            self.accounts = None if budget is None else Accounts(budget)
        else:
            self.accounts = self.accounts.followed_by(budget)
        if self.accounts is None or self.accounts.weigh:
            self.learner.explore_freely()

    def _check_budget(self, budget: Budget) -> None:
        if not self.learner.policy.mixes:
            allowed = "MixedViews where there is a budget: no other policy weighs costs for each item"
            raise SettingError(f"the policy of site {self.name!r}", self.learner.policy, allowed)

    def _correct(self, notes: Sequence[Note], found: Sequence[Sequence[int]], paid: Sequence[float | None]) -> None:
        """Enter what decisions have really cost, where that is known and was not known before."""
        accounts, known = self.accounts, self.learner.arms
        for note, (arm, kind, _), cost in zip(notes, found, paid, strict=True):
            if cost is None or cost == note.paid or kind == TAUGHT:
                continue
            name = known.names[arm]
            self.spent.replace(name, note.cost if note.paid is None else note.paid, cost)
            if accounts is not None and note.charged is not None:
                accounts.correct(note.charged, float(cost))
                accounts.learn_price(name, known.costs[arm], float(cost))

    def _arrivals(self, again: Sequence[int], count: int) -> list[int]:
        """Return the numbers of `count` items that were just chosen; some were counted before."""
        last = self.learner.arrivals
        if not again:
            return [*range(last - count + 1, last + 1)]
        number, numbers = last - again.count(0), []
        for before in again:
            number += before == 0
            numbers.append(before or number)
        return numbers

    def _write_choices(
        self,
        step: Step,
        told: Mapping[str, LabelledData],
        without: tuple[str, ...],
        again: tuple[int, ...],
        heard: Heard,
        at: float | None,
        factors: tuple[float, ...],
    ) -> None:
        reports, count = {peer: (int(data[0]), int(data[1])) for peer, data in told.items()}, len(step.arms)
        chosen, asked = None, None
        if count:
            chosen = events.Chosen(
                step.first,
                tuple(step.contexts),
                tuple(step.arms),
                tuple(step.kinds),
                tuple(step.propensities),
                tuple(step.cells),
                reports,
                without,
                again[:count],
                {arm: cost for arm, cost in step.costs.items() if cost},
                {model: tuple(column) for model, column in heard.opinions.items()},
                tuple(heard.items),
                heard.sure_in_bytes(),
                tuple(heard.seen),
                at,
                factors,
            )
            reports = {}
        if step.ask is not None:
            asked = events.Asked(step.ask.peer, step.ask.context, reports, without, again[count] if again else 0)
        self.write(chosen, asked)

    def enter_heard(self, ids: Sequence[int], arms: Sequence[str], heard: Heard) -> None:
        """Keep what was heard about items before the choice; an arm that had an opinion has answered."""
        opinions, notes, newest = heard.opinions, self.learner.registry.notes, None
        if self.learnt:
            newest = self.encoder.newest_label
        models = tuple(opinions)
        said: Iterable[Any] = zip(*(opinions[model] for model in models), strict=True) if opinions else repeat(())
        kept = heard.items or repeat(None), said, _rows_of(heard.sure, models), heard.seen or repeat(b"")
        rows: Iterable[Any] = zip(ids, arms, *kept, strict=False)
        places = {model: place for place, model in enumerate(models)}
        for id_, arm, item, row, sure, seen in rows:
            place = places.get(arm)
            if place is None or row[place] is None:
                self.unanswered[id_] = Note(None, item, models, row, newest, sure, seen)
            else:
                notes[id_] = Note(row[place], item, models, row, newest, sure, seen)
        for column in opinions.values():
            self.kinds.remember(column)

    def complete(self, ids: Sequence[int], labels: Sequence[Any], paid: Sequence[float] = ()) -> list[int]:
        """Enter what arms have answered: decisions of this site, or answers for a peer.

        paid  what the answers cost, not a number where they do not say; empty if none does

        Decisions that are no longer pending, because they expired or their arm has left, are returned unchanged.
        """
        pending = self.learner.still_pending(ids)
        late: list[int] = []
        if len(pending) < len(ids) or (len(ids) > 1 and not isinstance(ids, range) and len(set(ids)) < len(ids)):
            answers, costs = dict(zip(ids, labels, strict=True)), dict(zip(ids, paid, strict=False))
            pending = [*dict.fromkeys(pending)]
            late = [id_ for id_ in ids if id_ not in pending]
            ids, labels, paid = pending, [answers[id_] for id_ in pending], [costs[id_] for id_ in pending if costs]
        self._begin()
        notes, unanswered = self.learner.registry.notes, self.unanswered
        for id_, label in zip(ids, labels, strict=True):
            known = (unanswered.pop(id_, None) if unanswered else None) or notes.get(id_)
            notes[id_] = (
                msgspec.structs.replace(known, label=label)
                if known is not None
                else Note(label, None, NO_MODELS, (), None)
            )
        if len(paid):
            known_costs = [cost if cost == cost else None for cost in paid]
            self._correct([notes[id_] for id_ in ids], self.learner.look_up(ids)[1], known_costs)
        for id_, cost in zip(ids, paid, strict=False):
            if cost == cost:
                note = notes[id_]
                charged = None if note.charged is None else float(cost)
                notes[id_] = msgspec.structs.replace(note, paid=float(cost), charged=charged)
        if NoneType in map(type, labels):
            self._take_back_costs([id_ for id_, label in zip(ids, labels, strict=True) if label is None])
        self.kinds.remember(labels)
        event = None
        if self.journal is not None and len(ids):
            event = events.Answered(tuple(ids), tuple(labels), tuple(map(float, paid)))
        self.write(event)
        return late

    def opine(self, model: str, ids: Sequence[int], labels: Sequence[Any]) -> None:
        """Enter the opinion of a model that came after the choice; ids that are no longer pending are skipped."""
        notes = self.learner.registry.notes
        known = [(id_, label) for id_, label in zip(ids, labels, strict=True) if id_ in notes or id_ in self.unanswered]
        if not known or self.learner.score_local != "all":
            return
        self._begin()
        for id_, label in known:
            table = notes if id_ in notes else self.unanswered
            note = table[id_]
            if model not in note.models:
                table[id_] = msgspec.structs.replace(note, models=(*note.models, model), said=(*note.said, label))
            elif note.said[note.models.index(model)] is None:
                said = [label if name == model else each for name, each in zip(note.models, note.said, strict=True)]
                table[id_] = msgspec.structs.replace(note, said=tuple(said))
        late_ids, said_late = zip(*known, strict=True)
        self.revised.update(late_ids)
        self.kinds.remember(said_late)
        self.write(events.Opined(model, late_ids, said_late))

    def fail(self, ids: Sequence[int], arm: str, reason: str) -> dict[int, int]:
        """Take choices back because their arm has failed: never a reward.

        Returns for each id that was still pending what `choose` takes as `again`. Without ids it is only logged.
        """
        pending = self.learner.still_pending(ids)
        notes = [self.unanswered.get(id_) or self.learner.registry.notes.get(id_, NO_NOTE) for id_ in pending]
        arrivals = self._strike(pending)
        for note in notes:
            self.spent.replace(arm, note.cost, 0.0)
            if self.accounts is not None and note.charged is not None:
                self.accounts.correct(note.charged, 0.0)  # because calls were made
        self.write(events.Failed(tuple(pending), arm, reason))
        return dict(zip(pending, arrivals, strict=True))

    @property
    def goes_by_time(self) -> bool:
        """Whether there is a budget that goes by time."""
        return self.accounts is not None and self.accounts.timed

    def _take_back_costs(self, ids: Sequence[int]) -> None:
        """Count nothing for decisions whose arm had no answer, unless it says what that has cost."""
        names, notes = self.learner.arms.names, self.learner.registry.notes
        for id_, (arm, _, _) in zip(ids, self.learner.find(ids), strict=True):
            note = notes[id_]
            if note.paid is None and note.cost is not None:
                self.spent.replace(names[arm], note.cost, 0.0)
                notes[id_] = msgspec.structs.replace(note, cost=None)

    def withdraw(self, ids: Sequence[int]) -> None:
        """Take back what no label will come for; ids that are no longer pending are skipped."""
        pending = self.learner.still_pending(ids)
        self._strike(pending)
        self.write(events.Withdrawn(tuple(pending)) if pending else None)

    def _strike(self, ids: Sequence[int]) -> list[int]:
        """Take back what is pending under ids; returns the arrivals of the items."""
        found = self._change(self.learner.withdraw_many, ids)
        if not found:
            return []
        arms, kinds, arrivals = zip(*found, strict=True)
        self._dropped(ids, arms, kinds)
        return [*arrivals]

    def drop_expired(self) -> None:
        """Forget what has expired; peers that were promised labels are told that none will come."""
        expired = self.learner.registry.take_overdue()
        if expired:
            self._dropped(*zip(*expired, strict=True))

    def _dropped(self, ids: Sequence[int], arms: Sequence[int], kinds: Sequence[int]) -> None:
        """Forget the notes on ids that are no longer pending, and queue what peers must be told."""
        self.learner.forget_notes(ids)
        if self.unanswered:
            for id_ in ids:
                self.unanswered.pop(id_, None)
        if TAUGHT in kinds:
            self.answering.forget([id_ for id_, kind in zip(ids, kinds, strict=True) if kind == TAUGHT])
        if self.learner.arms.peers:
            self._queue_promised(ids, arms, kinds, repeat((None, None)), withdrawn=True)

    # True labels

    def notes_of(self, ids: Sequence[int]) -> list[Note]:
        """Return the notes on the site's own pending decisions, or raise if one is not pending or answered."""
        notes = self.learner.registry.notes
        try:
            if not self.answering:
                return [notes[id_] for id_ in ids]
        except (KeyError, TypeError):
            pass  # find out what is wrong with one of them
        numbers, found = self.learner.look_up(ids)
        self._check_own(numbers, found)
        return self._answered_notes(numbers)

    def _check_own(self, ids: Sequence[int], found: Sequence[Sequence[int]]) -> None:
        """Raise if one is an answer to a peer, which sends its label."""
        for id_, (_, kind, _) in zip(ids, found, strict=True) if self.answering else ():
            if kind == TAUGHT:
                raise UnknownDecision(self.name, id_, self.learner.last_id)

    def _answered_notes(self, ids: Sequence[int]) -> list[Note]:
        notes = self.learner.registry.notes
        try:
            return [notes[id_] for id_ in ids]
        except KeyError as error:
            raise UnansweredDecision(self.name, error.args[0]) from None

    def check_settled(self, ids: Sequence[int], gains: Sequence[float], costs: Sequence[float | None] | None) -> None:
        """Raise if labels cannot be learnt together; nothing changes."""
        _, found = self.learner.look_up(ids)
        self.learner.check_rewards(ids, found, gains, costs)

    def settle(
        self,
        ids: Sequence[int],
        truths: Sequence[Any],
        gains: Sequence[float],
        costs: Sequence[float | None] | None = None,
        scores: Mapping[str, Sequence[float]] | None = None,
    ) -> Settled:
        """Learn the true labels of the site's own decisions, which have been answered, or their scores.

        truths  None for a score: it teaches which arm to use, and nothing else
        gains   what the arms gained; not a number for a decision without an answer: it scores no arm, and models learn
        costs   what they really cost; None, for all or for one: what its answer said, or else what its arm costs
        scores  by local model, what its opinion gained; not a number where it had none
        """
        numbers, found = self.learner.look_up(ids)
        self._check_own(numbers, found)
        notes = self._answered_notes(numbers)
        costs = _paid(notes, costs)
        unscored = self._leaves_out(found, notes, truths, scores)
        self._change(self._learn, numbers, found, gains, costs, scores, unscored)
        if costs is not None:
            self._correct(notes, found, costs)
        labelled = [n for n, truth in enumerate(truths) if truth is not None]
        if len(labelled) == len(truths):
            self.encoder.remember_label(numbers, truths)
            self.learnt.learn(notes, truths)
        elif labelled:
            known = [truths[n] for n in labelled]
            self.encoder.remember_label([numbers[n] for n in labelled], known)
            self.learnt.learn([notes[n] for n in labelled], known)
        if self.journal is not None:
            paid = () if costs is None or all(cost is None for cost in costs) else tuple(costs)
            self.write(events.Labelled(tuple(numbers), tuple(truths), tuple(map(float, gains)), paid, _columns(scores)))
        if numbers and self.learner.arms.peers:
            arms, kinds, _ = zip(*found, strict=True)
            self._queue_promised(numbers, arms, kinds, zip(truths, gains, strict=True), withdrawn=False)
        return Settled(found, self._examples(found, notes, truths), costs)

    def _learn(
        self,
        ids: Sequence[int],
        found: Sequence[Any],
        gains: Sequence[float],
        costs: Sequence[float | None] | None,
        scores: Mapping[str, Sequence[float]] | None,
        unscored: bool,
    ) -> None:
        self._score(ids, found, gains, costs, scores)
        if ids:
            self.learnt.untold = False
        if unscored:
            self.learner.try_free_models()

    def _score(
        self,
        ids: Sequence[int],
        found: Sequence[Any],
        gains: Sequence[float],
        costs: Sequence[float | None] | None,
        scores: Mapping[str, Sequence[float]] | None,
    ) -> None:
        matrix = self._score_matrix(found, scores) if scores else None
        if not any(map(ne, gains, gains)):
            self.learner.settle(ids, found, gains, costs, matrix)
            return
        self.learner.check_different(ids)  # some had no answer: these choices are taken back
        rows = [n for n, gain in enumerate(gains) if gain == gain]
        if rows:
            known, waited, gained = [ids[n] for n in rows], [found[n] for n in rows], [gains[n] for n in rows]
            paid = None if costs is None else [costs[n] for n in rows]
            self.learner.settle(known, waited, gained, paid, None if matrix is None else matrix[rows])
        self.learner.withdraw_many([id_ for id_, gain in zip(ids, gains, strict=True) if gain != gain])

    def _leaves_out(
        self,
        found: Sequence[Sequence[int]],
        notes: Sequence[Note],
        truths: Sequence[Any],
        scores: Mapping[str, Sequence[float]] | None,
    ) -> bool:
        """Tell whether a score says nothing about an opinion that a true label would have scored.

        Where no opinion was heard, because another system has decided, these are the free local models.
        """
        rows = [n for n, truth in enumerate(truths) if truth is None]
        if not rows:
            return False
        names, known = self.learner.arms.names, scores or {}
        free = [arm for arm, cost in self.learner.arms.own.items() if not cost and arm not in self.learnt.kinds]
        for n in rows:
            used, heard = names[found[n][0]], zip(notes[n].models, notes[n].said, strict=True)
            others = [model for model, said in heard if said is not None] if notes[n].models else free
            if any(each != used and (each not in known or known[each][n] != known[each][n]) for each in others):
                return True
        return False

    def _score_matrix(self, found: Sequence[Sequence[int]], scores: Mapping[str, Sequence[float]]) -> Floats | None:
        """Return [decision, local model]: what opinions gained; not a number where there was none, and for the arm."""
        own = self.learner.arms.own
        if len(found) == 1:  # much quicker than by columns
            row = [scores[model][0] if model in scores else np.nan for model in own]
            if found[0][0] < len(row):
                row[found[0][0]] = np.nan
            return np.array([row]) if any(gain == gain for gain in row) else None
        matrix = np.full((len(found), len(own)), np.nan)
        for number, model in enumerate(own):
            if model in scores:
                matrix[:, number] = scores[model]
        arms = np.array([arm for arm, _, _ in found])
        used = np.flatnonzero(arms < len(own))
        matrix[used, arms[used]] = np.nan
        return None if np.isnan(matrix).all() else matrix

    def _examples(self, found: Sequence[Sequence[int]], notes: Sequence[Note], truths: Sequence[Any]) -> list[Example]:
        """Return what models can learn from: labels of items that are kept."""
        names, rows = self.learner.arms.names, zip(found, notes, truths, strict=True)
        return [
            Example(names[arm], note.item, truth)
            for (arm, _, _), note, truth in rows
            if note.item is not None and truth is not None
        ]

    def fitted(self, trees: Trees | None) -> None:
        """Put the trees into force whose fit had begun; without any, they are fitted when they are needed."""
        self._begin()
        window = self.learnt.fitting
        self.learnt.finish_fit(trees)
        self.write(None if window is None else events.Fitted(window.labels))

    # Being a peer

    def report(self, context: Sequence[Any]) -> LabelledData:
        """Return how much labelled data there is around a context as this site spells it; nothing changes.

        Opinions of models do not count: the caller does not know them.
        """
        if self.encoder.heard:
            (context,) = self.encoder.hear_spelled([tuple(context)], NOT_HEARD)
        return self.learner.report(self.point(context))

    def report_on(self, item: Any, context: Spelled, axes: Sequence[str]) -> LabelledData:
        """Return how much labelled data there is around an item of a peer, whose axes have these names."""
        if self.encoder.features is not None or tuple(axes) != self.encoder.names:
            (context,) = self.describe([item], [context], axes, watch=False)
        return self.report(context)

    def serve(
        self,
        caller: str,
        requests: Sequence[int],
        contexts: Sequence[Spelled],
        flags: Sequence[tuple[bool, bool]],
        *,
        without: Collection[str] = (),
        heard: Heard = NOTHING,
    ) -> tuple[list[str], list[int]]:
        """Choose the local models with which to answer a peer; returns them, and the ids of the answers.

        flags   (training, labelled) of each; an answer is pending if its label will follow, else its id is 0

        An earlier answer to the same request is no longer pending: a caller that retries never got it.
        """
        if len({*requests}) < len(requests):
            raise SettingError(f"the requests of caller {caller!r}", [*requests], "all different")
        before = []  # they are struck, and no other event records that
        if (False, False) in flags and self.answering:
            both = zip(requests, flags, strict=True)
            before = self.answering.ids(caller, [request for request, follows in both if not any(follows)])
        models, ids = self._change(self._serve, caller, requests, contexts, flags, without)
        places = [place for place, id_ in enumerate(ids) if id_]
        heard = heard if len(places) == len(ids) else heard.pick(places)
        if places and heard:
            self.enter_heard([ids[n] for n in places], [models[n] for n in places], heard)
        self.drop_expired()
        event = None
        if self.journal is not None and places:
            event = events.Served(
                caller,
                tuple(requests[n] for n in places),
                ids[places[0]],
                tuple(tuple(contexts[n]) for n in places),
                tuple(models[n] for n in places),
                tuple(bool(flags[n][0]) for n in places),
                tuple(sorted(without)),
                {model: tuple(column) for model, column in heard.opinions.items()},
                tuple(heard.items),
                heard.sure_in_bytes(),
            )
        self.write(events.Withdrawn(tuple(before)) if before else None, event)
        return models, ids

    def _serve(
        self,
        caller: str,
        requests: Sequence[int],
        contexts: Sequence[Spelled],
        flags: Sequence[tuple[bool, bool]],
        without: Collection[str],
    ) -> tuple[list[str], list[int]]:
        learner = self.learner
        is_point = not self.encoder.spells and not any(None in each for each in contexts)
        found = contexts if is_point else [self.point(each) for each in contexts]
        points, out = learner.check_answers(found, caller, requests, without)
        self.strike_answers(caller, requests)
        if self.encoder.codes:
            both = zip(contexts, flags, found, strict=True)
            known = [self.point(each, Codes.code) if any(flag) else point for each, flag, point in both]
            points, _ = learner.check_answers(known, caller, requests, without)
        numbers, ids = learner.memory.answer(points, out, caller, requests, flags)
        self.answering.add(caller, requests, ids)
        return [learner.arms.names[number] for number in numbers], [*ids]

    def strike_answers(self, caller: str, requests: Sequence[int]) -> None:
        """Take back what was answered before for requests that are repeated."""
        ids = self.answering.ids(caller, requests)
        if ids:
            self.learner.withdraw_many(ids)
            self.answering.forget(ids)
            for id_ in ids:
                self.unanswered.pop(id_, None)

    def teach(
        self,
        caller: str,
        requests: Sequence[int],
        truths: Sequence[Any],
        gains: Sequence[float],
        scores: Mapping[str, Sequence[float]] | None = None,
    ) -> Settled:
        """Learn the true labels, or scores, of items that were answered for a peer, all of which must be pending."""
        known = self.answering.of(caller)
        for request in requests:
            if request not in known:
                sentence = f"site {self.name!r} awaits no label for request {request!r} of caller {caller!r}"
                raise DecisionError(self.name, request, sentence)
        ids, found = self.learner.look_up([known[request] for request in requests])
        notes = self._answered_notes(ids)
        unscored = self._leaves_out(found, notes, truths, scores)
        self._change(self._learn, ids, found, gains, _paid(notes), scores, unscored)
        self.answering.forget(ids)
        if self.journal is not None:
            taught = tuple(truths), tuple(map(float, gains)), _columns(scores)
            self.write(events.Taught(caller, tuple(requests), *taught))
        return Settled(found, self._examples(found, notes, truths))

    # Messages for peers

    def _queue_promised(
        self,
        ids: Sequence[int],
        arms: Sequence[int],
        kinds: Sequence[int],
        known: Iterable[tuple[Any, float | None]],
        *,
        withdrawn: bool,
    ) -> None:
        """Queue true labels, or scores, for the peers that were promised labels, or that none will come.

        known  the label, None for a score, and what the arm gained
        """
        names, own = self.learner.arms.names, len(self.learner.arms.own)
        always = self.learner.policy.share_labels == "always"
        for id_, arm, kind, (truth, gain) in zip(ids, arms, kinds, known, strict=False):
            if arm >= own and kind != TAUGHT and (always or kind == TRAIN):
                score = gain if truth is None else None
                self.outbox.setdefault(names[arm], deque()).append((id_, truth, withdrawn, score))
                self.to_tell[names[arm]] = None

    def forwards(self, peer: str, count: int | None = None) -> list[Forward]:
        """Return what a peer is to be told next, at most `count` of it."""
        queue: Iterator[Any] = islice(self.outbox.get(peer, ()), count)
        return [FORWARD((peer, self.name, *told)) for told in queue]

    def peer_told(self, peer: str, count: int) -> None:
        """Take note that a peer has stored the first `count` forwards."""
        queue = self.outbox.get(peer)
        if not queue or not count:  # it may have left meanwhile
            return
        self._begin()
        count = min(count, len(queue))
        for _ in range(count):
            queue.popleft()
        if not queue:
            del self.outbox[peer]
        self.write(events.PeerTold(peer, count))

    # Arms join, leave, pause, resume, and cost something else

    def add_model(self, name: str, cost: float = 0.0, learnt: str = "") -> None:
        """Add a local model, or an arm that the site learns itself."""
        self.learner.arms.check_new(name, cost)
        if learnt:
            self.learnt.add(name, learnt)  # first: whatever can be chosen must be there, also after Ctrl-C
        self._change(self.learner.add_own, name, cost, improves=bool(learnt))
        self.write(events.ArmAdded(name, float(cost), learnt=learnt))

    def add_peer(self, name: str, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that announces `functions` models; what is known about the other arms stays."""
        self._change(self.learner.add_peer, name, cost, functions)
        self.write(events.ArmAdded(name, float(cost), functions))

    def remove(self, name: str) -> list[Forward]:
        """Remove an arm; what is pending for it, or was answered for it, no longer is.

        Returns what it should still be told if it is a peer: its queue is gone.
        """
        forwards = self._change(self._removed, name)
        self.write(events.ArmRemoved(name))
        return forwards

    def _removed(self, name: str) -> list[Forward]:
        arms, registry = self.learner.arms, self.learner.registry
        number = arms.number(name)
        is_peer, always = name in arms.peers, self.learner.policy.share_labels == "always"
        ids, _, _, kinds, _ = registry.of_arm(number).T.tolist()
        self.learner.remove(name)
        promised = [id_ for id_, kind in zip(ids, kinds, strict=True) if kind != TAUGHT and (always or kind == TRAIN)]
        asked = [*self.answering.of(name).values()] if is_peer else []
        self.learner.forget_notes(ids)
        self.answering.forget([id_ for id_, kind in zip(ids, kinds, strict=True) if kind == TAUGHT])
        for id_ in (*ids, *asked):
            self.unanswered.pop(id_, None)
        self._forget_opinions(name)
        self.learner.withdraw_many(self.learner.still_pending(asked))  # Ctrl-C may have ended this in the middle before
        self.answering.forget(asked)
        self.learnt.forget(name)
        forwards = self.forwards(name)
        self.outbox.pop(name, None)
        self.to_tell.pop(name, None)
        return forwards + [FORWARD((name, self.name, id_, None, True, None)) for id_ in promised] if is_peer else []

    def _forget_opinions(self, name: str) -> None:
        """Forget what a model that has left said about pending items: a new one may get its name."""
        for table in (self.learner.registry.notes, self.unanswered):
            for id_, note in table.items():
                if name in note.models:
                    self.revised.add(id_)
                    place = note.models.index(name)
                    models, said = (column[:place] + column[place + 1 :] for column in (note.models, note.said))
                    sure = note.sure[: 4 * place] + note.sure[4 * place + 4 :]
                    table[id_] = msgspec.structs.replace(note, models=models, said=said, sure=sure)

    def pause(self, name: str) -> None:
        self._change(self.learner.pause, name)
        self.write(events.ArmPaused(name))

    def resume(self, name: str) -> None:
        self._change(self.learner.resume, name)
        self.write(events.ArmResumed(name))

    def set_cost(self, name: str, cost: float) -> None:
        self._change(self.learner.set_cost, name, cost)
        self.write(events.CostChanged(name, float(cost)))

    # Looking inside

    def pending(self) -> dict[int, Pending]:
        """Return all that waits for its true label, by id."""
        names, notes = self.learner.arms.names, self.learner.registry.notes
        found = {}
        for entry in self.learner.registry.entries():
            note, asker = notes.get(entry.id), self.answering.asker(entry.id)
            label, caller = None if note is None else note.label, None if asker is None else asker[0]
            found[entry.id] = Pending(names[entry.arm], label, caller, note is not None)
        return found


def _check_heard(site: str, axes: Sequence[Axis], local: Mapping[str, float], policy: Policy, *, hears: bool) -> None:
    """Raise unless a site can use what models say as axes of its context."""
    if isinstance(policy, Policy) and not policy.mixes:
        allowed = "MixedViews where opinions are part of the context; no other can do without one that is missing"
        raise SettingError(f"the policy of site {site!r}", policy, allowed)
    needed = [axis.model for axis in axes if isinstance(axis, Opinion) and not axis.optional]
    if needed and not hears:
        allowed = "'all' where opinions are part of the context: with 'used' none is heard before the choice"
        raise SettingError(f"score_local of site {site!r}", "used", allowed)
    free = [name for name, cost in local.items() if not cost]
    for model in needed:
        if model not in free:
            allowed = f"one of its local models that cost nothing ({listed(free)}): these are heard before the choice"
            raise SettingError(f"the model of which site {site!r} takes opinions into its context", model, allowed)


def _rows_of(sure: Mapping[str, Sure], models: Sequence[str]) -> Iterable[bytes]:
    """Return by item how sure these models are, up to the last one that says it: whatever came in the same batch."""
    if not sure:
        return repeat(b"")
    table = np.full((max(map(len, sure.values())), len(models)), np.nan, np.float32)
    for place, model in enumerate(models):
        if model in sure:
            table[:, place] = sure[model]
    known, whole, width = ~np.isnan(table[:, ::-1]), table.tobytes(), 4 * len(models)
    widths = np.where(known.any(axis=1), len(models) - known.argmax(axis=1), 0)
    return [whole[n * width : n * width + 4 * count] for n, count in enumerate(widths.tolist())]


def _paid(notes: Sequence[Note], costs: Sequence[float | None] | None = None) -> Sequence[float | None] | None:
    """Return what decisions cost: as it is given, or else as their answers say; None if no cost is known."""
    said = [note.paid for note in notes]
    if costs is None or len(costs) != len(said):  # a wrong number of costs is refused later
        return costs if costs is not None or said.count(None) == len(said) else said
    return [paid if cost is None else cost for cost, paid in zip(costs, said, strict=True)]


def _columns(scores: Mapping[str, Sequence[float]] | None) -> dict[str, tuple[float, ...]]:
    return {model: tuple(column) for model, column in scores.items()} if scores else {}
