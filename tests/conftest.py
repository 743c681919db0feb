"""What all tests share: how hard Hypothesis tries, what begins first, what is traced, and the real data."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
BESIDE = ROOT.parent / "shared" / "data" / "kddcup.data_10_percent.gz"

# These reach every branch of the core. A test that is traced takes twice as long, also where it is far from the core.
TRACED = [
    ROOT / "tests" / "core",
    ROOT / "tests" / "site" / "test_failing_arms.py",
    ROOT / "tests" / "site" / "test_fold.py",
    ROOT / "tests" / "site" / "test_mixed_site.py",
    ROOT / "tests" / "site" / "test_rules_attacked.py",
    ROOT / "tests" / "site" / "test_score_local.py",
    ROOT / "tests" / "simulation" / "test_problems.py",
    ROOT / "tests" / "test_bad_input.py",
]

settings.register_profile(
    "cosend", deadline=None, suppress_health_check=list(HealthCheck), derandomize="CI" in os.environ
)
settings.load_profile("cosend")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job in the background; children would not hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import files that have no test of the part that is run: that takes as long as many tests."""
    part = str(config.option.markexpr)
    if not collection_path.name.startswith("test_") or not part:
        return None
    text = collection_path.read_text()
    if part.startswith("not compiled"):
        return True if re.search(r"^pytestmark = (\[\s*)?pytest\.mark\.(compiled|claims)\b", text, re.M) else None
    marker = part.split()[0]
    has_some = f"mark.{marker}" in text or f"mostly_{marker}" in text
    return True if marker in ("compiled", "claims") and not has_some else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what compiles everything, which takes half a minute the first time, beside all the others."""
    items.sort(key=lambda item: item.path.name != "test_compiled.py")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure coverage only in the tests that are there for it; the marker `no_cover` goes on tracing in workers."""
    tracer = sys.gettrace()
    pauses = item.config.pluginmanager.hasplugin("_cov") and not any(map(item.path.is_relative_to, TRACED))
    if pauses:
        sys.settrace(None)
    yield
    if pauses:
        sys.settrace(tracer)


@pytest.fixture(scope="session")
def kdd99_file() -> Path:
    """Return the 10 % file: where COSEND_KDD99 says, or else beside the repository."""
    path = Path(os.environ.get("COSEND_KDD99", BESIDE))
    if not path.is_file():
        pytest.skip(f"no KDD Cup 1999 file at {path}: set COSEND_KDD99 to kddcup.data_10_percent.gz")
    return path
