"""Labels that are not there: None, NaN, NaT and `pd.NA`. They are no labels, whoever says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

NEVER_MISSING: Final = frozenset((str, int, bool))


def is_missing(label: Any) -> bool:
    """Tell whether a label is none: None, or what does not equal itself, as not a number, no time and `pd.NA`."""
    if label is None:
        return True
    if type(label) in NEVER_MISSING:
        return False
    try:
        differs = label != label
    except Exception:  # whatever a user's label does when it is compared
        return False
    return differs is True or differs is label or (isinstance(differs, np.bool_) and bool(differs))


def any_missing(labels: Sequence[Any]) -> bool:
    """Tell whether one of these labels is none."""
    return not NEVER_MISSING.issuperset(map(type, labels)) and any(map(is_missing, labels))
