"""The states of several sites in one file, so that a folder always holds one whole save: the last or the one before.

folder/network.npz    an archive like that of one state; the arrays of site number n are named "n/array"
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from cosend.algorithm.state import State
from cosend.checks import check_path
from cosend.errors import StateError, listed
from cosend.store.atomic_file import sync_folder
from cosend.store.state_file import read_state, write_state

BUNDLE: Final = "network.npz"


def save_states(states: Mapping[str, State], folder: str | os.PathLike[str]) -> None:
    """Save the states of sites in a folder as one whole; an earlier save there stays whole until this one is."""
    check_path("folder", folder)
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{folder}: cannot be made a folder to save in ({error})") from error
    sync_folder(place.parent)
    facts = {"sites": [[name, state.facts] for name, state in states.items()]}
    arrays = {
        f"{number}/{name}": array
        for number, state in enumerate(states.values())
        for name, array in state.arrays.items()
    }
    write_state(State(facts, arrays), place / BUNDLE)


def load_states(names: Collection[str], folder: str | os.PathLike[str]) -> dict[str, State]:
    """Return the states of the sites of these names from one save."""
    check_path("folder", folder)
    file = Path(folder) / BUNDLE
    states = _unpacked(file, read_state(file))
    missing = [name for name in names if name not in states]
    if missing:
        raise StateError(f"{file}: has no state of site {missing[0]!r}; it has {listed(states)}")
    return {name: states[name] for name in names}


def _unpacked(file: Path, bundle: State) -> dict[str, State]:
    """Return the states that were put into one."""
    try:
        states = [(str(name), State(dict(facts), {})) for name, facts in bundle.facts["sites"]]
        for key, array in bundle.arrays.items():
            number, name = key.split("/", 1)
            states[int(number)][1].arrays[name] = array
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"{file}: not the saved states of a network ({error!r})") from error
    return dict(states)
