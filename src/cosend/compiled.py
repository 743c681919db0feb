"""The decorators that compile: the only place where cosend calls Numba.

    entry_point     called from Python: made into machine code, and kept, so that the second start is fast
    compiled        called by compiled functions only: inlined into its callers
    compiled_apart  the same, but stays a separate function

A compiled function is ordinary Python: with `NUMBA_DISABLE_JIT=1` it runs as it is written, which is how coverage is
measured and how a debugger gets in.

Numba would optimise every inner function with all that it calls, make machine code of it and a wrapper for Python, and
do the same again for every caller. Only functions that Python calls need that. Inner functions pass on their
translation, and are optimised as a part of their callers: the first decision after an installation takes 12 seconds
instead of 34. One that is called from Python after all, in a test, is compiled once more as an entry point.

Numba has no public option for it. With a release that this was not tried with, inner functions are compiled in Numba's
own way, which takes longer and gives the same.
"""

from __future__ import annotations

import logging
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba

event: Any = import_module("numba.core.event")

P = ParamSpec("P")
R = TypeVar("R")

TRIED: Final = ("0.61", "0.68")  # releases of Numba whose internals are known
UNNOTICED_S: Final = 1.0  # a shorter wait needs no explanation
COMPILING: Final = (
    "cosend is compiling its routing code for this machine, once; this takes 10 to 40 seconds, "
    "and `cosend warmup` does it in advance"
)
COMPILING_MORE: Final = "cosend is compiling code that it needs for the first time on this machine"
LOG: Final = logging.getLogger("cosend")
PACKAGE: Final = Path(__file__).parent
FOLDERS: Final = ("algorithm", "simulation")  # where compiled functions are


def cache_folder() -> str:
    """Return the cache folder of compiled functions: one for each state of the compiled sources.

    Numba looks only at the file of a function itself, not at the files of the functions it calls, and would keep using
    what it compiled before one of them was changed. A package that cannot be written to does not change, so there
    Numba may choose.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR", "")
    if chosen or not os.access(PACKAGE, os.W_OK):
        return chosen
    fingerprint, kernels = 0, sorted(source for folder in FOLDERS for source in (PACKAGE / folder).glob("*.py"))
    for source in [Path(__file__), PACKAGE / "numba_inline.py", *kernels]:
        fingerprint = zlib.crc32(source.read_bytes(), fingerprint)
    return str(PACKAGE / "__pycache__" / f"numba-{fingerprint:08x}")


# Nothing takes the address of our functions, so none needs the wrapper by which C would call it.
OPTIONS: Final[dict[str, Any]] = {"_nrt": False, "no_cfunc_wrapper": True}
CACHE_FOLDER: Final = cache_folder()


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call from Python; the result is the same as without, bit for bit.

    The rules are many small functions that hand the same arrays around. Counting references to these arrays at every
    call made a step six times slower; without it a function cannot allocate, and ours never do.
    """
    config: Any = numba.config
    users, config.CACHE_DIR = config.CACHE_DIR, CACHE_FOLDER
    try:
        return cast("Callable[P, R]", numba.njit(forceinline=True, cache=True, **OPTIONS)(function))
    finally:
        config.CACHE_DIR = users  # functions that are not ours are cached where their owner wants them


def compiled_beside(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` as an entry point that lets other threads run: for work that takes seconds."""
    config: Any = numba.config
    users, config.CACHE_DIR = config.CACHE_DIR, CACHE_FOLDER
    try:
        return cast("Callable[P, R]", numba.njit(nogil=True, cache=True, **OPTIONS)(function))
    finally:
        config.CACHE_DIR = users


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` as a part of the compiled functions that call it."""
    return _inner(function, forceinline=True)


def compiled_apart(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` as one that is called, so that a rare step does not slow down the rest.

    With all policies in one body the step of the simplest took three times as long.
    """
    return _inner(function, forceinline=False)


class Waited(event.Listener):  # type: ignore[misc]  # Numba has no types for its internals
    """Says once why a user waits: at once through `tell`, or, where no progress is shown, after a second in a log.

    Functions in the cache are not compiled. Inner functions are compiled within entry points, so the clock is read
    every few milliseconds. A warning of `logging` is seen in scripts and notebooks, which mostly configure nothing, and
    is part of the log of a service.
    """

    def __init__(self) -> None:
        self.depth, self.began, self.is_told = 0, 0.0, False
        self.tell: Callable[[str], object] | None = None

    def on_start(self, what: Any) -> None:
        """Say it, if it is time to; what others compile is none of our business."""
        self.depth += 1
        if self.depth == 1:
            self.began = time.monotonic()
        function = getattr(what.data["dispatcher"], "py_func", None)
        ours = str(getattr(function, "__module__", "")).startswith("cosend.")
        is_long = ours and time.monotonic() - self.began > UNNOTICED_S
        if not self.is_told and (self.tell or is_long):
            self.is_told = True
            (self.tell or LOG.warning)(COMPILING if is_first_time() else COMPILING_MORE)

    def on_end(self, what: Any) -> None:
        """Note that a function is compiled."""
        self.depth -= 1


WAITED: Final = Waited()
if not cast("Any", numba.config).DISABLE_JIT:
    event.register("numba:compile", WAITED)


def is_first_time() -> bool:
    """Tell whether this is the first process that compiles rules on this machine; the others find a mark.

    Functions of one command are cached for all others, but another command may need a part that the first did not.
    """
    if not CACHE_FOLDER:
        return True
    try:
        Path(CACHE_FOLDER).mkdir(parents=True, exist_ok=True)
        (Path(CACHE_FOLDER) / "told").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # then nothing is cached there either
        return True
    return True


@contextmanager
def telling(tell: Callable[[str], object]) -> Iterator[None]:
    """Call `tell` when something is compiled in here, once in a process, to explain the wait."""
    before, WAITED.tell = WAITED.tell, tell
    try:
        yield
    finally:
        WAITED.tell = before


def _inner(function: Callable[P, R], *, forceinline: bool) -> Callable[P, R]:
    config: Any = numba.config
    if config.DISABLE_JIT:
        return function
    if numba.__version__.rpartition(".")[0] not in TRIED:
        return cast("Callable[P, R]", numba.njit(forceinline=forceinline, **OPTIONS)(function))
    options = {"nopython": True, "forceinline": forceinline, "no_cpython_wrapper": True, **OPTIONS}
    inner: Any = import_module("cosend.numba_inline").Inner(function, options, entry_point)
    return cast("Callable[P, R]", inner)
