"""Generated patients and traffic have the shares that are written down, and are the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cosend.errors import SettingError
from cosend.streams.clinics import AFTER, AGES, BEFORE, CLINICS, KNOWN, clinics, turn_of
from cosend.streams.table import Table
from cosend.streams.traffic import traffic

ROWS, TRAINING = 30_000, 6_000


@pytest.mark.parametrize("generate", [clinics, traffic])
def test_the_same_seed_gives_the_same_rows_and_another_one_others(generate: Callable[..., Table]) -> None:
    first, again, other = (generate(300, seed=seed) for seed in (1, 1, 2))
    assert list(first.rows()) == list(again.rows()) != list(other.rows())


def test_models_do_not_see_the_age_and_every_clinic_gets_every_third_patient() -> None:
    table = clinics(7)
    assert list(table.contexts) == ["age"]
    assert list(table.features) == ["temperature", "pulse", "breathing", "pressure"]
    assert table.sites is not None
    assert table.sites.tolist() == [*CLINICS, *CLINICS, CLINICS[0]]


def test_the_mix_of_ages_is_as_it_is_written_down_and_changes_in_the_middle() -> None:
    table = clinics(ROWS, training=TRAINING)
    turn = TRAINING + turn_of(ROWS - TRAINING)
    ages, sites = table.contexts["age"], np.asarray(table.sites)
    for (first, last), mixes in zip(pairwise((0, TRAINING, turn, ROWS)), (KNOWN, BEFORE, AFTER), strict=True):
        for clinic, mix in zip(CLINICS, mixes, strict=True):
            here = ages[first:last][sites[first:last] == clinic]
            shares = np.histogram(here, bins=[AGES[0][0], *(high for _, high in AGES)])[0] / len(here)
            assert abs(shares - mix).max() < 0.03


def test_the_label_before_says_nothing_about_the_next() -> None:
    ill = clinics(ROWS).labels == "ill"
    assert abs(np.corrcoef(ill[3:], ill[:-3])[0, 1]) < 0.02  # three earlier is the one before at the same clinic


@pytest.mark.parametrize(("rows", "training"), [(0, 0), (10, -1), (10, 11), (10, 1.5)])
def test_numbers_that_make_no_stream_are_refused(rows: int, training: Any) -> None:
    with pytest.raises(SettingError):
        clinics(rows, training=training)


def test_traffic_has_bursts_and_the_share_of_attacks_is_near_047() -> None:
    """Bursts are long, so one stream strays by some points; many streams do not."""
    tables = [traffic(100_000, seed=seed) for seed in range(4)]
    shares = [float((table.labels == "attack").mean()) for table in tables]
    assert np.mean(shares) == pytest.approx(0.47, abs=0.03)
    for table in tables:
        assert len(table) / ((table.labels[1:] != table.labels[:-1]).sum() + 1) > 20
        assert np.isfinite(table.matrix()).all()
        assert all((table.features[name] != "").all() for name in ("service", "flag"))
