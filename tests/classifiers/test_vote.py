"""A vote combines what others say: the majority at first, then whoever has been right about such ballots."""

from __future__ import annotations

import json
import math
import pickle
import random
from typing import Any

import pytest

from cosend import Vote
from cosend.errors import SettingError
from cosend.models import vote as voting
from cosend.models.vote import NEWEST, ballot_of

FRUIT = ("apple", "pear", "plum", "quince")


def say(vote: Vote, **ballot: Any) -> Any:
    return vote.predict([ballot])[0]


def test_before_anything_is_learnt_the_majority_wins() -> None:
    vote = Vote()
    assert say(vote, a="pear", b="apple", c="pear") == "pear"
    assert vote.predict([{"a": "apple"}, {"a": None, "b": "plum"}]) == ["apple", "plum"]
    for nothing in (dict[str, Any](), {"a": None, NEWEST: None}):
        assert vote.predict([nothing]) == [None]


def stream(count: int, seed: int = 0) -> list[tuple[dict[str, Any], str]]:
    """Return ballots of three voters for four classes: each errs often, together they know."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        truth = draw.choice(FRUIT)
        place = FRUIT.index(truth)
        said = {
            "halves": FRUIT[place // 2 * 2],
            "ends": FRUIT[place % 2],
            "noise": draw.choice(FRUIT),
        }
        rows.append((said, truth))
    return rows


def test_it_finds_out_what_no_voter_ever_says() -> None:
    vote, right = Vote(), []
    for ballot, truth in stream(600):
        right.append(vote.predict([ballot])[0] == truth)
        vote.learn(ballot, truth)
    assert sum(right[300:]) > 290
    assert vote.predict([{"halves": "plum", "ends": "pear"}]) == ["quince"]  # one of them says nothing


def test_it_follows_a_change() -> None:
    vote = Vote()
    for turn in range(2):
        for n in range(100):
            vote.learn({"a": n % 2, "b": 0}, n % 2 if turn == 0 else 1 - n % 2)
        assert vote.predict([{"a": 1, "b": 0}]) == [1 - turn]


def test_predicting_changes_nothing_and_what_is_kept_goes_on_to_the_last_bit() -> None:
    vote, rows = Vote(over=["halves", "ends"]), stream(400, 2)
    for ballot, truth in rows[:200]:
        vote.learn(ballot, truth)
    facts = vote.facts()
    vote.predict([{"halves": "durian", "ends": "medlar"}])
    assert vote.facts() == facts
    copies = [pickle.loads(pickle.dumps(vote)), Vote(over=["halves", "ends"])]  # noqa: S301 - pickled here and now
    copies[1].remember(json.loads(json.dumps(facts)))
    for ballot, truth in rows[200:]:
        assert len({one.predict([ballot])[0] for one in (vote, *copies)}) == 1
        for one in (vote, *copies):
            one.learn(ballot, truth)
    assert vote.facts() == copies[0].facts() == copies[1].facts()
    assert copies[0].over == ("halves", "ends")


def test_what_cannot_be_counted_is_passed_over() -> None:
    vote, other = Vote(), Vote()
    for ballot, truth in stream(60, 3):
        for one in (vote, other):
            one.learn(ballot, truth)
        vote.learn(ballot, ["no label"])
        assert vote.facts() == other.facts()
        assert vote.predict([{**ballot, "odd": [1], "odder": {}, "none": None}]) == other.predict([ballot])
    assert say(vote, a=[1], b=None) is None


@pytest.mark.parametrize("place", ["unit", "bayes", "table", "weights"])
def test_what_was_never_kept_is_refused(place: str) -> None:
    vote = Vote()
    vote.learn({"a": 1}, 1)
    facts = vote.facts()
    if place == "unit":
        facts["bayes"][0][0] = 0.0
    elif place == "bayes":
        facts["bayes"][0][1][0][-1] = -1.0
    elif place == "table":
        facts["tables"][0][0][1][0][1] = math.inf
    else:
        facts["weights"] = [0.0, 0.5, 0.25, 0.25]
    with pytest.raises(ValueError, match=r"of a vote must be|a vote must have"):
        Vote().remember(facts)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voting, "MOST_LABELS", 3)
    monkeypatch.setattr(voting, "MOST_BALLOTS", 2)
    monkeypatch.setattr(voting, "LARGEST_UNIT", 1e3)
    vote = Vote()
    for n in range(300):
        vote.learn({"a": n % 5, "b": n % 3}, n % 5)
    facts = vote.facts()
    assert facts["labels"] == [0, 1, 2]
    assert [len(rows) for rows in facts["tables"]] == [2, 2]
    assert all(unit < 2e3 for unit, _ in facts["bayes"])
    assert vote.predict([{"a": 2, "b": 2}]) == [2]


def test_a_ballot_has_no_votes_and_what_the_vote_is_over() -> None:
    said = {NEWEST: 1, "a": 0, "b": 1, "v": 1, "w": 0}
    assert ballot_of(Vote(), said, ["v", "w"]) == {NEWEST: 1, "a": 0, "b": 1}
    assert ballot_of(Vote(over=["b", "v"]), said, ["v", "w"]) == {NEWEST: 1, "b": 1}
    with pytest.raises(SettingError, match="a vote combines"):
        Vote(over="ab")


@pytest.mark.parametrize("over", [[["a"]], [None], []])
def test_a_vote_is_over_at_least_one_name(over: Any) -> None:
    with pytest.raises(SettingError, match="a vote combines must be a list of at least one name"):
        Vote(over=over)
