"""A file that is always whole: a reader finds the old content or the new, never half of it.

The new content is written to a second file in the same folder and renamed once all of it is on the disk; a kill or a
power cut cannot split a rename. A lock keeps two writers apart. The system releases the lock of a killed process, and
the next writer overwrites what it left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces `target` when the block ends; if anything fails, `target` stays as it was."""
    part = target.with_name(target.name + ".part")
    with _locked(part) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _locked(part: Path) -> IO[bytes]:
    """Open an empty file that no other process writes to."""
    while True:
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            _lock(file)
            if _still_there(part, file):  # else it was moved to its place while we waited
                file.truncate(0)
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: IO[bytes]) -> None:
    """Wait until no other process has the file; systems without such locks do not wait."""
    with suppress(ImportError):
        fcntl = import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX)


def _still_there(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
