"""Rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

import cosend
from cosend.compiled import FOLDERS
from cosend.engine.events import Event

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))


def test_compiled_functions_stand_only_where_a_change_compiles_them_again() -> None:
    package = ROOT / "src" / "cosend"
    decorators = re.compile(r"^@(?:compiled|compiled_apart|entry_point)$", re.MULTILINE)
    users = [path for path in package.rglob("*.py") if decorators.search(path.read_text())]
    assert {str(path.parent.relative_to(package)) for path in users} == set(FOLDERS)


def test_every_exported_name_is_documented() -> None:
    """The table of docs/reference/python.md names everything in `__all__`, and nothing that does not exist."""
    documented = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert all(hasattr(cosend, name) for name in cosend.__all__)
    first = re.findall(r"^\| (`.+?) \|", documented, flags=re.MULTILINE)
    named = [name for cell in first for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(cosend.__all__)


def test_every_event_stands_on_the_page_of_the_vocabulary() -> None:
    page = (ROOT / "docs" / "contributing" / "0002-events.md").read_text()
    named = set(re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in page.splitlines() if row.startswith("|"))))
    assert named == {event.__name__ for event in get_args(Event)}


PACKAGE = ROOT / "src" / "cosend"
FOLDERS_OF_THE_HOUSE = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
# Modules that tell of a clock, threads, disk or network, and the words of a folder that allow them.
TELLING = {
    **dict.fromkeys(("time", "datetime", "asyncio", "threading", "queue", "concurrent"), "clock"),
    **dict.fromkeys(("sqlite3", "shutil", "tempfile", "pathlib", "zipfile"), "disk"),
    **dict.fromkeys(("socket", "nats", "httpx", "starlette", "uvicorn", "urllib"), "network"),
    **dict.fromkeys(("subprocess", "signal"), "processes"),
}
WORDS = {
    "clock": ("clock",),
    "disk": ("disk", "file", "folder"),
    "network": ("network", "ports"),
    "processes": ("process",),
}


def imported(folder: Path) -> set[str]:
    """Return the modules that the files of a folder import, with their full names."""
    found = set[str]()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                whole = node.module == "cosend"
                found |= {f"cosend.{alias.name}" for alias in node.names} if whole else {node.module or ""}
    return found


def said_by(folder: Path, words: str) -> str:
    """Return what the first lines of a folder say it may import, or touches."""
    found = re.search(rf"^{words}: (.+)\.$", (folder / "__init__.py").read_text(), flags=re.MULTILINE)
    assert found, f"{folder.name}/__init__.py has no line that begins with {words!r}"
    return found[1]


@pytest.mark.parametrize("folder", FOLDERS_OF_THE_HOUSE, ids=lambda path: path.name)
def test_a_folder_imports_and_touches_what_its_first_lines_say(folder: Path) -> None:
    modules, allowed = imported(folder), said_by(folder, "May import")
    ours = {name.split(".")[1] for name in modules if name.startswith("cosend.")} - {folder.name}
    if allowed != "everything":
        assert ours <= {*allowed.split(", ")}
    touched = {TELLING[name.split(".")[0]] for name in modules if name.split(".")[0] in TELLING}
    for kind in touched:
        assert any(word in said_by(folder, "Touches") for word in WORDS[kind]), (folder.name, kind)


def test_the_algorithm_has_no_randomness_of_its_own() -> None:
    for path in sorted((PACKAGE / "algorithm").rglob("*.py")):
        assert not re.search(r"\bnp\.random\b|^import random|^from random", path.read_text(), flags=re.MULTILINE), path


def test_a_module_name_stands_for_one_module() -> None:
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if not path.name.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_function_of_the_paper_map_exists() -> None:
    """docs/research/paper-map.md points from the paper to the code; no arrow may lead nowhere."""
    text = (ROOT / "docs" / "research" / "paper-map.md").read_text()
    arrows = re.findall(r"`(\w+(?:/\w+)*\.py):(\w+(?:\.\w+)?)`", text)
    assert len(arrows) > 20
    for file, name in arrows:
        source = (ROOT / (file if file.startswith("research/") else f"src/cosend/{file}")).read_text()
        assert re.search(rf"\b{name.split('.')[-1]}\b", source), (file, name)


def test_every_folder_stands_in_the_architecture() -> None:
    text = (ROOT / "docs" / "contributing" / "architecture.md").read_text()
    rooms = [f"{path.name}/" for path in FOLDERS_OF_THE_HOUSE]
    rooms += [path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]
    assert [room for room in rooms if room not in text] == []


def test_every_test_belongs_to_exactly_one_part_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    parts = re.findall(
        r"^(?:UNITS|COMPILED|\t)[ =]*(?:NUMBA\S+ )?\$\(PYTEST\) -n \d -m '([^']+)'", makefile, flags=re.MULTILINE
    )
    assert len(parts) == 3
    for compiled, claims in product((False, True), repeat=2):
        marks = {"compiled": compiled, "claims": claims}
        assert sum(eval(part, marks.copy()) for part in parts) == 1, marks  # noqa: S307 - our own


def test_whatever_plays_against_a_twin_is_compiled() -> None:
    """Without the compiler it would compare the twins with something that nobody runs."""
    tests = {str(path): path.read_text() for path in SOURCES if path.name.startswith("test_")}
    users = {name: text for name, text in tests.items() if re.search(r"\nfrom tests\.oracle\.(?!features_twin)", text)}
    assert len(users) >= 1
    assert [name for name, text in users.items() if "\npytestmark = pytest.mark.compiled\n" not in text] == []
