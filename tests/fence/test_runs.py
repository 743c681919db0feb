"""`cosend run` of the built-in networks gives what it gave, but for names and the last digits."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fence.recordings import Recordings, cleaned
from tests.tools.processes import environment

pytestmark = pytest.mark.compiled

KEPT = (
    "policy",
    "items",
    "unlabelled",
    "sites",
    "models",
    "rows",
    "winners",
    "flows",
    "overall",
    "change",
    "seeds",
    "data",
)
RUNS = {
    "clinics": ["clinics", "--items", "600", "--seeds", "2"],
    "traffic": ["traffic", "--items", "400", "--seed", "3"],
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_it_gave(name: str, tmp_path: Path, recordings: Recordings) -> None:
    command = [sys.executable, "-m", "cosend.cli", "run", *RUNS[name], "--json", "--out", str(tmp_path / "out")]
    run = subprocess.run(  # noqa: S603 - our own
        command,
        cwd=tmp_path,
        env={**environment(), "NUMBA_DISABLE_JIT": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    result = json.loads(run.stdout)
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == result
    curves = cleaned({key: result[key] for key in ("curves", "phases", "use", "others")})
    steps = [[key, step] for key in KEPT for step in parts(cleaned(result[key]))]
    recordings.check(f"run_{name}", [*steps, ["the rest", digest(curves)]])


def parts(value: Any) -> list[Any]:
    """Return the steps of a part of the result; rows are a step each."""
    return value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
