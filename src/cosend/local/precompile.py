"""Compile the rules once: otherwise all sites that start for the first time would do it side by side."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba

import cosend.compiled
from cosend.axes import Feature
from cosend.models.adapters import as_classifier
from cosend.runtime.site_setup import Setup


def marker() -> Path | None:
    """Return the file that says that all is compiled; None if nothing is compiled, or Numba chooses the folder."""
    config: Any = numba.config
    folder = cosend.compiled.CACHE_FOLDER
    if config.DISABLE_JIT or not folder:
        return None
    return Path(folder) / f"all-{sys.implementation.cache_tag}-{numba.__version__}"


def is_compiled() -> bool:
    """Tell whether there is nothing to compile in advance."""
    left = marker()
    return left is None or left.exists()


def compile_rules() -> None:
    """Compile the rules, so that all sites find them in the cache."""
    Setup(name="a site", classifiers={"a model": as_classifier(len)}, axes=[Feature("any", range=(0, 1))]).warm_up()
    left = marker()
    if left is not None:
        with suppress(OSError):  # then it is done once more, which is quick
            left.touch()


if __name__ == "__main__":
    with cosend.compiled.telling(lambda words: None):  # the supervisor has said so
        compile_rules()
