"""The part in which the default plays beside `ZoomingKLUCB`: its settings, and what is said of made-up results."""

from __future__ import annotations

from typing import Any

import pytest
from research.beyond.default import pairs, remarks, table
from research.beyond.run import JOBS
from research.beyond.settings import Settings


def row(policy: str, errors: list[float], paid: float = 0.0, **where: str) -> dict[str, Any]:
    place = {"part": "default", "setting": "main, 1 late, 0 per call", "scenario": "S1", "context": "together", **where}
    return {**place, "policy": policy, "error_by_seed": errors, "paid_by_seed": [paid] * len(errors)}


def both(ours: list[float], theirs: list[float], **where: str) -> list[dict[str, Any]]:
    return [row("MixedViews", ours, 0.0, **where), row("ZoomingKLUCB", theirs, 0.0, **where)]


def test_both_play_in_234_settings() -> None:
    jobs = list(JOBS["default"](Settings()))
    assert len({job.place for job in jobs}) == len(jobs) == 2 * 234


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "clear"),
    [
        ([1.0, 1.2], [2.0, 2.4], 0.5, False),
        ([1.1, 1.1], [1.0, 1.0], 1.1, True),
        ([1.04, 1.04], [1.0, 1.0], 1.04, False),  # by less than 5 %
        ([1.5, 0.9], [1.0, 1.0], 1.2, False),  # by less than two standard errors
        ([1.2], [1.0], 1.2, False),  # nothing is known of the error of one seed
        ([0.0], [0.0], 1.0, False),
        ([0.1, 0.1], [0.0, 0.0], float("inf"), True),
    ],
)
def test_worse_is_by_more_than_a_twentieth_and_by_more_than_chance(
    ours: list[float], theirs: list[float], ratio: float, clear: bool
) -> None:
    (pair,) = pairs(both(ours, theirs))
    assert pair.ratio == pytest.approx(ratio)
    assert pair.is_clear == clear


def test_the_table_has_what_is_worse_and_the_clearest_first() -> None:
    rows = [
        *both([1.5, 0.9], [1.0, 1.0]),
        *both([1.1, 1.1], [1.0, 1.0], context="time"),
        *both([0.5, 0.5], [1.0, 1.0], context="src_bytes"),
        row("MixedViews", [9.0], scenario="S2"),  # alone: it was stopped before the other
    ]
    _, heading, lines = table(rows)
    assert [dict(zip(heading, line, strict=True))["context"] for line in lines] == ["time", "together"]
    assert [line[-1] for line in lines] == ["yes", ""]


def test_the_remarks_count_and_take_geometric_means_with_all_contexts() -> None:
    late = "few switches, 1 late, 0 per call"
    rows = [*both([1.0], [2.0]), *both([1.0], [0.5], setting=late), *both([4.0], [1.0], context="time")]
    counted, mean = remarks(rows)
    assert "of 3 settings MixedViews loses more than ZoomingKLUCB in 2" in counted
    assert "1 late, 0 per call" in mean
    assert "1.00 times as much as ZoomingKLUCB (geometric mean of 2 settings" in mean
    assert len(list(remarks(both([0.0], [1.0])))) == 1  # 0 has no logarithm
    assert list(remarks([])) == []
