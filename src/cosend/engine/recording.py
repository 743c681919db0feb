"""Knowledge from before the first decision of a site: rows of a recording with labels, or of another system's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.checks import as_list, is_missing, is_number
from cosend.errors import SettingError

AT_ONCE: Final = 256  # rows that are learnt together


class Recording(NamedTuple):
    """Rows of which something is known."""

    rows: list[Any]
    known: list[Any]  # the true labels; with arms, the scores
    arms: list[str]  # that another system has used; empty where there are labels

    def part(self, start: int, count: int) -> Recording:
        return Recording(*(column[start : start + count] for column in self))

    def at(self, places: Sequence[int]) -> Recording:
        rows, known, arms = ([column[n] for n in places] if column else [] for column in self)
        return Recording(rows, known, arms)


def read_recording(
    rows: Sequence[Any],
    truths: Iterable[Any] | None,
    arms: Iterable[str] | None,
    scores: Iterable[float | None] | None,
    propensities: Iterable[float] | None,
    seed: int,
) -> Recording:
    """Return the rows of which something is known, thinned by propensities where they are given."""
    if (truths is None) == (arms is None) or (arms is None) != (scores is None):
        raise SettingError("what is known", "neither or both", "truths, or arms and scores")
    if propensities is not None and arms is None:
        raise SettingError("propensities", "some", "given with arms and scores")
    given = {"truths": truths, "arms": arms, "scores": scores, "propensities": propensities}
    columns = {name: as_list(name, each, "a list") for name, each in given.items() if each is not None}
    for name, column in columns.items():
        if len(column) != len(rows):
            raise SettingError(name, f"{len(column)} of them", f"as many as items ({len(rows)})")
    recording = Recording([*rows], columns.get("truths", columns.get("scores", [])), columns.get("arms", []))
    kept = _kept(columns["propensities"], seed) if propensities is not None else range(len(rows))
    return recording.at([n for n in kept if not is_missing(recording.known[n])])


def _kept(propensities: Sequence[Any], seed: int) -> list[int]:
    """Return the rows that are kept, so that every arm was as likely for them as the least likely one."""
    for value in propensities:
        if not is_number(value) or not 0 < value <= 1:
            raise SettingError("a propensity", value, "how likely the arm was, above 0 and at most 1")
    least, drawn = min(propensities, default=1.0), np.random.default_rng(seed).random(len(propensities))
    return [n for n, value in enumerate(propensities) if drawn[n] * value < least]
