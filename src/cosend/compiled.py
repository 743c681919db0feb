"""The one decorator behind which Numba stands.

A compiled function is ordinary Python: with `NUMBA_DISABLE_JIT=1` it runs as it is written, which is how
coverage is measured and how a debugger gets in. What was compiled is kept, so that the second start is fast.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE: Final = Path(__file__).parent
FOLDERS: Final = ("core/kernel", "simulation/kernel", "baselines")  # where compiled functions stand


def cache_folder() -> str:
    """Return where compiled functions are kept: a folder for this very state of the compiled sources.

    Numba looks only at the file of a function itself, not at those of the functions it calls, and would go on using
    what it compiled before one of them was changed. A package that cannot be written to does not change, so there
    Numba may choose.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR", "")
    if chosen or not os.access(PACKAGE, os.W_OK):
        return chosen
    fingerprint = zlib.crc32(Path(__file__).read_bytes())
    for source in sorted(source for folder in FOLDERS for source in (PACKAGE / folder).glob("*.py")):
        fingerprint = zlib.crc32(source.read_bytes(), fingerprint)
    return str(PACKAGE / "__pycache__" / f"numba-{fingerprint:08x}")


# Nothing takes the address of our functions, so none needs the wrapper by which C would call it.
OPTIONS: Final[dict[str, Any]] = {"cache": True, "_nrt": False, "no_cfunc_wrapper": True}
CACHE_FOLDER: Final = cache_folder()


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call; the result is the same as without, bit for bit.

    The rules are many small functions that hand the same arrays around. Counting references to these arrays at every
    call made a step six times slower; without it a function cannot allocate, and ours never do. They become one with
    their callers.
    """
    return _compiled(function, forceinline=True)


def compiled_apart(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` as one that is called, so that what needs it now and then does not slow down the rest.

    With all policies in one body the step of the simplest took three times as long.
    """
    return _compiled(function, forceinline=False)


def _compiled(function: Callable[P, R], *, forceinline: bool) -> Callable[P, R]:
    config: Any = numba.config
    users, config.CACHE_DIR = config.CACHE_DIR, CACHE_FOLDER
    try:
        return cast("Callable[P, R]", numba.njit(forceinline=forceinline, **OPTIONS)(function))
    finally:
        config.CACHE_DIR = users  # functions that are not ours go where their owner wants them
