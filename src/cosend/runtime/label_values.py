"""Which labels can travel and be written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from cosend.checks import is_missing
from cosend.engine.needs import Failure
from cosend.errors import shown

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


def checked(arm: str, answers: Sequence[Any]) -> Sequence[Any]:
    """Return the answers of an arm; what cannot be a label is a failure, and one that is missing is None."""
    if are_labels(answers):
        return answers
    return [answer if type(answer) is Failure else _checked(arm, answer) for answer in answers]


def _checked(arm: str, label: Any) -> Any:
    if is_missing(label):
        return None
    return label if is_label(label) else Failure(f"{arm!r} returned {shown(label)}; {LABELS}", "label")
