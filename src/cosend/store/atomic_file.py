"""A file that is always whole: whoever reads it finds what was there before or what came after, never half of it.

What is written goes into a file beside its place. When all of it is on the disk, one rename puts it there, which a
kill or a power cut cannot split. A lock keeps two that write the same file apart; the system takes it off a process
that was killed, and the next one starts over in what that left behind.
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
    """Give a file to write to, which then takes the place of `target`; if that fails, `target` stays as it was."""
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
    """Bring the names in a folder to the disk, as far as the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _locked(part: Path) -> IO[bytes]:
    """Open a file, empty, that nobody else writes to."""
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
    """Wait until no other process has the file; where the system has no such lock, go on without."""
    with suppress(ImportError):
        fcntl = import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX)


def _still_there(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
