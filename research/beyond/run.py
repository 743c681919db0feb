"""Compute the rows of the results, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from research.beyond.learning import learning
from research.beyond.liar import liar
from research.beyond.parts import described, jobs_of
from research.beyond.play import Job
from research.beyond.settings import PARTS, Settings

Report = Callable[[str, int], None]  # what is being done, and how many rows there will be
Row = dict[str, Any]

APART: Final[dict[str, Callable[[Settings], Iterator[Job]]]] = {"liar": liar, "learning": learning}  # real networks
JOBS: Final = {part: APART.get(part, partial(jobs_of, part)) for part in PARTS}


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
