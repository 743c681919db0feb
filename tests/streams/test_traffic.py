"""Generated traffic has the shares and bursts of the real one, and is the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from cosend.streams.table import Table
from cosend.streams.traffic import traffic

ROWS = 100_000
SEEDS = range(8)
FEATURES = ["service", "flag", "src_bytes", "dst_bytes", "count", "same_srv_rate", "serror_rate", "logged_in"]


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    return [traffic(ROWS, seed=seed) for seed in SEEDS]


def test_the_share_of_attacks_is_near_047(tables: list[Table]) -> None:
    """Bursts are long, so one stream strays by some points; many streams do not."""
    shares = [float((table.labels == "attack").mean()) for table in tables]
    assert np.mean(shares) == pytest.approx(0.47, abs=0.03)
    assert all(share == pytest.approx(0.47, abs=0.08) for share in shares)


def test_labels_come_in_bursts(tables: list[Table]) -> None:
    for table in tables:
        switches = int((table.labels[1:] != table.labels[:-1]).sum())
        assert ROWS / (switches + 1) > 20


def test_the_same_seed_gives_the_same_stream_and_another_seed_another(tables: list[Table]) -> None:
    again, other = traffic(ROWS, seed=0), tables[1]
    assert (again.labels == tables[0].labels).all()
    assert all((again.features[name] == tables[0].features[name]).all() for name in FEATURES)
    assert (again.labels != other.labels).any()


def test_all_features_are_there_and_finite(tables: list[Table]) -> None:
    for table in tables:
        assert list(table.features) == FEATURES
        assert len(table) == ROWS
        assert np.isfinite(table.matrix()).all()
        assert all((table.features[name] != "").all() for name in ("service", "flag"))
        for name in ("same_srv_rate", "serror_rate"):
            assert ((table.features[name] >= 0) & (table.features[name] <= 1)).all()
