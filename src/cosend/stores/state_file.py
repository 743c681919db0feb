"""A saved state as one file: an .npz archive of arrays, with the facts as JSON inside. No pickle, either way.

The archive carries checksums, so a file that was cut short or damaged is found out. It is written beside its place and
then moved there: a crash leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from cosend.core.learner.state import State
from cosend.errors import StateError

FACTS: Final = "facts_json"

# What numpy and zipfile raise for bytes that are no archive, a cut or damaged one, or one that claims odd things.
UNREADABLE: Final = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_state(state: State, path: str | os.PathLike[str]) -> None:
    """Write a state to a file, replacing what was there in one step."""
    target = Path(path)
    facts = np.frombuffer(json.dumps(state.facts).encode(), np.uint8)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, **{FACTS: facts}, **state.arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read_state(path: str | os.PathLike[str]) -> State:
    """Read a state from a file."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        facts = json.loads(arrays.pop(FACTS).tobytes())
    except FileNotFoundError:
        raise StateError(f"{path}: no such file") from None
    except UNREADABLE as error:
        raise StateError(f"{path}: not a whole saved state ({error})") from error
    if not isinstance(facts, dict):
        raise StateError(f"{path}: not a saved state of cosend")
    return State(facts, arrays)
