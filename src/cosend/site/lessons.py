"""What a label teaches: models that learn get the item, votes get what all local classifiers said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from cosend.classifiers.adapters import Classifier
from cosend.classifiers.vote import NEWEST, ballot_of, votes_among
from cosend.core.learner.arms import Arms
from cosend.site.messages import Lesson

LearnsFrom: TypeAlias = Literal["used", "all"]


def lessons_of(arms: Arms, found: Sequence[Sequence[int]], notes: Sequence[Any], truths: Sequence[Any]) -> list[Lesson]:
    """Return the lessons of labels that have come, for items of which anything was kept to learn from."""
    lessons = []
    for (arm, _, _), (label, item, others), truth in zip(found, notes, truths, strict=True):
        votes = others is not None and NEWEST in others
        if votes or item is not None:
            name = arms.names[arm]
            own = {name: label} if name in arms.own else {}  # what a peer says is no part of a vote
            lessons.append(Lesson(name, item, truth, {**others, **own} if votes else None))
    return lessons


def taught_by(
    lesson: Lesson, classifiers: Mapping[str, Classifier], learns_from: LearnsFrom
) -> Iterator[tuple[str, Any]]:
    """Yield the models that learn from a lesson, each with what it takes for an item."""
    votes = votes_among(classifiers)
    if lesson.item is not None:
        for name, each in classifiers.items():
            if each.learns and name not in votes and (learns_from == "all" or name == lesson.classifier):
                yield name, lesson.item
    if lesson.said is not None:
        for name, vote in votes.items():
            yield name, ballot_of(vote, lesson.said, votes)
