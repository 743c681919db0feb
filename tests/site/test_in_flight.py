"""Two items on their way at once, one thing that happens to them, and nothing that is left behind."""

from __future__ import annotations

import numpy as np
import pytest

from cosend import Context, Patience
from cosend.core.kernel import columns as col
from cosend.errors import SettledDecision, UnansweredDecision
from cosend.site.rules import Rules

POINT = np.array([[0.5]])


def two_on_their_way(patience: Patience | None = None) -> tuple[Rules, list[int], list[str]]:
    """Return rules that have chosen for two items, their ids and the arms that are to label them."""
    rules = Rules("lab", local={"a": 0.0, "b": 0.0}, axes=[Context("x", range=(0, 1))], patience=patience)
    steps = [rules.choose(POINT) for _ in range(2)]
    return rules, [step.first for step in steps], [step.arms[0] for step in steps]


def waiting(rules: Rules) -> int:
    """Return how many items cells believe to wait for."""
    return int(rules.learner.ledger.counts[..., [col.WAITING, col.TRAINING_WAITING]].sum())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
def test_where_only_one_may_wait_the_first_is_forgotten_whichever_is_answered_first(order: tuple[int, int]) -> None:
    rules, ids, _ = two_on_their_way(Patience(max_waiting=1))
    left = [ticket for n in order for ticket in rules.complete([ids[n]], [1])]
    assert left == [ids[0]]
    assert list(rules.open()) == rules.learner.registry.ids() == [ids[1]]
    with pytest.raises(SettledDecision):
        rules.settle([ids[0]], [1], [1.0])
    rules.settle([ids[1]], [1], [1.0])
    assert (rules.open(), waiting(rules)) == ({}, 0)


def test_a_label_that_comes_before_the_answer_is_refused_and_may_come_again() -> None:
    rules, ids, _ = two_on_their_way()
    with pytest.raises(UnansweredDecision, match=f"decision {ids[0]} of site 'lab'"):
        rules.settle([ids[0]], [1], [1.0])
    assert repr(rules) == "<Rules of site 'lab': 2 classifiers, 0 peers, 2 items, 2 labels awaited>"
    rules.complete(ids, [1, 1])
    rules.settle(ids, [1, 1], [1.0, 1.0])
    assert (rules.open(), waiting(rules)) == ({}, 0)


def test_an_arm_that_leaves_takes_what_is_on_its_way_along() -> None:
    rules, ids, arms = two_on_their_way()
    assert set(arms) == {"a", "b"}
    rules.remove(arms[0])
    assert rules.complete(ids, [1, 1]) == [ids[0]]
    assert list(rules.open()) == [ids[1]]
    rules.settle([ids[1]], [1], [1.0])
    assert (rules.open(), waiting(rules)) == ({}, 0)


def test_what_is_cancelled_is_awaited_no_longer() -> None:
    rules, ids, _ = two_on_their_way()
    assert waiting(rules) > 0
    rules.withdraw(ids)
    assert rules.complete(ids, [1, 1]) == ids
    assert (rules.open(), waiting(rules)) == ({}, 0)
