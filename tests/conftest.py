"""What all tests share: how hard Hypothesis tries, what begins first, and the real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
BESIDE = ROOT.parent / "shared" / "data" / "kddcup.data_10_percent.gz"

settings.register_profile(
    "cosend", deadline=None, suppress_health_check=list(HealthCheck), derandomize="CI" in os.environ
)
settings.load_profile("cosend")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what compiles everything, which takes half a minute the first time, beside all the others."""
    items.sort(key=lambda item: item.path.name != "test_compiled.py")


@pytest.fixture(scope="session")
def kdd99_file() -> Path:
    """Return the 10 % file: where COSEND_KDD99 says, or else beside the repository."""
    path = Path(os.environ.get("COSEND_KDD99", BESIDE))
    if not path.is_file():
        pytest.skip(f"no KDD Cup 1999 file at {path}: set COSEND_KDD99 to kddcup.data_10_percent.gz")
    return path
