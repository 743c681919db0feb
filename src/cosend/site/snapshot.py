"""The whole state of a site as plain data. Its classifiers are the user's and are not part of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from cosend.core.learner.learner import Learner
from cosend.core.learner.state import State
from cosend.errors import StateError, shown
from cosend.site.features import features_state, read_features, watches
from cosend.site.past import Codes, Past, RecentValues
from cosend.site.rules import Rules
from cosend.site.served import ServedRequests

SURVIVES: Final = (str, int, bool, type(None))  # a float may be none, and then it equals nothing


def rules_state(rules: Rules) -> State:
    """Return everything that the rules of a site need to go on as if they had never stopped."""
    return frozen_state(rules)()


def frozen_state(rules: Rules) -> Callable[[], State]:
    """Take the state of a site, quickly, and return what makes plain data of it, which another thread may do."""
    rules.check_written()
    state, name = rules.learner.state(), rules.name
    past, notes, ids = rules.past, rules.learner.registry.notes.copy(), rules.learner.registry.ids()
    facts: dict[str, Any] = {
        "context": [axis.description for axis in rules.axes],
        "past": {
            "newest_labelled": past.newest_labelled,
            "newest_label": past.newest_label,
            "recent": [[axis, recent.window, list(recent.values)] for axis, recent in sorted(past.recent.items())],
            "codes": [[axis, list(codes.values)] for axis, codes in sorted(past.codes.items())],
            "features": features_state(past.features),
            "kinds": sorted(past.kinds),
        },
        "served": rules.served.rows(),
    }

    def finish() -> State:
        answered = [(ticket, *notes[ticket]) for ticket in ids if ticket in notes]
        facts["answers"] = [[ticket, label, item, others or {}] for ticket, label, item, others in answered]
        check_survives(name, facts["past"]["newest_label"])
        for _, *note in facts["answers"]:
            for value in note:
                check_survives(name, value)
        state.facts["site"] = facts
        return state

    return finish


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
