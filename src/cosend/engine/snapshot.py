"""The whole state of a site as plain data. Its models are the user's and are no part of it, but for those it learns."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.algorithm import layout as col
from cosend.algorithm.layout import Ints
from cosend.algorithm.learner import Learner
from cosend.algorithm.pending import arrays_of, find_pending, ids_among, not_among
from cosend.algorithm.state import Json, State, state_but_pending
from cosend.engine.budget import Accounts
from cosend.engine.encoding import Codes, Encoder, RecentValues, features_state, read_features
from cosend.engine.learnt_arms import LearntArms, is_seen
from cosend.engine.site_state import Answering, LabelKinds, Note, SiteState
from cosend.engine.spent import Spent
from cosend.errors import SettingError, StateError, shown

Objects = npt.NDArray[np.object_]
AT_ONCE: Final = 1_000  # pending decisions in one step
SURVIVES: Final = (str, int, bool, type(None))  # a float may be not a number, which equals nothing
DAMAGED: Final = (SettingError, KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)


def state_of(site: SiteState) -> State:
    site.check_written()
    registry, state, facts = site.learner.registry, site.learner.state(), _facts(site)
    table = _Notes(site.name)
    notes = [(id_, registry.notes[id_]) for id_ in registry.ids() if id_ in registry.notes]
    facts["answering"] = site.answering.rows()
    facts["notes"] = [*table.rows(notes)]
    facts["models"] = table.models
    state.facts["site"] = facts
    state.arrays.update(site.learnt.arrays())
    return state


def _facts(site: SiteState) -> dict[str, Any]:
    """Return what is known about a site except its pending decisions."""
    encoder = site.encoder
    check_survives(site.name, encoder.newest_label)
    table = _Notes(site.name)
    facts = {
        "context": [axis.description for axis in encoder.axes],
        "newest": [encoder.newest_id, encoder.newest_label],
        "recent": [[axis, recent.window, list(recent.values)] for axis, recent in sorted(encoder.recent.items())],
        "codes": [[axis, list(codes.values)] for axis, codes in sorted(encoder.codes.items())],
        "features": features_state(encoder.features),
        "kinds": sorted(site.kinds.kinds),
        "outbox": {peer: [list(told) for told in queue] for peer, queue in site.outbox.items()},
        "learnt": site.learnt.facts(),
        "unanswered": [*table.rows(sorted(site.unanswered.items()))],
        "unanswered_models": table.models,
        "accounts": None if site.accounts is None else site.accounts.facts(),
        "spent": site.spent.facts(),
    }
    for queue in site.outbox.values():
        for _, truth, *_ in queue:
            check_survives(site.name, truth)
    said = [codes.values for axis, codes in encoder.codes.items() if axis in encoder.heard]
    for label in chain(site.learnt.labels, *said):
        check_survives(site.name, label)
    return facts


class _Notes:
    """Notes as rows: [id, label, item, place of its models in `models`, what they said, newest label, sure, seen].

    Up to three more, as far as they are known: the cost that its answer names, its charge in the accounts of a budget,
    and its expected cost.
    """

    def __init__(self, site: str) -> None:
        self.site = site
        self.models: list[list[str]] = []
        self._places: dict[tuple[str, ...], int] = {}

    def rows(self, notes: Iterable[tuple[int, Note]]) -> Iterator[list[Any]]:
        for id_, note in notes:
            label, item, models, said, newest = note.label, note.item, note.models, note.said, note.newest
            for value in (label, item, newest, *said):
                check_survives(self.site, value)
            if models not in self._places:
                self._places[models] = len(self.models)
                self.models.append([*models])
            sure, seen = b64encode(note.sure).decode(), b64encode(note.seen).decode()
            paid = [note.paid, note.charged, note.cost]
            while paid and paid[-1] is None:
                paid.pop()
            yield [id_, label, item, self._places[models], [*said], newest, sure, seen, *paid]


class Freezing:
    """Takes the state of a site that keeps deciding, and never holds it up for long.

    A million decisions can be pending. Hardly any changes while it waits; they only come and go. So they are copied
    ahead: by another thread, when this is made, and the notes on their ids by `copy_notes`, a few at a time.
    Then `freeze` adds what has come since, and the rest of the state, all of one moment. While another thread copied
    something, it may have moved and been overlooked; `missing` tells, and `add` looks it up. Last, `finish` makes plain
    data of everything, in another thread too.
    """

    def __init__(self, site: SiteState) -> None:
        self._site, self._registry, self._table = site, site.learner.registry, site.learner.registry.table
        self._last = site.learner.last_id  # before anything is copied: what has come later is copied in the end
        self._ids = ids_among(self._table.entries, self._last)
        self._contexts = self._table.contexts.copy()
        self._entries = np.full_like(self._table.entries, 0)  # the first touch of memory takes longer than any other
        self._late: list[int] = []  # decisions that were not answered when their notes were copied
        self._new: list[Ints] = []
        self._notes: list[Objects] = []  # in arrays: the garbage collector would look through a long list
        self._askers: list[Objects] = []

    def copy_notes(self) -> Iterator[None]:
        """Copy the notes on the ids, a few at each step, and what has come since as well if that is much."""
        self._site.revised = set()
        for start in range(0, len(self._ids), AT_ONCE):
            self._copy_beside(self._ids[start : start + AT_ONCE].tolist())
            yield
        late, self._late = self._late, []
        for start in range(0, len(late), AT_ONCE):  # most of them are no longer pending
            self._late += [id_ for id_ in late[start : start + AT_ONCE] if id_ in self._registry]
            yield
        while self._site.learner.last_id > self._last + AT_ONCE:
            self._copy_new(self._last + AT_ONCE)
            yield

    def _copy_beside(self, ids: list[int]) -> None:
        notes = [*map(self._registry.notes.get, ids)]
        if None in notes:
            self._late += [id_ for id_, note in zip(ids, notes, strict=True) if note is None]
        self._notes.append(_objects(notes))
        self._askers.append(_objects([*map(self._site.answering.asker, ids)]))

    def _copy_new(self, last: int) -> None:
        """Copy what has come since the others were copied, up to an id."""
        entries, contexts, _ = self._table
        slots = [find_pending(entries, id_) for id_ in range(self._last + 1, last + 1)]
        new = entries[[slot for slot in slots if slot >= 0]]
        self._contexts[new[:, col.PENDING_SPOT]] = contexts[new[:, col.PENDING_SPOT]]
        self._new.append(new[:, col.PENDING_ID])
        self._copy_beside(new[:, col.PENDING_ID].tolist())
        self._last = last

    def freeze(self) -> bool:
        """Take the state of this moment; returns whether that was possible: not if the tables have been replaced."""
        site, registry = self._site, self._site.learner.registry
        site.check_written()
        if registry is not self._registry or registry.table.contexts is not self._table.contexts:
            return False
        np.copyto(self._entries, self._table.entries)
        self._copy_new(site.learner.last_id)
        self._ids = np.concatenate([self._ids, *self._new])
        self._later: dict[int, tuple[Any, Any]] = {}
        self._look_up([*self._late, *site.revised])
        self._state, self._facts = state_but_pending(site.learner), _facts(site)
        self._state.arrays.update(site.learnt.arrays())
        return True

    def _look_up(self, ids: Iterable[int]) -> None:
        notes, answering = self._registry.notes, self._site.answering
        self._later.update((id_, (notes.get(id_), answering.asker(id_))) for id_ in ids)

    def missing(self) -> list[int]:
        """Return the pending ids that were overlooked by the thread that copied them."""
        missing: list[int] = not_among(ids_among(self._entries, self._last), self._ids).tolist()
        return missing

    def add(self, ids: Sequence[int]) -> bool:
        """Look up the notes on ids; returns whether all of them are still pending, as when it was frozen."""
        self._look_up(ids)
        return all(id_ in self._registry for id_ in ids)

    def finish(self) -> State:
        waiting, contexts = arrays_of(self._entries, self._contexts)
        ids, state, table = waiting[:, col.PENDING_ID], self._state, _Notes(self._site.name)
        state.arrays["pending"], state.arrays["pending_contexts"] = waiting, contexts
        answering = self._beside(ids, self._askers, 1)
        self._facts["answering"] = _in_pieces([id_, *asker] for id_, asker in answering)
        self._facts["notes"] = _in_pieces(table.rows(self._beside(ids, self._notes, 0)))
        self._facts["models"] = table.models
        state.facts["site"] = self._facts
        return state

    def _beside(self, ids: Ints, pieces: list[Objects], which: int) -> Iterator[tuple[int, Any]]:
        copied = np.concatenate([_objects([]), *pieces])
        places = np.searchsorted(self._ids, ids)
        for start in range(0, len(ids), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            for id_, place in zip(ids[part].tolist(), places[part].tolist(), strict=True):
                found = self._later[id_][which] if id_ in self._later else copied[place]
                if found is not None:
                    yield id_, found


def _objects(values: list[Any]) -> Objects:
    """Return an array of values as they are: a tuple is one of them."""
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _in_pieces(rows: Iterator[list[Any]]) -> Json:
    """Return rows as JSON; all at once they would keep other threads waiting, and the garbage collector busy."""
    pieces, before = list[bytes](), "["
    while some := [*islice(rows, AT_ONCE)]:
        pieces.append(f"{before}{json.dumps(some)[1:-1]}".encode())
        before = ", "
    return Json((*pieces, b"]" if pieces else b"[]"))


def restore(site: SiteState, state: State) -> Callable[[], None]:
    """Check that a state fits a site and return the function that puts it there, which cannot fail."""
    learner = Learner.from_state(state)
    try:
        saved = state.facts["site"]
        context, encoder = saved["context"], _encoder(saved, site.encoder, learner)
        learner.registry.notes.update(_notes(saved["notes"], saved["models"]))
        unanswered = dict(_notes(saved["unanswered"], saved["unanswered_models"]))
        answering = Answering()
        for id_, caller, request in saved["answering"]:
            answering.add(str(caller), [int(request)], [int(id_)])
        outbox = {str(peer): deque(_queued(*row) for row in queue) for peer, queue in saved["outbox"].items()}
        spending = saved.get("accounts")  # older snapshots have none
        accounts = None if spending is None else Accounts.restored(spending)
        spent = Spent.restored(saved.get("spent", {}))  # nor had they counted this
        kinds, learnt = _kinds(saved["kinds"]), LearntArms.restored(saved["learnt"], state.arrays)
    except DAMAGED as error:
        raise StateError(f"the saved state of site {learner.name!r} is damaged: {error!r}") from error
    check_fits(learner, site)
    wanted, known = site.learner.policy.share_labels, learner.policy.share_labels
    if wanted != known and (site.share_labels is not None or wanted == "never"):
        _check_same("share_labels", known, wanted)
    _check_same("context", context, [axis.description for axis in site.encoder.axes])
    _check_same("learnt arms", learnt.kinds, site.learnt.kinds)
    if (site.encoder.features is None) != (encoder.features is None):
        raise StateError(f"the saved state of site {learner.name!r} is damaged: it lacks what is known about features")

    def commit() -> None:
        site.learner, site.encoder, site.answering, site.unanswered = learner, encoder, answering, unanswered
        site.outbox, site.kinds, site.learnt, site.to_tell = outbox, kinds, learnt, dict.fromkeys(outbox)
        site.accounts, site.spent = accounts, spent

    return commit


def _encoder(saved: dict[str, Any], of: Encoder, learner: Learner) -> Encoder:
    encoder = Encoder(of.axes)
    newest_id, encoder.newest_label = saved["newest"]
    encoder.newest_id = int(newest_id)
    encoder.recent = {int(axis): RecentValues(int(window), values) for axis, window, values in saved["recent"]}
    encoder.codes |= {int(axis): Codes(values, said=int(axis) in of.heard) for axis, values in saved["codes"]}
    if not all(0 <= axis < len(of.axes) for axis in (*encoder.recent, *encoder.codes)):
        raise ValueError("it has values of an axis that is not there")
    encoder.features = read_features(saved["features"])
    axes, constant = (encoder.features.axes, encoder.features.constant) if encoder.features is not None else ([], {})
    if len(axes) != learner.dimensions - learner.given or len(constant) != learner.unchanged:
        raise ValueError("it has other features than axes")
    return encoder


def _notes(rows: Iterable[Sequence[Any]], models: Sequence[Sequence[str]]) -> Iterator[tuple[int, Note]]:
    named = [tuple(map(str, each)) for each in models]
    for id_, label, item, place, said, newest, sure, seen, *paid in rows:
        heard, known, looked = named[place], b64decode(sure), b64decode(seen)
        if len(said) != len(heard) or len(known) > 4 * len(heard) or len(known) % 4:
            raise ValueError("it has opinions of models that are not named")
        if not is_seen(looked):
            raise ValueError("it has items that learnt arms cannot have seen")
        yield int(id_), Note(label, item, heard, tuple(said), newest, known, looked, *map(_float_or_none, paid))


def _float_or_none(value: Any) -> float | None:
    return None if value is None else float(value)


def _queued(request: Any, truth: Any, withdrawn: Any, score: Any = None) -> tuple[Any, ...]:
    """Return what a peer is to be told; older snapshots have no scores."""
    return int(request), truth, bool(withdrawn), None if score is None else float(score)


def _kinds(saved: Any) -> LabelKinds:
    if not isinstance(saved, list) or not all(isinstance(kind, str) for kind in saved):
        raise ValueError(f"kinds of labels must be a list of texts, got {shown(saved)}")
    return LabelKinds(saved)


def check_survives(site: str, value: Any) -> None:
    """Raise unless a label or item comes back from JSON as it was: a tuple would come back as a list."""
    if type(value) in SURVIVES:
        return
    try:
        same = json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        same = False
    if not same:
        raise StateError(
            f"site {site!r} cannot be saved: labels and kept items must be plain values, got {shown(value)}"
        )


def check_fits(learner: Learner, site: SiteState) -> None:
    """Raise unless a learner has the name and the arms of a site."""
    _check_same("name", learner.name, site.name)
    _check_same("classifiers", sorted(learner.arms.own), sorted(site.learner.arms.own))
    _check_same("peers", sorted(learner.arms.peers), sorted(site.learner.arms.peers))


def _check_same(what: str, saved: object, given: object) -> None:
    if saved != given:
        raise StateError(f"the saved state has the {what} {saved!r}, the site has {given!r}")
