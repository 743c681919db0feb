"""A model in a file that is small and unpacks into a large one: refused before it has filled the memory."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cosend.models.loading import load_model
from tests.classifiers import models

MEBI = 2**20
NETWORK = """
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
[[sites.classifiers]]
name = "old"
model = "old.skops"
"""


def checked(folder: Path) -> tuple[str, int]:
    """Have the network file of a folder checked; returns what is said, and the most memory in MiB."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cosend.cli", "validate", "network.toml"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "500"},
    )
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it has been waited for
    return said, used.ru_maxrss // 1024


def write_bomb(path: Path, name: str, size: int) -> None:
    """Write a zip file with one file in it, of nothing but spaces."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        if name != "schema.json":
            packed.writestr("schema.json", "{}")
        with packed.open(name, "w", force_zip64=True) as unpacked:
            for _ in range(size // MEBI):
                unpacked.write(b" " * MEBI)


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="how much memory a process took is not told here")
@pytest.mark.parametrize("name", ["schema.json", "1.npy"])
def test_a_file_that_unpacks_into_a_large_one_is_refused_before_it_is_unpacked(tmp_path: Path, name: str) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    (tmp_path / "old.skops").write_bytes(b"no zip file")
    said, usual = checked(tmp_path)
    assert "not a readable skops file" in said
    write_bomb(tmp_path / "old.skops", name, 400 * MEBI)
    assert (tmp_path / "old.skops").stat().st_size < 3 * MEBI
    said, used = checked(tmp_path)
    assert f"would unpack into {400 * MEBI + (2 if name != 'schema.json' else 0):,}" in said
    assert "without compression" in said
    assert used < usual + 150


def test_a_model_that_was_packed_is_loaded_as_ever(tmp_path: Path) -> None:
    fitted = models.logistic()
    models.skops.dump(fitted, tmp_path / "old.skops", compression=zipfile.ZIP_DEFLATED)
    assert load_model("old.skops", tmp_path).predict(models.ITEMS) == fitted.predict(models.TABLE).tolist()
