"""Which labels can travel and be written down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cosend.errors import shown
from cosend.node.workers import Answers, Replies
from cosend.site.messages import Reply, heard

KINDS: Final = frozenset((str, int, float, bool))
SMALLEST: Final = -(2**63)
LARGEST: Final = 2**64 - 1
LABELS: Final = "a label is text, a truth value, or a number that 64 bits hold"


def is_label(label: Any) -> bool:
    """Tell whether a label can travel and be written down."""
    kind = type(label)  # and no kind of it: an Enum or another subclass of text would come back as something else
    if kind is str:
        return label.isascii() or _is_utf8(label)
    if kind is float:
        return math.isfinite(label)
    return kind is bool or (kind is int and SMALLEST <= label <= LARGEST)


def are_labels(labels: Sequence[Any]) -> bool:
    """Tell whether all of these can travel and be written down; mostly they are a few values, again and again."""
    return KINDS.issuperset(map(type, labels)) and all(map(is_label, set(labels)))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def kind_of(answers: Answers) -> str:
    """Return in a word why an arm has failed."""
    return answers.kind if isinstance(answers, Replies) else "label"


def replies_of(arm: str, answers: Answers) -> Iterator[Reply]:
    """Yield the answers of an arm one by one: a label that cannot be one is a failure, and one that is missing none."""
    for answer in map(heard, answers if isinstance(answers, Replies) else map(Reply, answers)):
        if answer.failed is None and not is_label(answer.label):
            yield Reply(None, f"{arm!r} returned {shown(answer.label)}; {LABELS}")
        else:
            yield answer
