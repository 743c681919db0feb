"""What all tests share: how hard Hypothesis tries, what begins first, what is traced, and the real data."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import os
import pkgutil
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
BESIDE = ROOT.parent / "shared" / "data" / "kddcup.data_10_percent.gz"

# These reach every branch of the algorithm and the engine. A test that is traced takes twice as long.
TRACED = [ROOT / "tests" / name for name in ("algorithm", "engine", "site", "test_bad_input.py")]

FIRST = ["test_same_everywhere.py", "test_network_killed.py", "test_log_killed.py", "test_service_model.py"]
LONGEST_S = 60.0  # no test that is a coroutine takes so long, unless something hangs
TRACING = pytest.StashKey["Tracing"]()

settings.register_profile(
    "cosend", deadline=None, suppress_health_check=list(HealthCheck), derandomize="CI" in os.environ
)
settings.load_profile("cosend")


class Tracing:
    """The tracer of the coverage, if it is measured; it is on only where somebody says so."""

    def __init__(self) -> None:
        self.here, self.in_threads = sys.gettrace(), threading.gettrace()

    def on(self) -> None:
        """Let it see what runs from here on."""
        sys.settrace(self.here)
        if self.in_threads:
            threading.settrace(self.in_threads)

    def off(self) -> None:
        """Let nothing see it, here and in new threads."""
        sys.settrace(None)
        threading.settrace(None)


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


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Trace the import of what is covered, and then nothing before the first test that is there for it."""
    session.config.stash[TRACING] = tracing = Tracing()
    if tracing.here:
        for name in ("cosend.algorithm", "cosend.engine"):
            for module in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
                importlib.import_module(module.name)
        tracing.off()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure coverage only in the tests that are there for it; the marker `no_cover` goes on tracing in workers."""
    tracing = item.config.stash[TRACING]
    traced = tracing.here and any(map(item.path.is_relative_to, TRACED))
    if traced:
        tracing.on()
    yield
    if traced:
        tracing.off()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own, with a limit."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), LONGEST_S))
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give coverage its tracer back, which it warns about if it does not find it."""
    session.config.stash[TRACING].on()


@pytest.fixture(scope="session")
def kdd99_file() -> Path:
    """Return the 10 % file: where COSEND_KDD99 says, or else beside the repository."""
    path = Path(os.environ.get("COSEND_KDD99", BESIDE))
    if not path.is_file():
        pytest.skip(f"no KDD Cup 1999 file at {path}: set COSEND_KDD99 to kddcup.data_10_percent.gz")
    return path
