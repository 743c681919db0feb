"""The whole state of a site as plain data. Its classifiers are the user's and are not part of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cosend.core.learner.state import State, learner_from, learner_state
from cosend.errors import StateError
from cosend.site.context import Past, RecentValues
from cosend.site.rules import Open
from cosend.site.site import Site


def site_state(site: Site) -> State:
    """Return everything a site needs, beside its classifiers, to go on as if it had never stopped."""
    state = learner_state(site.learner)
    state.facts["site"] = {
        "context": [axis.description for axis in site.axes],
        "newest_labelled": site.past.newest_labelled,
        "newest_label": site.past.newest_label,
        "recent": {name: [recent.window, list(recent.values)] for name, recent in site.past.recent.items()},
        "open": [[ticket, *entry] for ticket, entry in site.open.items()],
    }
    _check_survives(site.name, site.past.newest_label)
    for entry in site.open.values():
        _check_survives(site.name, entry.label)
        _check_survives(site.name, entry.item)
    return state


def restore_site(site: Site, state: State) -> Callable[[], None]:
    """Check that a state fits a site and return the function that puts it there, which cannot fail."""
    learner = learner_from(state)
    try:
        saved = state.facts["site"]
        past = Past(saved["newest_labelled"], saved["newest_label"])
        past.recent = {name: RecentValues(window, values) for name, (window, values) in saved["recent"].items()}
        entries = {ticket: _opened(*entry) for ticket, *entry in saved["open"]}
        context = saved["context"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"the saved state of site {learner.name!r} is damaged: {error!r}") from error
    _check_fits("name", learner.name, site.name)
    _check_fits("classifiers", sorted(learner.arms.own), sorted(site.classifiers))
    _check_fits("peers", sorted(learner.arms.peers), sorted(site.peers))
    _check_fits("context", context, [axis.description for axis in site.axes])

    def commit() -> None:
        site.learner, site.past, site.open = learner, past, entries

    return commit


def _opened(label: Any, arm: str, item: Any, forward: list[Any] | None, caller: str | None) -> Open:
    return Open(label, arm, item, None if forward is None else (forward[0], forward[1]), caller)


def _check_survives(site: str, value: Any) -> None:
    """Raise unless a label or item comes back from JSON as it was: a tuple would come back as a list."""
    try:
        same = json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        same = False
    if not same:
        raise StateError(f"site {site!r} cannot be saved: labels and kept items must be plain values, got {value!r}")


def _check_fits(what: str, saved: object, given: object) -> None:
    if saved != given:
        raise StateError(f"the saved state has the {what} {saved!r}, the site has {given!r}")
