"""The benchmarks run; what they measure is not asserted, because machines are noisy."""

from __future__ import annotations

from benchmarks.__main__ import rows


def test_benchmarks_run_at_small_size() -> None:
    measured = {row.what: row.measured for row in rows(0.001)}
    assert len(measured) == 5
    assert all(measured.values())
