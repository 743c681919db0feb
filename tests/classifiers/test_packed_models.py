"""A model in a file that is small and unpacks into a large one: refused before it has filled the memory."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import pytest

from cosend.errors import ModelError
from cosend.models.loading import load_model
from tests.classifiers import models

MEBI = 2**20


def write_bomb(path: Path, name: str, size: int) -> None:
    """Write a zip file with one file in it, of nothing but spaces."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        if name != "schema.json":
            packed.writestr("schema.json", "{}")
        with packed.open(name, "w", force_zip64=True) as unpacked:
            for _ in range(size // MEBI):
                unpacked.write(b" " * MEBI)


@pytest.mark.parametrize("name", ["schema.json", "1.npy"])
def test_a_file_that_unpacks_into_a_large_one_is_refused_before_it_is_unpacked(tmp_path: Path, name: str) -> None:
    write_bomb(tmp_path / "old.skops", name, 400 * MEBI)
    assert (tmp_path / "old.skops").stat().st_size < 3 * MEBI
    tracemalloc.start()
    with pytest.raises(ModelError) as raised:
        load_model("old.skops", tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"would unpack into {400 * MEBI + (2 if name != 'schema.json' else 0):,}" in str(raised.value)
    assert "without compression" in str(raised.value)
    assert most < 50 * MEBI


def test_a_model_that_was_packed_is_loaded_as_ever(tmp_path: Path) -> None:
    fitted = models.logistic()
    models.skops.dump(fitted, tmp_path / "old.skops", compression=zipfile.ZIP_DEFLATED)
    assert load_model("old.skops", tmp_path).predict(models.ITEMS) == fitted.predict(models.TABLE).tolist()
