"""What is compiled when: inner functions as a part of entry points, and nobody waits without being told."""

from __future__ import annotations

import itertools
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numba
import pytest
from typer.testing import CliRunner

from cosend.algorithm.cell_rules import choose
from cosend.algorithm.ucb import kl, local_by_kl_index
from cosend.cli.main import app
from cosend.compiled import (
    COMPILING,
    COMPILING_MORE,
    WAITED,
    Waited,
    compiled,
    compiled_apart,
    entry_point,
    event,
    telling,
)
from cosend.numba_inline import Inner

pytestmark = pytest.mark.compiled
warmup: Any = import_module("cosend.cli.warmup")  # the package has the command under this name


@compiled
def doubled(number: int) -> int:
    return 2 * number


@compiled_apart
def more(number: int) -> int:
    return doubled(number) + 1


def test_an_inner_function_is_compiled_once_for_constants_and_variables_and_has_no_code_of_its_own() -> None:
    both: Any = numba.njit(lambda number: more(number) + doubled(7) + doubled(number))
    assert both(5) == 11 + 14 + 10
    inner: Any = doubled
    assert len(inner.overloads) == 1


def test_an_inner_function_can_be_called_from_python_all_the_same() -> None:
    assert (doubled(4), more(4)) == (8, 9)
    assert kl(0.5, 0.5) == 0.0


def test_the_rules_are_inner_functions() -> None:
    assert isinstance(choose, Inner)
    assert isinstance(local_by_kl_index, Inner)
    assert not isinstance(entry_point(lambda: 0), Inner)


def compile_a_rule() -> None:
    rule: Any = compiled(cast("Any", kl).py_func)
    assert numba.njit(lambda p: rule(p, p))(0.5) == 0.0


def test_who_waits_for_the_compiler_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cosend.compiled.CACHE_FOLDER", str(tmp_path / "cache"))
    monkeypatch.setattr(WAITED, "is_told", False)
    told: list[str] = []
    with telling(told.append):
        compile_a_rule()
        compile_a_rule()
    with telling(told.append):  # in the same process
        compile_a_rule()
    assert told == [COMPILING]
    monkeypatch.setattr(WAITED, "is_told", False)  # as in another process, which finds what the first one has left
    with telling(told.append):
        compile_a_rule()
    assert told == [COMPILING, COMPILING_MORE]
    assert "once" not in COMPILING_MORE


def listens(monkeypatch: pytest.MonkeyPatch, *, step_s: float) -> Waited:
    """Return one that has said nothing yet, for whom every look at the clock is a step after the one before."""
    moments, waited = itertools.count(0.0, step_s), Waited()
    monkeypatch.setattr("cosend.compiled.time", SimpleNamespace(monotonic=lambda: next(moments)))
    monkeypatch.setattr("cosend.compiled.CACHE_FOLDER", "")
    monkeypatch.setattr(WAITED, "is_told", True)  # it listens too
    monkeypatch.setattr("cosend.compiled.WAITED", waited)
    return waited


def test_whoever_waits_long_for_the_first_decision_sees_once_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waited = listens(monkeypatch, step_s=2.0)
    with event.install_listener("numba:compile", waited):
        compile_a_rule()
        compile_a_rule()
    assert [record.message for record in caplog.records] == [COMPILING]
    assert waited.depth == 0


def test_nothing_is_said_if_it_is_quick_or_not_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with event.install_listener("numba:compile", listens(monkeypatch, step_s=0.4)):
        compile_a_rule()
    with event.install_listener("numba:compile", listens(monkeypatch, step_s=2.0)):
        assert numba.njit(lambda number: round(number) + max(number, 1))(1) == 2
    assert caplog.records == []


def test_warmup_needs_no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "find_spec", lambda name: None)
    monkeypatch.setattr(warmup, "warm_up_runs", None)
    printed = CliRunner().invoke(app, ["warmup"])
    assert printed.exit_code == 0
    assert "pip install '.[models]' in a checkout of cosend" in " ".join(printed.stdout.split())
    assert "compiled in" in printed.stdout


@pytest.mark.claims
def test_warmup_compiles_what_runs_and_services_need_and_says_where_it_is() -> None:
    command = [sys.executable, "-m", "cosend.cli", "warmup"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)  # noqa: S603 - our own
    assert "compiled in" in done.stdout
    assert "cached in" in done.stdout
