"""Disks to run out of: a small one of its own, where the system lets us mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mounted(*command: str) -> str:
    """Run mount or umount; return what went wrong, if something did."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    except OSError as error:
        return str(error)
    return done.stderr if done.returncode else ""


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Give a folder with its own small disk."""
    place.mkdir()
    wrong = mounted("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    if wrong:
        pytest.skip(f"no small disk can be mounted here: {wrong}")
    try:
        yield place
    finally:
        mounted("umount", "--lazy", str(place))


def make_read_only(place: Path) -> None:
    """Let nobody write to a small disk any more."""
    wrong = mounted("mount", "-o", "remount,ro", str(place))
    assert not wrong
