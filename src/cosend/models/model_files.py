"""Models in files that Python wrote: skops, and the pickles that only who trusts them may load."""

from __future__ import annotations

import pickle
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from cosend.errors import ModelError, in_one_line, install, listed
from cosend.models.python_modules import first_on_the_path

PICKLES: Final = (".joblib", ".pkl", ".pickle")
MOST_UNPACKED: Final = 2**28  # bytes of a skops file, once it is unpacked, however small it is;
MOST_TIMES: Final = 20  # a larger one may be so many times as large as the file
MOST_SCHEMA: Final = 2**25  # bytes that say what is in it: these are read before anything is known of the file
TO_SKOPS: Final = "skops.io.dump(fitted, 'file.skops') writes a file that runs nothing"


def contents(model: str, path: Path) -> bytes:
    """Return what is in the file of a model."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(model, f"there is no file {path}", "paths are relative to the folder of the file") from error
    except OSError as error:
        raise ModelError(model, f"{path} cannot be read ({in_one_line(error)})") from error


def needed(model: str, module: str, extra: str) -> Any:
    """Return a module that only this kind of model needs, or say what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ModelError(model, f"it needs {package}, which is not installed", install(extra)) from error


def from_skops(model: str, path: Path, trusted: bool) -> Any:
    """Return the model of a skops file, if it is made of types that skops trusts by itself, or is trusted as a whole.

    skops trusts what cannot harm, which trees and neighbours of scikit-learn are not among: what is in them goes to
    compiled code as it is.
    """
    data = contents(model, path)
    skops = needed(model, "skops.io", "models")
    try:
        _check_unpacked(model, path, data)
        unknown = skops.get_untrusted_types(data=data)
        with first_on_the_path(path.parent):  # of the user's own classes
            fitted = skops.loads(data, trusted=unknown) if trusted is True or not unknown else None
    except ModelError:
        raise
    except Exception as error:  # a file that anyone may have written: whatever does not fit in it raises anything
        raise ModelError(model, f"{path} is not a readable skops file ({in_one_line(error)})") from error
    if unknown and trusted is not True:
        load = f"skops.io.load(path, trusted=[{listed(unknown)}])"
        raise ModelError(
            model,
            f"{path} has types that skops does not trust: {listed(unknown)}",
            "set trusted = true if you know who wrote it, or, to trust no more than these types, load it in a module "
            f"with {load} and name that, as in model = 'models:old'",
        )
    return fitted


def _check_unpacked(model: str, path: Path, data: bytes) -> None:
    """Raise if a zip file would fill the memory: a few bytes can be packed that unpack into as many as one likes."""
    with ZipFile(BytesIO(data)) as packed:  # which never unpacks more than it says here
        sizes = {each.filename: each.file_size for each in packed.infolist()}
    if sum(sizes.values()) > max(MOST_UNPACKED, MOST_TIMES * len(data)) or sizes.get("schema.json", 0) > MOST_SCHEMA:
        raise ModelError(
            model,
            f"{path} has {len(data):,} bytes and would unpack into {sum(sizes.values()):,}",
            "skops.io.dump(fitted, 'file.skops') without compression writes a file that can be loaded",
        )


def from_pickle(model: str, path: Path, trusted: bool) -> Any:
    """Return the model of a pickle, if it is trusted."""
    if trusted is not True:
        raise ModelError(
            model,
            "loading a pickle runs whatever code is in it",
            f"set trusted = true if you know who wrote it, or use skops: {TO_SKOPS}",
        )
    data = contents(model, path)
    joblib = needed(model, "joblib", "models") if path.suffix.lower() == ".joblib" else None
    try:
        with first_on_the_path(path.parent):  # of the user's own classes
            return joblib.load(BytesIO(data)) if joblib else pickle.loads(data)  # noqa: S301 - the user has said so
    except Exception as error:  # a pickle runs code, which may raise anything
        raise ModelError(model, f"{path} cannot be loaded ({in_one_line(error)})") from error
