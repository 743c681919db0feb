"""What is found in a log by the decisions that events tell of: all of it, and without reading the log."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from cosend.store.event_log import EventLog
from cosend.store.log_index import WIDTHS, LogIndex

WIDEST = 20_000
RANGES = [(1, 1), (17, 17), (500, 510), (2_999, 2_999), (9_000, 9_000), (1, 50_000), (60_000, 60_001)]


@pytest.fixture
def spans() -> list[tuple[int, int] | None]:
    """Return what events tell of: single decisions, a few, and so many that hardly any log has such an event."""
    draw, found = random.Random(1), list[tuple[int, int] | None]()
    for first in range(1, 3_000):
        width = draw.choice([0, 0, 1, *(draw.randrange(most) for most in (*WIDTHS, WIDEST))])
        found.append(draw.choice([None, (first, first + width)]))
    return found


def test_events_are_found_by_the_decisions_they_tell_of(tmp_path: Path, spans: list[tuple[int, int] | None]) -> None:
    with EventLog(tmp_path, site="north", durable=False) as log:
        log.append([b"event"] * len(spans), [span or (None, None) for span in spans])
        with closing(LogIndex(log.reader())) as index:
            told = [(number, *span) for number, span in enumerate(spans) if span is not None]
            for lowest, highest in RANGES:
                expected = [number for number, first, last in told if first <= highest and last >= lowest]
                assert index.events_of(lowest, highest, WIDEST) == expected
            assert index.oldest_decision() == min(first for _, first, _ in told)


def test_of_many_events_few_are_looked_at(tmp_path: Path) -> None:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with EventLog(tmp_path, site="north", durable=False) as log:
        log.append([b"event"] * 20_000, [(n, n + n % 2) for n in range(1, 20_001)])
        with closing(log.reader()) as connection:
            connection.set_progress_handler(count, 100)
            assert LogIndex(connection).events_of(19_990, 19_990, WIDEST) == [19_988, 19_989]
            assert LogIndex(connection).oldest_decision() == 1
    assert steps < 10  # a thousand instructions of SQLite; reading all that begins before takes a hundred thousand
