"""The folder that a report goes into: made and looked at before a long run, so that it does not end in nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cosend.core.checks import check_path
from cosend.errors import SettingError


def make_ready(folder: Path, files: Iterable[str], setting: str = "folder") -> None:
    """Make a folder and raise unless these files can be written there."""
    check_path(setting, folder)
    with writing(folder, setting):
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder / name for name in files):
            path.parent.mkdir(exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(f"{path.name} is a folder there")
            if not os.access(path if path.exists() else path.parent, os.W_OK):
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
