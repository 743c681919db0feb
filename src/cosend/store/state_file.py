"""A saved state as one file: an .npz archive of arrays, with the facts as JSON inside. No pickle, either way.

The archive has checksums, so a file that was cut short or damaged is noticed. The size that an array claims is compared
with the bytes that are there before memory is allocated.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from cosend.algorithm.state import Json, State
from cosend.checks import check_kind, check_path
from cosend.errors import StateError, listed
from cosend.store.atomic_file import replacing, sync_folder

FACTS: Final = "facts_json"
PIECE: Final = 2**15  # numbers that are written at once

# Errors of numpy and zipfile for bytes that are no archive, a cut or damaged one, or one that claims odd things.
UNREADABLE: Final = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    RuntimeError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_state(state: State, path: str | os.PathLike[str]) -> None:
    """Write a state to a file, replacing what was there in one step.

    >>> import tempfile
    >>> from cosend import Learner
    >>> from cosend.store.state_file import read_state
    >>> learner = Learner("edge", own={"one": 0.0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_state(learner.state(), f"{folder}/edge.npz")
    ...     Learner.from_state(read_state(f"{folder}/edge.npz"))
    <Learner 'edge': 1 own, 0 peers, 0 items, 0 wait>
    """
    check_path("path", path)
    check_kind("state", state, State, "a State, for example from Learner.state()")
    try:
        facts = [*_as_json(state.facts)]
        with replacing(Path(path)) as file, zipfile.ZipFile(file, "w") as archive:
            _write(archive, FACTS, (sum(map(len, facts)),), np.dtype(np.uint8), facts)
            for name, array in state.arrays.items():
                plain = np.asarray(array, order="C")
                _write(archive, name, plain.shape, plain.dtype, _pieces(plain))
    except OSError as error:
        raise StateError(f"{path}: cannot be written ({error})") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"{path}: the state is not plain data ({error})") from error


def _write(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], pieces: Iterable[bytes]
) -> None:
    """Write an array into an archive as numpy.savez does, but in pieces so small that no other thread waits for one."""
    header = {"shape": shape, "fortran_order": False, "descr": npy.dtype_to_descr(dtype)}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, header)
        for piece in pieces:
            member.write(piece)


def _pieces(array: npt.NDArray[Any]) -> Iterator[bytes]:
    if array.dtype.hasobject:
        raise ValueError("an array of objects cannot be saved")
    flat = array.reshape(-1)
    for start in range(0, len(flat), PIECE):
        yield flat[start : start + PIECE].tobytes()


def _as_json(facts: Any) -> Iterator[bytes]:
    """Return facts as JSON, piece by piece: what is long would keep all other threads waiting if it were made at once.

    JSON values stay as they are.
    """
    if isinstance(facts, Json):
        yield from facts
    elif isinstance(facts, dict) and set(map(type, facts)) == {str}:
        before = "{"
        for key, value in facts.items():
            yield f"{before}{json.dumps(key)}: ".encode()
            yield from _as_json(value)
            before = ", "
        yield b"}"
    else:
        yield json.dumps(facts).encode()


def read_state(path: str | os.PathLike[str]) -> State:
    check_path("path", path)
    try:
        with Path(path).open("rb") as file:
            arrays = _arrays(file)
        facts = json.loads(arrays.pop(FACTS).tobytes())
    except FileNotFoundError:
        raise StateError(f"{path}: no such file") from None
    except UNREADABLE as error:
        raise StateError(f"{path}: not a whole saved state ({error})") from error
    if not isinstance(facts, dict):
        raise StateError(f"{path}: not a saved state of cosend")
    return State(facts, arrays)


def _arrays(file: IO[bytes]) -> dict[str, npt.NDArray[Any]]:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > os.fstat(file.fileno()).st_size:
            raise ValueError("it claims more than it holds")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed")
        return {member.filename.removesuffix(".npy"): _array(archive.read(member)) for member in members}


def _array(data: bytes) -> npt.NDArray[Any]:
    stream = BytesIO(data)
    version = npy.read_magic(stream)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    rest = memoryview(data)[stream.tell() :]
    if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError(f"an array of the shape {shape} and the type {dtype} is not what is there")
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C").copy(order="K")


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
    try:
        states = [(str(name), State(dict(facts), {})) for name, facts in bundle.facts["sites"]]
        for key, array in bundle.arrays.items():
            number, name = key.split("/", 1)
            states[int(number)][1].arrays[name] = array
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"{file}: not the saved states of a network ({error!r})") from error
    return dict(states)
