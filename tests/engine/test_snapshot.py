"""The state of a site that keeps deciding, taken in steps: the same as the state of one moment."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cosend.algorithm.state import Json, State
from cosend.axes import Feature
from cosend.engine import snapshot
from cosend.engine.site_state import Heard, SiteState
from cosend.engine.snapshot import Freezing, state_of
from cosend.errors import StateError

POINT = np.array([[0.5]])


def new_state() -> SiteState:
    return SiteState("lab", local={"a": 0.0, "b": 0.0}, axes=[Feature("x", range=(0, 1))])


def choose(state: SiteState, count: int, *, answered: bool = True) -> list[int]:
    """Let items come, and answer them with a mixture of what local models say."""
    ids = []
    for _ in range(count):
        step = state.choose(POINT, heard=Heard({"a": ["x"]} if state.learner.last_id % 3 else {}))
        ids.append(step.first)
    if answered:
        state.complete([id_ for id_ in ids if id_ not in state.learner.registry.notes], ["y"] * _open(state, ids))
    return ids


def _open(state: SiteState, ids: list[int]) -> int:
    return sum(id_ not in state.learner.registry.notes for id_ in ids)


def in_words(state: State) -> tuple[str, dict[str, bytes]]:
    def plain(value: Any) -> Any:
        if isinstance(value, Json):
            return json.loads(b"".join(value))
        return {key: plain(each) for key, each in value.items()} if isinstance(value, dict) else value

    facts = json.dumps(plain(state.facts), sort_keys=True)
    return facts, {name: array.tobytes() for name, array in sorted(state.arrays.items())}


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_state_that_was_taken_in_steps_is_that_of_the_last_one(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "AT_ONCE", at_once)
    state = new_state()
    early = choose(state, 10)
    late = choose(state, 5, answered=False)
    unanswered = [id_ for id_ in late if id_ not in state.learner.registry.notes]
    assert unanswered
    state.serve("hq", [1, 2], [(0.5,)] * 2, [(True, True)] * 2)
    freezing = Freezing(state)
    for n, _ in enumerate(freezing.copy_notes()):
        if n == 0:  # meanwhile all goes on
            state.complete(unanswered[:1], ["late"])
            state.opine("b", early[4:6], ["late"] * 2)
            state.withdraw(late[4:])
            state.settle(early[:4], ["x"] * 4, [1.0] * 4)
            choose(state, 8)
    assert freezing.freeze()
    assert freezing.add(freezing.missing())
    expected = in_words(state_of(state))
    choose(state, 3)  # what comes later is not part of it
    assert in_words(freezing.finish()) == expected


def test_what_a_thread_has_overlooked_is_looked_up() -> None:
    state = new_state()
    ids = choose(state, 6)
    freezing = Freezing(state)
    assert [*freezing.copy_notes()] == [None]
    freezing._ids = freezing._ids[1:]  # it has moved in the table while it was copied
    freezing._notes, freezing._askers = [freezing._notes[0][1:]], [freezing._askers[0][1:]]
    assert freezing.freeze()
    assert freezing.missing() == [ids[0]]
    assert freezing.add([ids[0]])
    assert in_words(freezing.finish()) == in_words(state_of(state))
    state.withdraw([ids[0]])
    assert not freezing.add([ids[0]])  # it is too late to look it up


def test_tables_that_were_replaced_must_be_copied_again() -> None:
    state = new_state()
    choose(state, 3)
    freezing = Freezing(state)
    state.add_model("c")
    choose(state, 2_000)
    assert not freezing.freeze()


@pytest.mark.parametrize("label", [("a", 1), {1: "a"}, object(), float("nan")], ids=["tuple", "key", "object", "nan"])
def test_a_label_that_json_would_change_cannot_be_saved(label: Any) -> None:
    state = new_state()
    (id_,) = choose(state, 1, answered=False)
    state.complete([id_], [label])
    with pytest.raises(StateError, match="site 'lab' cannot be saved: labels and kept items must be plain values"):
        state_of(state)
