"""The whole state of a site as plain data. Its classifiers are the user's and are not part of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import Ints
from cosend.core.kernel.waiting import find_waiting
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import arrays_of, ids_among, not_among
from cosend.core.learner.state import Json, State, state_but_waiting
from cosend.errors import StateError, shown
from cosend.site.features import features_state, read_features, watches
from cosend.site.past import Codes, Past, RecentValues
from cosend.site.rules import Rules
from cosend.site.served import ServedRequests

Objects = npt.NDArray[np.object_]
AT_ONCE: Final = 1_000  # of what waits, in one step
SURVIVES: Final = (str, int, bool, type(None))  # a float may be none, and then it equals nothing


def rules_state(rules: Rules) -> State:
    """Return everything that the rules of a site need to go on as if they had never stopped."""
    rules.check_written()
    registry, state, facts = rules.learner.registry, rules.learner.state(), _facts(rules)
    notes = [(ticket, registry.notes[ticket]) for ticket in registry.ids() if ticket in registry.notes]
    facts["served"] = rules.served.rows()
    facts["answers"] = [*_answers(rules.name, notes)]
    state.facts["site"] = facts
    return state


def _facts(rules: Rules) -> dict[str, Any]:
    """Return what is known of a site but for what waits."""
    past = rules.past
    check_survives(rules.name, past.newest_label)
    return {
        "context": [axis.description for axis in rules.axes],
        "past": {
            "newest_labelled": past.newest_labelled,
            "newest_label": past.newest_label,
            "recent": [[axis, recent.window, list(recent.values)] for axis, recent in sorted(past.recent.items())],
            "codes": [[axis, list(codes.values)] for axis, codes in sorted(past.codes.items())],
            "features": features_state(past.features),
            "kinds": sorted(past.kinds),
        },
    }


def _answers(site: str, notes: Iterable[tuple[int, Any]]) -> Iterator[list[Any]]:
    for ticket, (label, item, others) in notes:
        for value in (label, item, others):
            check_survives(site, value)
        yield [ticket, label, item, others or {}]


class Freezing:
    """Takes the state of rules that go on deciding, and never holds them up for long.

    What waits for its label can be a million decisions. None of them changes while it waits; they only come and go. So
    they are copied ahead: by another thread, when this is made, and what stands beside their ids by `copy_notes`, a few
    at a time. Then `freeze` adds what has come since, and the rest of the state, all of one moment. While it was copied
    by another thread, something may have moved and been overlooked; `missing` tells, and `add` looks it up. Last,
    `finish` makes plain data of all, in another thread too.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules, self._registry, self._table = rules, rules.learner.registry, rules.learner.registry.table
        self._last = rules.learner.last_id  # before anything is copied: what has come later is copied in the end
        self._ids = ids_among(self._table.entries, self._last)
        self._contexts = self._table.contexts.copy()
        self._entries = np.full_like(self._table.entries, 0)  # the first touch of memory takes longer than any other
        self._late: list[int] = []  # decisions that were not answered when their notes were copied
        self._new: list[Ints] = []
        self._notes: list[Objects] = []  # in arrays: the collector of garbage would look through a long list
        self._askers: list[Objects] = []

    def copy_notes(self) -> Iterator[None]:
        """Copy what stands beside the ids, a few at each step, and what has come since as well if that is much."""
        for start in range(0, len(self._ids), AT_ONCE):
            self._copy_beside(self._ids[start : start + AT_ONCE].tolist())
            yield
        late, self._late = self._late, []
        for start in range(0, len(late), AT_ONCE):  # most of them wait no longer
            self._late += [ticket for ticket in late[start : start + AT_ONCE] if ticket in self._registry]
            yield
        while self._rules.learner.last_id > self._last + AT_ONCE:
            self._copy_new(self._last + AT_ONCE)
            yield

    def _copy_beside(self, ids: list[int]) -> None:
        notes = [*map(self._registry.notes.get, ids)]
        if None in notes:
            self._late += [ticket for ticket, note in zip(ids, notes, strict=True) if note is None]
        self._notes.append(_objects(notes))
        self._askers.append(_objects([*map(self._rules.served.asker, ids)]))

    def _copy_new(self, last: int) -> None:
        """Copy what has come since the others were copied, up to an id."""
        entries, contexts, _ = self._table
        slots = [find_waiting(entries, ticket) for ticket in range(self._last + 1, last + 1)]
        new = entries[[slot for slot in slots if slot >= 0]]
        self._contexts[new[:, col.WAIT_SPOT]] = contexts[new[:, col.WAIT_SPOT]]
        self._new.append(new[:, col.WAIT_ID])
        self._copy_beside(new[:, col.WAIT_ID].tolist())
        self._last = last

    def freeze(self) -> bool:
        """Take the state of this moment; returns whether that was possible: not if the tables have been replaced."""
        rules, registry = self._rules, self._rules.learner.registry
        rules.check_written()
        if registry is not self._registry or registry.table.contexts is not self._table.contexts:
            return False
        np.copyto(self._entries, self._table.entries)
        self._copy_new(rules.learner.last_id)
        self._ids = np.concatenate([self._ids, *self._new])
        self._later: dict[int, tuple[Any, Any]] = {}
        self._look_up(self._late)
        self._state, self._facts = state_but_waiting(rules.learner), _facts(rules)
        return True

    def _look_up(self, ids: Iterable[int]) -> None:
        notes, served = self._registry.notes, self._rules.served
        self._later.update((ticket, (notes.get(ticket), served.asker(ticket))) for ticket in ids)

    def missing(self) -> list[int]:
        """Return the ids of what waits and was overlooked by the thread that copied it."""
        missing: list[int] = not_among(ids_among(self._entries, self._last), self._ids).tolist()
        return missing

    def add(self, ids: Sequence[int]) -> bool:
        """Look up what stands beside ids; returns whether all of them still wait, as they did when it was frozen."""
        self._look_up(ids)
        return all(ticket in self._registry for ticket in ids)

    def finish(self) -> State:
        """Return the state as plain data."""
        waiting, contexts = arrays_of(self._entries, self._contexts)
        ids, state = waiting[:, col.WAIT_ID], self._state
        state.arrays["waiting"], state.arrays["waiting_contexts"] = waiting, contexts
        self._facts["answers"] = _in_pieces(_answers(self._rules.name, self._beside(ids, self._notes, 0)))
        served = self._beside(ids, self._askers, 1)
        self._facts["served"] = _in_pieces([ticket, *asker] for ticket, asker in served)
        state.facts["site"] = self._facts
        return state

    def _beside(self, ids: Ints, pieces: list[Objects], which: int) -> Iterator[tuple[int, Any]]:
        """Yield what stands beside ids, where something does."""
        copied = np.concatenate([_objects([]), *pieces])
        places = np.searchsorted(self._ids, ids)
        for start in range(0, len(ids), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            for ticket, place in zip(ids[part].tolist(), places[part].tolist(), strict=True):
                found = self._later[ticket][which] if ticket in self._later else copied[place]
                if found is not None:
                    yield ticket, found


def _objects(values: list[Any]) -> Objects:
    """Return an array of values as they are: a tuple is one of them."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _in_pieces(rows: Iterator[list[Any]]) -> Json:
    """Return rows as JSON; all at once they would keep other threads waiting, and the collector of garbage busy."""
    pieces, before = list[bytes](), "["
    while some := [*islice(rows, AT_ONCE)]:
        pieces.append(f"{before}{json.dumps(some)[1:-1]}".encode())
        before = ", "
    return Json((*pieces, b"]" if pieces else b"[]"))


def restore_rules(rules: Rules, state: State) -> Callable[[], None]:
    """Check that a state fits the rules of a site and return the function that puts it there, which cannot fail."""
    learner = Learner.from_state(state)
    try:
        saved = state.facts["site"]
        context, past = saved["context"], _past(saved["past"], len(rules.axes), learner)
        learner.registry.notes.update((int(ticket), _note(*note)) for ticket, *note in saved["answers"])
        _read_kinds(past, saved["past"].get("kinds"), [*learner.registry.notes.values()])
        served = ServedRequests()
        for ticket, caller, request in saved["served"]:
            served.add(str(caller), [int(request)], [int(ticket)])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StateError(f"the saved state of site {learner.name!r} is damaged: {error!r}") from error
    check_fits(learner, rules)
    _check_same("context", context, [axis.description for axis in rules.axes])
    if watches(rules.axes) != (past.features is not None):
        raise StateError(f"the saved state of site {learner.name!r} is damaged: it lacks what is known of features")

    def commit() -> None:
        rules.learner, rules.past, rules.served = learner, past, served

    return commit


def _past(saved: dict[str, Any], axes: int, learner: Learner) -> Past:
    past = Past(int(saved["newest_labelled"]), saved["newest_label"])
    past.recent = {int(axis): RecentValues(int(window), values) for axis, window, values in saved["recent"]}
    past.codes = {int(axis): Codes(values) for axis, values in saved["codes"]}
    if not all(0 <= axis < axes for axis in (*past.recent, *past.codes)):
        raise ValueError("it has values of an axis that is not there")
    past.features = read_features(saved.get("features"))
    laid, same = (past.features.laid, past.features.same) if past.features is not None else ([], {})
    if len(laid) != learner.dimensions - learner.given or len(same) != learner.unchanged:
        raise ValueError("it has other features than axes")
    return past


def _note(label: Any, item: Any, others: dict[str, Any]) -> tuple[Any, Any, dict[str, Any] | None]:
    return label, item, dict(others) or None


def _read_kinds(past: Past, saved: Any, notes: Sequence[Any]) -> None:
    """Read the kinds of labels that arms have given; a state that does not have them has answers that wait."""
    if saved is None:
        past.remember_kinds([label for label, _, _ in notes], [others for _, _, others in notes])
    else:
        if not isinstance(saved, list) or not all(isinstance(kind, str) for kind in saved):
            raise ValueError(f"kinds of labels must be a list of texts, got {shown(saved)}")
        past.kinds.update(saved)


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


def check_fits(learner: Learner, rules: Rules) -> None:
    """Raise unless a learner has the name and the arms of a site."""
    _check_same("name", learner.name, rules.name)
    _check_same("classifiers", sorted(learner.arms.own), sorted(rules.learner.arms.own))
    _check_same("peers", sorted(learner.arms.peers), sorted(rules.learner.arms.peers))


def _check_same(what: str, saved: object, given: object) -> None:
    if saved != given:
        raise StateError(f"the saved state has the {what} {saved!r}, the site has {given!r}")
