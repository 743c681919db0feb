"""What is run beside the arm of an item: classifiers that a label scores too, and those that a vote combines.

An item is done when nobody is missing any more, so that what others said of it stands in the event of its answer. The
time limits of the models are the limit of that, because a model that is too slow has failed. Votes come last: they see
what all others have said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from cosend.classifiers.vote import NEWEST, ballot_of, votes_among
from cosend.node.breaker import Breakers
from cosend.node.counts import Counts
from cosend.node.labels import are_labels, kind_of, replies_of
from cosend.node.workers import Answers, Replies, Worker
from cosend.site.messages import SILENT, Reply
from cosend.site.rules import Rules

Heard: TypeAlias = Callable[[int, int, Answers], None]  # the places of the first and after the last, and their answers
Predict: TypeAlias = Callable[[str, Sequence[Any], Heard], None]
Worked: TypeAlias = Callable[[str], None]
Part: TypeAlias = tuple[int, int, Answers]
Said: TypeAlias = dict[str, Any]  # of one item, by classifier


class Awaited:
    """So many answers that are still to come; `then` is called when all are there."""

    def __init__(self, count: int, then: Callable[[], None]) -> None:
        self._missing, self._then = count, then
        self.less(0)

    def less(self, count: int) -> None:
        """Take note that so many have come."""
        self._missing -= count
        if not self._missing:
            self._then()


class Beside:
    """Runs classifiers beside the arms of items, and knows what they said until it is written down."""

    def __init__(
        self,
        rules: Rules,
        workers: dict[str, Worker],
        breakers: Breakers,
        counts: Counts,
        predict: Predict,
        worked: Worked,
    ) -> None:
        self._rules, self._breakers, self._counts = rules, breakers, counts
        self._predict, self._worked = predict, worked
        self.votes = votes_among({arm: worker.classifier for arm, worker in workers.items()})
        self._scores_all = rules.learner.score_local == "all"
        self._named = {name for vote in self.votes.values() for name in vote.over or ()}
        self._said: dict[int, Said] = {}  # by id

    def label(self, arm: str, ids: Sequence[int], items: Sequence[Any], then: Heard) -> None:
        """Have a local classifier label items; a vote has to wait for the others."""
        if arm not in self.votes:
            self._predict(arm, items, self.when_scored(arm, ids, items, then))
            return
        said = self._begun(ids, len(items))
        self._listen(arm, items, said, 0, lambda: self._predict(arm, self._ballots(arm, said), then))

    def when_scored(self, arm: str, ids: Sequence[int], items: Sequence[Any], then: Heard) -> Heard:
        """Return what hears of an arm, and waits until all have answered that are run beside it.

        What they say is known by the ids then, and `complete` gets it from `said`. Without ids it is of no use.
        """
        if not any(ids) or not (self._scores_all or self.votes):
            return then
        said, parts = self._begun(ids, len(items)), list[Part]()

        def tell() -> None:
            for part in parts:
                then(*part)

        awaited = self._listen(arm, items, said, 1, lambda: self._let_vote(arm, said, parts, tell))

        def answered(start: int, end: int, answers: Answers) -> None:
            parts.append((start, end, answers))
            awaited.less(end - start)

        return answered

    def said(self, ids: Sequence[int]) -> list[Said | None]:
        """Return, once, what classifiers said of items that were run beside an arm."""
        return [self._said.pop(number, None) for number in ids] if self._said else []

    def _begun(self, ids: Sequence[int], count: int) -> list[Said]:
        known = {NEWEST: self._rules.past.newest_label} if self.votes else {}
        said: list[Said] = [{**known} for _ in range(count)]
        self._said.update((number, each) for number, each in zip(ids, said, strict=True) if number)
        return said

    def _usable(self, arm: str) -> list[str]:
        """Return the classifiers that may be run beside an arm: those that cost nothing, or that a vote names."""
        arms = self._rules.learner.arms
        out = self._breakers.out(arms.own) | arms.paused | {arm}
        return [name for name, cost in arms.own.items() if (not cost or name in self._named) and name not in out]

    def _listen(self, arm: str, items: Sequence[Any], said: list[Said], more: int, then: Callable[[], None]) -> Awaited:
        """Run all but votes beside an arm; `more` answers for each item come from elsewhere."""
        names = [name for name in self._usable(arm) if name not in self.votes]
        awaited = Awaited(len(items) * (more + len(names)), then)
        for name in names:
            self._predict(name, items, partial(self._heard, name, said, awaited))
        return awaited

    def _let_vote(self, arm: str, said: list[Said], parts: Sequence[Part], then: Callable[[], None]) -> None:
        """Have votes say what they would have made of items, if they are scored."""
        names = [name for name in self._usable(arm) if name in self.votes] if self._scores_all else []
        heard = [{**each} for each in said]
        for start, _, answers in parts if names and arm in self._rules.learner.arms.own else ():
            for each, reply in zip(heard[start:], replies_of(arm, answers), strict=False):
                each[arm] = reply.label  # None where it has failed, which is no answer
        ballots = {name: self._ballots(name, heard) for name in names}  # before any vote has answered
        awaited = Awaited(len(said) * len(names), then)
        for name in names:
            self._predict(name, ballots[name], partial(self._heard, name, said, awaited))

    def _ballots(self, name: str, said: Sequence[Said]) -> list[Any]:
        return [ballot_of(self.votes[name], each, self.votes) for each in said]

    def _heard(self, name: str, said: list[Said], awaited: Awaited, start: int, end: int, answers: Answers) -> None:
        """Take what a classifier says beside an arm; if it has failed, it has said nothing."""
        labels: Sequence[Any] = answers
        if isinstance(answers, Replies) or not are_labels(answers):
            replies = [*replies_of(name, answers)]
            labels = [reply.label for reply in replies]
            self._note(name, kind_of(answers), replies)
        else:
            self._worked(name)
        for each, label in zip(said[start:end], labels, strict=True):
            if label is not None:
                each[name] = label
        awaited.less(end - start)

    def _note(self, name: str, kind: str, replies: Sequence[Reply]) -> None:
        """Take note of how a classifier fared beside an arm, as if it had been the arm."""
        bad = [reply.failed for reply in replies if reply.failed is not None and reply.failed != SILENT]
        if bad:
            self._counts.failed(name, len(bad), kind, bad[0])
        if len(bad) < len(replies):
            self._worked(name)
        elif self._breakers.of(name).failed(bad[0]):
            self._counts.opened(name, bad[0])
