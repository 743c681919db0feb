"""Every command and every network file of README and docs that stands by itself is run, in a folder that fits it.

The guides that are done as a whole, in one shell, are in test_guides.py; what Python blocks do is in test_docs.py.
"""

from __future__ import annotations

import csv
import random
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from research.__main__ import app as research
from typer import Typer
from typer.testing import CliRunner

from cosend.cli.main import app
from tests.server.services import served
from tests.test_docs import DOCS, PAGES, blocks, is_done_as_a_whole, name_of

# What is not run here, and why.
NOT_RUN = {
    "cosend run": "tests/test_docs_tables.py runs it, and compares its results",
    "cosend demo": "it goes on until Ctrl-C: tests/local/test_demo_network.py and the browser tests have it",
    "pip install '.[demo]'": "it needs a package index",
    "cosend warmup": "it takes minutes on a slow machine: tests/test_compiling.py has it",
    "docker build --file deploy/compose/Containerfile --tag cosend .": "it needs Docker",
    "cosend up network.toml": "it goes on until Ctrl-C: tests/cli/test_up.py has it",
    "cosend serve network.toml --site clinic": "it goes on until Ctrl-C: the guide to one site starts it",
    "cosend worker network.toml --site north": "it waits for work: tests/processes/test_workers_killed.py has it",
    "cosend worker network.toml --site north --classifier forest": "the same",
    "cosend teach network.toml --site north --stream visits.csv --label ill": "tests/cli/test_scored_runs.py has it",
    "cosend teach network.toml --site north --stream answers.csv --arm used --score rating --propensity p": "the same",
    "cosend run network.toml --stream answers.csv --score small=small_score --score large=large_score": "the same",
    "tail -F north.log south.log": "it goes on until Ctrl-C",
    'make worlds DATA=streams OPTIONS="--world eeg --cost 0.05"': "tests/research/test_worlds.py has it",
    "nats-server --config nats-tls.conf": "it goes on until Ctrl-C: tests/deploy/test_security.py starts this broker",
    "cp cosend/deploy/nats/*.conf .": "the tests of that guide take the files from where they are",
}
DATA = "kddcup.data_10_percent.gz"
ROWS = 25_000
SHORT = "--items 1000"  # of a run
MODELS = "\n".join(
    f'def {name}(item):\n    return "ill" if float(item["pressure"]) > {limit} else "well"\n'
    for name, limit in {"young": 125, "any_age": 135, "for_the_middle": 140}.items()
)
# What a part of a file is a part of.
SITE = """
[[sites]]
name = "north"
[[sites.classifiers]]
name = "young"
model = "models:young"
"""
REST = '[[context]]\nfeature = "age"\nrange = [0, 100]\n' + SITE


def pieces(page: Path) -> list[tuple[str, str]]:
    """Return network files and commands, ("toml", text) or ("sh", line), in the order of the page."""
    found: list[tuple[str, str]] = []
    for kind, text in re.findall(r"^```(toml|sh)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        found += [("toml", text)] if kind == "toml" else [("sh", line) for line in lines if line]
    return found


def to_do(page: Path) -> list[tuple[str, str]]:
    """Return what of a page is run here."""
    return [] if is_done_as_a_whole(page) else [(kind, text) for kind, text in pieces(page) if text not in NOT_RUN]


def needs_data(page: Path) -> bool:
    return any(DATA in text for _, text in pieces(page))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the models and the recording that the pages speak of."""
    folder, draw = tmp_path_factory.mktemp("reader"), random.Random(1)
    (folder / "models.py").write_text(MODELS)
    rows: list[dict[str, Any]] = []
    for _ in range(ROWS):
        age, pressure = draw.randrange(100), round(draw.gauss(135, 20))
        said = "ill" if pressure > 110 + age / 2 else "well"
        place = {"hospital": draw.choice(["north", "south"]), "hour": draw.randrange(24)}
        rows.append({"age": age, "pressure": pressure, "temperature": 37, **place, "diagnosis": said, "ill": said})
    with (folder / "visits.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    known = rows[:1000]
    model = import_module("sklearn.linear_model").LogisticRegression()
    model.fit([[row["age"], row["pressure"]] for row in known], [row["ill"] for row in known])
    for name in ("old", "forest", "spam-v1", "spam-v2"):
        import_module("skops.io").dump(model, folder / f"{name}.skops")
    return folder


def printed(line: str) -> str:
    command, *words = shlex.split(line)
    done = CliRunner().invoke(*((app, words) if command == "cosend" else made(words)), env={"COLUMNS": "120"})
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.stdout


def made(words: list[str]) -> tuple[Typer, list[str]]:
    """Return what the Makefile does for the targets of research, with its variables DATA and OPTIONS."""
    target, *rest = words
    given = dict(word.split("=", 1) for word in rest if "=" in word)
    options = [word for word in rest if "=" not in word]
    data = ["--data", given["DATA"]] if "DATA" in given else []
    return research, [target, *data, *shlex.split(given.get("OPTIONS", "")), *options]


def done_by_a_reader(page: Path, options: str = "") -> list[str]:
    """Save every network file and check it, run every command that can be run here, and return what they print."""
    seen: list[str] = []
    for kind, text in to_do(page):
        if kind == "toml":
            tables = tomllib.loads(text)
            part = text + SITE if "context" in tables else REST + text
            Path("network.toml").write_text(text if isinstance(tables.get("sites"), list) else part)
            verbs = ["validate network.toml", f"run network.toml {SHORT}"]
            seen += [printed(f"cosend {verb}") for verb in verbs[: 1 + ("stream" in tables)]]
        else:
            seen.append(printed(f"{text} {SHORT if text.startswith('cosend run') else options}"))
    return seen


@pytest.mark.compiled
@pytest.mark.parametrize("page", [page for page in PAGES if to_do(page) and not needs_data(page)], ids=name_of)
def test_files_and_commands_of_a_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    seen = done_by_a_reader(page)
    shown = r"^```(?:text)?\n(network\.toml: OK.*?)^```"
    for sample in re.findall(shown, page.read_text(), flags=re.MULTILINE | re.DOTALL):
        assert sample in seen


@pytest.mark.claims
@pytest.mark.parametrize("page", [page for page in PAGES if needs_data(page)], ids=name_of)
def test_commands_on_the_data_of_the_paper(
    page: Path, tmp_path: Path, kdd99_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take minutes; with --quick they do the same with one seed."""
    monkeypatch.chdir(tmp_path)
    Path(DATA).symlink_to(kdd99_file)
    assert all("error" in seen for seen in done_by_a_reader(page, " --quick"))


def test_the_client_of_the_reference_talks_to_a_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = DOCS / "reference/python.md"
    (code,), (shown,) = blocks(page, "python"), blocks(page, "text")
    names: dict[str, Any] = {"__name__": "page"}
    with served(tmp_path) as (address, _):
        exec(compile(code.replace("http://127.0.0.1:8801", address), "python.md", "exec"), names)  # noqa: S102 - our own
    assert capsys.readouterr().out == shown
