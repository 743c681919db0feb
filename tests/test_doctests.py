"""Every example in a docstring runs, and gives what it says it gives."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
EXAMPLE = re.compile(r"^ *>>> ", flags=re.MULTILINE)
WITH_EXAMPLES = [path for path in sorted((SOURCES / "cosend").rglob("*.py")) if EXAMPLE.search(path.read_text())]


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.compiled
@pytest.mark.parametrize("name", [name_of(path) for path in WITH_EXAMPLES])
def test_examples_in_docstrings(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert failed == 0
    assert tried > 0


def test_what_most_people_use_has_an_example() -> None:
    assert len(WITH_EXAMPLES) >= 12
