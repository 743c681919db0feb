"""What the rules of a site refuse: a driver that hands over nonsense gets a clear error, and the state stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cosend import Context, Rules, fold, verify
from cosend.errors import ContextError, CosendError, SettingError, StateError, UnknownDecision
from cosend.site import events
from cosend.site.snapshot import rules_state

Refused = tuple[Callable[[Rules], object], type[CosendError], str]
TEXT: Any = ["q"]
TWO = np.full((2, 2), 0.5)
REFUSED: dict[str, Refused] = {
    "too few axes": (lambda r: r.choose(np.zeros((3, 1))), ContextError, "must be .item, 2 axes."),
    "too many axes": (lambda r: r.choose(np.zeros((3, 3))), ContextError, "must be .item, 2 axes."),
    "no rows": (lambda r: r.choose(np.zeros(2)), ContextError, "must be .item, 2 axes."),
    "whole numbers": (lambda r: r.choose(np.zeros((1, 2), np.int64)), ContextError, "must be .item, 2 axes."),
    "again for one of two": (lambda r: r.choose(TWO, again=[1]), SettingError, "again must be the arrival of each"),
    "again of the future": (lambda r: r.choose(TWO, again=[1, 10**9]), SettingError, "again must be the arrival"),
    "columns": (lambda r: r.place([]), SettingError, r"columns must be as many as axes \(2\), got 0"),
    "too few labels": (
        lambda r: r.complete([1, 2], ["x"]),
        SettingError,
        r"must be as many as ids \(2\), or none, got .1, 0 and 0",
    ),
    "too few items": (
        lambda r: r.complete([1, 2], [1, 1], [{}]),
        SettingError,
        r"must be as many as ids \(2\), or none, got .2, 1 and 0",
    ),
    "a text as id": (lambda r: r.complete(TEXT, ["x"]), UnknownDecision, "never made a decision 'q'"),
    "a huge id": (lambda r: r.withdraw([2**70]), UnknownDecision, "never made a decision"),
    "a truth value as id": (lambda r: r.fail([True], "a", "x"), UnknownDecision, "never made a decision True"),
    "no arm": (lambda r: r.fail([1], "", "x"), SettingError, "the arm that failed must be text"),
}


def a_rules(log: list[events.Event]) -> Rules:
    axes = [Context("x", range=(0, 1)), Context("y", range=(0, 1))]
    rules = Rules("lab", local={"a": 0.0, "b": 0.1}, axes=axes, journal=log.append)
    rules.choose(TWO)
    return rules


@pytest.mark.parametrize("case", REFUSED)
def test_nonsense_is_refused_and_changes_nothing(case: str) -> None:
    call, error, sentence = REFUSED[case]
    log: list[events.Event] = []
    rules = a_rules(log)
    before, written = str(rules_state(rules)), len(log)
    with pytest.raises(error, match=sentence):
        call(rules)
    assert (str(rules_state(rules)), len(log)) == (before, written)
    rules.complete([1, 2], [1, 1])


def test_a_log_with_a_hole_is_refused_and_another_propensity_is_a_difference() -> None:
    log: list[events.Event] = []
    a_rules(log)
    chosen = log[-1]
    assert isinstance(chosen, events.Chosen)
    with pytest.raises(StateError, match="it begins with id 77, the next one is 1"):
        fold([log[0], replace(chosen, first=77)])
    (difference,) = verify([log[0], replace(chosen, propensities=(0.25, 0.25))])
    assert difference.number == 1
    nothing: Any = None
    for call in (fold, verify):
        with pytest.raises(SettingError, match="log must be a list of events"):
            call(nothing)
