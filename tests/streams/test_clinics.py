from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cosend.errors import SettingError
from cosend.streams.clinics import AFTER, AGES, BEFORE, CLINICS, KNOWN, clinics, turn_of

ROWS, TRAINING = 30_000, 6_000


def test_the_same_seed_gives_the_same_patients_and_another_one_others() -> None:
    first, again, other = (clinics(300, training=100, seed=seed) for seed in (1, 1, 2))
    assert list(first.rows()) == list(again.rows())
    assert list(first.rows()) != list(other.rows())


def test_models_do_not_see_the_age() -> None:
    table = clinics(10)
    assert list(table.contexts) == ["age"]
    assert list(table.features) == ["temperature", "pulse", "breathing", "pressure"]


def test_every_clinic_gets_every_third_patient() -> None:
    assert clinics(7).sites.tolist() == [*CLINICS, *CLINICS, CLINICS[0]]  # type: ignore[union-attr]


def test_the_mix_of_ages_is_as_it_is_written_down_and_changes_in_the_middle() -> None:
    table = clinics(ROWS, training=TRAINING)
    turn = TRAINING + turn_of(ROWS - TRAINING)
    ages, sites = table.contexts["age"], table.sites
    for (first, last), mixes in zip(pairwise((0, TRAINING, turn, ROWS)), (KNOWN, BEFORE, AFTER), strict=True):
        for clinic, mix in zip(CLINICS, mixes, strict=True):
            here = ages[first:last][sites[first:last] == clinic]  # type: ignore[index]
            shares = np.histogram(here, bins=[AGES[0][0], *(high for _, high in AGES)])[0] / len(here)
            assert abs(shares - mix).max() < 0.03


def test_the_label_before_says_nothing_about_the_next() -> None:
    ill = clinics(ROWS).labels == "ill"
    assert abs(np.corrcoef(ill[3:], ill[:-3])[0, 1]) < 0.02  # three earlier is the one before at the same clinic


@pytest.mark.parametrize(("rows", "training"), [(0, 0), (10, -1), (10, 11), (10, 1.5)])
def test_numbers_that_make_no_stream_are_refused(rows: int, training: int) -> None:
    with pytest.raises(SettingError):
        clinics(rows, training=training)
