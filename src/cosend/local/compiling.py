"""Whether the rules are compiled already: many sites that start for the first time would all do it, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba

import cosend.compiled
from cosend import Context
from cosend.classifiers.adapters import as_classifier
from cosend.node.setup import Setup


def is_compiled() -> bool:
    """Tell whether something is kept of an earlier start; where Numba keeps it elsewhere nobody looks for it."""
    config: Any = numba.config
    folder = cosend.compiled.CACHE_FOLDER
    return bool(config.DISABLE_JIT) or not folder or any(Path(folder).rglob("*.nbc"))


def compile_rules() -> None:
    """Compile the rules, so that all sites find them."""
    Setup(name="a site", classifiers={"a model": as_classifier(len)}, axes=[Context("any", range=(0, 1))]).warm_up()


if __name__ == "__main__":
    compile_rules()
