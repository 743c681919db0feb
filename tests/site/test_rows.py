"""Rows are a sequence of tuples that are made when somebody looks at them."""

from __future__ import annotations

import pytest

from cosend.engine.needs import QUESTION, REPLY, Question, Reply, Rows, columns_of

REPLIES = [Reply("well"), Reply(None, "it hangs"), Reply(3)]
ROWS = Rows(REPLY, ["well", None, 3], [None, "it hangs", None])


def test_they_look_like_the_tuples_themselves() -> None:
    assert len(ROWS) == 3
    assert [*ROWS] == REPLIES
    assert [ROWS[place] for place in range(-3, 3)] == [*REPLIES, *REPLIES]
    assert [*reversed(ROWS)] == REPLIES[::-1]
    assert all(isinstance(row, Reply) for row in [*ROWS, ROWS[0]])
    assert ROWS[1:] == REPLIES[1:]
    assert ROWS[5:] == []
    assert repr(ROWS) == repr(REPLIES)


def test_columns_of_different_lengths_are_found_out() -> None:
    with pytest.raises(ValueError, match="shorter"):
        [*Rows(REPLY, ["well", "ill"], [None])]


def test_columns_are_those_of_the_tuples() -> None:
    questions = [Question(1, "a", (0.5,), False, True), Question(2, "b", (0.25,), True, True)]
    columns = columns_of(questions, 5)
    assert [*map(tuple, columns)] == [(1, 2), ("a", "b"), ((0.5,), (0.25,)), (False, True), (True, True)]
    assert columns_of(Rows(QUESTION, *columns), 5) == tuple(columns)
    assert columns_of([], 5) == [()] * 5
