"""How sure a mean over a few independent seeds is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import numpy as np

from cosend.errors import CosendError, install

CONFIDENCE: Final = 0.95


def half_interval(values: Sequence[float]) -> float | None:
    """Return half the width of Student's 95 % interval of the mean of values; None if there is only one."""
    if len(values) < 2:
        return None
    try:
        special = import_module("scipy.special")
    except ImportError as error:
        raise CosendError(f"confidence intervals need SciPy: {install('reports')}") from error
    student = float(special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    return student * float(np.std(values, ddof=1)) / math.sqrt(len(values))
