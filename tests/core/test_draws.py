"""Draws depend on their arguments only, and are uniform."""

from __future__ import annotations

import numpy as np
import pytest

from cosend.core.kernel import draws
from tests.oracle import twin

pytestmark = pytest.mark.compiled


def test_mix_is_a_bijection_on_a_sample_and_never_overflows() -> None:
    words = np.random.default_rng(0).integers(0, 2**32, 20_000).tolist()
    mixed = [draws.mix(word) for word in words]
    assert len(set(mixed)) == len(set(words))
    assert all(0 <= word < 2**32 for word in mixed)


def test_known_values_never_change() -> None:
    """A change here would change every decision of every saved site."""
    keys = draws.site_words(7, "lab")
    assert keys == (1812557748, 581944395)
    drawn = [int(draws.draw(*keys, 0, n, 1)) for n in (1, 2, 2**40)]
    assert drawn == [3748236112, 4274959722, 3298266525]
    assert drawn == [twin.draw(keys, 0, n, 1) for n in (1, 2, 2**40)]


@pytest.mark.parametrize("candidates", [2, 3, 7])
def test_every_candidate_is_as_likely(candidates: int) -> None:
    key0, key1 = draws.site_words(0, "site")
    picked = [draws.pick(key0, key1, 0, n, draws.BEST_ARM, candidates) for n in range(1, 21_001)]
    counts = np.bincount(picked, minlength=candidates)
    expected = 21_000 / candidates
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 20  # the 99.9 % quantile of chi-square with 6 degrees of freedom is 22


def test_sites_seeds_callers_and_purposes_do_not_share_draws() -> None:
    def sequence(seed: int, site: str, caller: int, purpose: int) -> list[int]:
        key0, key1 = draws.site_words(seed, site)
        return [draws.pick(key0, key1, caller, n, purpose, 2) for n in range(200)]

    base = sequence(0, "a", 0, 1)
    others = [
        sequence(1, "a", 0, 1),
        sequence(0, "b", 0, 1),
        sequence(0, "a", draws.caller_word("b"), 1),
        sequence(0, "a", 0, 2),
    ]
    for other in others:
        assert 60 < sum(x == y for x, y in zip(base, other, strict=True)) < 140
