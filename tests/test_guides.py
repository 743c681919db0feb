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

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
FILE = re.compile(r"`([\w.]+)`[^`]*\n\n```(?:python|toml)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
PATIENCE_S = 400


def done(guide: str, folder: Path) -> str:
    """Do what a guide says and return what a reader sees."""
    text = (GUIDES / guide).read_text().replace("8800", str(free_port()))
    for name, content in FILE.findall(text):
        (folder / name).write_text(content)
    commands = folder / "bin"
    commands.mkdir()
    (commands / "cosend").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cosend.cli "$@"\n')
    (commands / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    script = "set -eu\ntrap 'kill -KILL ${SITE:-} 2>/dev/null || true' EXIT\n" + "\n".join(COMMANDS.findall(text))
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
    seen = done("run-a-site.md", tmp_path)
    answers = [json.loads(line) for line in re.findall(r'\{"decisions":.*?\}\]\}', seen)]
    assert len(answers) == 2
    assert answers[0] == answers[1]  # after the kill, the same
    assert '{"learnt":["ann"]' in seen
    found = re.search(r"errors: (\d+) in the first 500 visits, (\d+) in the last 500", seen)
    assert found is not None
    assert int(found[2]) < int(found[1]) / 2  # it has learnt
    assert '"items":3001' in seen
    assert json.loads((tmp_path / "decisions.jsonl").read_text().splitlines()[0])["id"] == "ann"
