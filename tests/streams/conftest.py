"""The real KDD Cup 1999 file, where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "kddcup.data_10_percent.gz"


@pytest.fixture(scope="session")
def kdd99_file() -> Path:
    """Return the 10 % file: where COSEND_KDD99 says, or else beside the repository."""
    path = Path(os.environ.get("COSEND_KDD99", BESIDE))
    if not path.is_file():
        pytest.skip(f"no KDD Cup 1999 file at {path}: set COSEND_KDD99 to kddcup.data_10_percent.gz")
    return path
