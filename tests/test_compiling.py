"""What is compiled when: inner functions as a part of entry points, and nobody waits without being told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numba
import pytest

from cosend.compiled import compiled, compiled_apart, entry_point, telling
from cosend.core.kernel.indices import kl
from cosend.core.kernel.steps import choose, named_by_index
from cosend.inner import Inner

pytestmark = pytest.mark.compiled


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
    assert isinstance(named_by_index, Inner)
    assert not isinstance(entry_point(lambda: 0), Inner)


def test_who_waits_for_the_compiler_is_told_once() -> None:
    told: list[str] = []
    with telling(lambda: told.append("compiling")):
        assert numba.njit(lambda x: x + 1)(1) == 2
        assert numba.njit(lambda x: x + 2)(1) == 3
    assert told == ["compiling"]
    numba.njit(lambda x: x + 3)(1)
    assert told == ["compiling"]


@pytest.mark.claims
def test_warmup_compiles_what_runs_and_services_need_and_says_where_it_is() -> None:
    command = [sys.executable, "-m", "cosend.cli", "warmup"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)  # noqa: S603 - our own
    assert "ready after" in done.stdout
    assert "kept in" in done.stdout
