"""Rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import re
from itertools import product
from pathlib import Path
from typing import get_args

import cosend
from cosend.compiled import FOLDERS
from cosend.site.events import Event

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))


def test_compiled_functions_stand_only_where_a_change_compiles_them_again() -> None:
    package = ROOT / "src" / "cosend"
    decorators = re.compile(r"^@(?:compiled|compiled_apart|entry_point)$", re.MULTILINE)
    users = [path for path in package.rglob("*.py") if decorators.search(path.read_text())]
    assert {str(path.parent.relative_to(package)) for path in users} == set(FOLDERS)


def test_every_exported_name_is_documented() -> None:
    """README or docs/api.md names everything in `__all__`, and nothing is exported that does not exist."""
    documented = (ROOT / "docs" / "api.md").read_text()
    assert all(hasattr(cosend, name) for name in cosend.__all__)
    named = set(re.findall(r"^### `(\w+)", documented, flags=re.MULTILINE))
    assert named == set(cosend.__all__)


def test_every_event_stands_on_the_page_of_the_vocabulary() -> None:
    page = (ROOT / "docs" / "decisions" / "0002-events.md").read_text()
    named = set(re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in page.splitlines() if row.startswith("|"))))
    assert named == {event.__name__ for event in get_args(Event)}


def test_core_knows_no_clock_no_files_and_no_global_randomness() -> None:
    forbidden = {"time", "datetime", "random", "os", "io", "pathlib", "socket", "asyncio", "subprocess", "threading"}
    for path in sorted((ROOT / "src" / "cosend" / "core").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & forbidden, path
            assert "np.random" not in ast.unparse(node), path


def test_every_function_of_the_paper_map_exists() -> None:
    """docs/paper-map.md points from the paper to the code; no arrow may lead nowhere."""
    text = (ROOT / "docs" / "paper-map.md").read_text()
    arrows = re.findall(r"`(\w+(?:/\w+)*\.py):(\w+(?:\.\w+)?)`", text)
    assert len(arrows) > 20
    for file, name in arrows:
        source = (ROOT / (file if file.startswith("research/") else f"src/cosend/{file}")).read_text()
        assert re.search(rf"\b{name.split('.')[-1]}\b", source), (file, name)


def test_every_module_stands_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for path in sorted((ROOT / "src" / "cosend").rglob("*.py")):
        if path.name != "__init__.py":
            assert f"{path.name}" in text, f"docs/architecture.md does not mention {path.name}"


def test_every_test_belongs_to_exactly_one_part_of_the_makefile() -> None:
    commands = (ROOT / "Makefile").read_text().splitlines()
    parts = [found[1] for each in commands if (found := re.search(r"\$\(PYTEST\).* -m '([^']+)'(?! tests/)", each))]
    assert len(parts) == 3
    for compiled, claims in product((False, True), repeat=2):
        marks = {"compiled": compiled, "claims": claims}
        assert sum(eval(part, marks.copy()) for part in parts) == 1, marks  # noqa: S307 - our own


def test_whatever_plays_against_a_twin_is_compiled() -> None:
    """Without the compiler it would compare the twins with something that nobody runs."""
    tests = {str(path): path.read_text() for path in SOURCES if path.name.startswith("test_")}
    users = {name: text for name, text in tests.items() if "\nfrom tests.oracle" in text}
    assert len(users) >= 6
    assert [name for name, text in users.items() if "\npytestmark = pytest.mark.compiled\n" not in text] == []
