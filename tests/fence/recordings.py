"""What cosend did when the fence was made, as JSON files, and what may be different now.

A recording is a list of steps. A step that changes on purpose is recorded again with `pytest tests/fence --record`: the
difference of the file is then the change to review.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"
DIGITS = 10  # of numbers that are sums or means, whose order of summation may change

# Fields and words that have another name now than in the recordings: the new name, and the recorded one.
RENAMED: dict[str, str] = {
    "local only": "never send",
    "best local model": "best local",
    "best single model": "best fixed",
    "oracle": "oracle per cell",
    "no learnt arms": "nothing learnt",
}

# Fields that are different in every run, or count what is written to the log; and those that are new.
VOLATILE = {"up_s", "at", "seconds_per_item", "version", "events", "oldest_event"}

# Fields with sentences: only that they say something is compared.
SENTENCES = {"title", "detail", "error", "last_failure", "refused"}


def cleaned(value: Any, exact: bool = False) -> Any:
    """Return a value as it is recorded."""
    if isinstance(value, dict):
        known = {RENAMED.get(key, key): each for key, each in value.items()}
        return {
            key: "..." if key in SENTENCES and each else cleaned(each, exact)
            for key, each in known.items()
            if key not in VOLATILE
        }
    if isinstance(value, (list, tuple)):
        return [cleaned(each, exact) for each in value]
    if isinstance(value, float) and not exact:
        return float(f"{value:.{DIGITS}g}")
    return _renamed(value) if isinstance(value, str) else value


def _renamed(word: str) -> str:
    """Return a word as it was recorded: ids that a site gives were numbers."""
    return re.sub(r"\bd-([0-9]+)$", r"\1", RENAMED.get(word, word))


class Recordings:
    """Compares steps with those that were recorded, or records them."""

    def __init__(self, *, writes: bool) -> None:
        self._writes = writes

    def check(self, name: str, steps: list[Any]) -> None:
        """Compare the steps of a scene, one by one, so that a difference is small enough to read."""
        file = FOLDER / f"{name}.json"
        plain = json.loads(json.dumps(steps))
        steps = [[_renamed(name) if isinstance(name, str) else name, *rest] for name, *rest in plain]
        if self._writes:
            file.parent.mkdir(exist_ok=True)
            file.write_text("[\n" + ",\n".join(json.dumps(step) for step in steps) + "\n]\n")
        recorded = json.loads(file.read_text())
        for number, (step, before) in enumerate(zip(steps, recorded, strict=False)):
            assert step == before, f"step {number} of {name}"
        assert len(steps) == len(recorded)
