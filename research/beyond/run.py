"""Compute the rows of the results, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from research.beyond.changes import costs, delays, drift, late
from research.beyond.default import default
from research.beyond.features import no_context
from research.beyond.learning import learning
from research.beyond.liar import liar
from research.beyond.play import Job
from research.beyond.settings import Settings
from research.beyond.unseen import unseen
from research.beyond.windows import described, windows

Report = Callable[[str, int], None]  # what is being done, and how many rows there will be
Row = dict[str, Any]

JOBS: Final[dict[str, Callable[[Settings], Iterator[Job]]]] = {
    "windows": windows,
    "delays": delays,
    "late": late,
    "no-context": no_context,
    "costs": costs,
    "drift": drift,
    "unseen": unseen,
    "liar": liar,
    "learning": learning,
    "default": default,
}


def rows(settings: Settings, report: Report) -> Iterator[Row]:
    """Yield the rows of the results, each as soon as it is there."""
    jobs = [job for part in settings.parts for job in JOBS[part](settings)]
    for place, work in jobs:
        report(f"{place.part}: {place.policy}", len(jobs))
        yield {**place._asdict(), **work()}


def results(settings: Settings, found: list[Row]) -> dict[str, Any]:
    """Return what was found in the shape of results.json."""
    return {
        "rows": found,
        "windows": described(settings),
        "settings": {"rows": settings.rows, "seeds": settings.seeds, "parts": list(settings.parts)},
    }
