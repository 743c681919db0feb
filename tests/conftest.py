"""What all tests share: how hard Hypothesis tries, what begins first, and the real data."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
BESIDE = ROOT.parent / "shared" / "data" / "kddcup.data_10_percent.gz"

FIRST = ["test_same_everywhere.py", "test_network_killed.py", "test_log_killed.py", "test_service_model.py"]
ROUNDS = 5  # of trees, without the compiler
LONGEST_S = 60.0  # no test that is a coroutine takes so long, unless something hangs

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
    """Begin with what compiles everything and with what waits longest, beside all the others."""
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


def pytest_collection_finish() -> None:
    """Keep what was imported and collected: nobody has to look through it again for what can be thrown away."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Leave no handler of a command that writes a log."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own, with a limit."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), LONGEST_S))
    return True


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit few trees where nothing is compiled: all of them take as long as a thousand decisions."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        monkeypatch.setattr("cosend.algorithm.boosting.ROUNDS", ROUNDS)


@pytest.fixture(scope="session")
def kdd99_file() -> Path:
    """Return the 10 % file: where COSEND_KDD99 says, or else beside the repository."""
    path = Path(os.environ.get("COSEND_KDD99", BESIDE))
    if not path.is_file():
        pytest.skip(f"no KDD Cup 1999 file at {path}: set COSEND_KDD99 to kddcup.data_10_percent.gz")
    return path
