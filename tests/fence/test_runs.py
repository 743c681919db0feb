"""`cosend run` of the built-in networks gives what it gave, but for names and the last digits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import result_of
from tests.fence.recordings import Recordings, cleaned

pytestmark = pytest.mark.compiled

KEPT = [
    *("policy", "items", "unlabelled", "sites", "models", "rows"),
    *("winners", "flows", "overall", "change", "seeds", "data"),
]
RUNS = {
    "clinics": ["clinics", "--items", "600", "--seeds", "2"],
    "traffic": ["traffic", "--items", "400", "--seed", "3"],
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_it_gave(name: str, tmp_path: Path, recordings: Recordings) -> None:
    result = result_of(*RUNS[name], "--out", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == result
    curves = cleaned({key: result[key] for key in ("curves", "phases", "use", "others")})
    steps = [[key, step] for key in KEPT for step in parts(cleaned(result[key]))]
    recordings.check(f"run_{name}", [*steps, ["the rest", digest(curves)]])


def parts(value: Any) -> list[Any]:
    """Return the steps of a part of the result; rows are a step each."""
    return value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
