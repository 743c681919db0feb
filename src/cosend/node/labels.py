"""Which labels can travel and be written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

SMALLEST: Final = -(2**63)
LARGEST: Final = 2**64 - 1
LABELS: Final = "a label is text, a truth value, nothing, or a number that 64 bits hold"


def is_label(label: Any) -> bool:
    """Tell whether a label can travel and be written down."""
    if isinstance(label, str):
        return label.isascii() or _is_utf8(label)
    if isinstance(label, int):
        return SMALLEST <= label <= LARGEST
    return label is None or (isinstance(label, float) and math.isfinite(label))


def are_labels(labels: Sequence[Any]) -> bool:
    """Tell whether all of these can travel and be written down; mostly they are a few values, again and again."""
    try:
        return all(map(is_label, set(labels)))
    except TypeError:  # one of them cannot be hashed, so it is none
        return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
