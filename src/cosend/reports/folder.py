"""The folder that a report goes into: tried out before a long run, so that it does not end in nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cosend.core.checks import check_path
from cosend.errors import SettingError


def check_ready(folder: Path, files: Iterable[str], setting: str = "folder") -> None:
    """Raise unless these files can be written into a folder; what is made to find out is taken away again."""
    check_path(setting, folder)
    with writing(folder, setting):
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for path in (folder / name for name in files):
                _check_file(path)
        finally:
            for place in missing:
                place.rmdir()


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path.name} is a folder there")
    place = next(place for place in (path, *path.parents) if place.exists())
    if place != path and not place.is_dir():
        raise NotADirectoryError(f"{place.name} is a file there")
    if not os.access(place, os.W_OK):
        raise PermissionError(f"no permission to write {path.name}")


@contextmanager
def writing(folder: Path, setting: str = "folder") -> Iterator[None]:
    """Turn whatever goes wrong while files are written into our error."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        where = f", {error.filename}" if error.filename and str(error.filename) != str(folder) else ""
        raise SettingError(setting, str(folder), f"a folder that can be written to ({why}{where})") from error
