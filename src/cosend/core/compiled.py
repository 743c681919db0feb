"""The one decorator behind which Numba stands.

A compiled function is ordinary Python: with `NUMBA_DISABLE_JIT=1` it runs as it is written, which is how
coverage is measured and how a debugger gets in. The cache keeps the second start of a process fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

OPTIONS: Final[dict[str, Any]] = {"cache": True, "forceinline": True, "_nrt": False}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call; the result is the same as without, bit for bit.

    The rules are many small functions that hand the same arrays around. Counting references to these arrays at every
    call made a step six times slower; without it a function cannot allocate, and ours never do.
    """
    return cast("Callable[P, R]", numba.njit(**OPTIONS)(function))
