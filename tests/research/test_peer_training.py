"""What passing labels on to peers is worth, as docs/contributing/0001 says."""

from __future__ import annotations

import pytest

from research import peer_training

pytestmark = pytest.mark.compiled


def test_the_training_of_peers_is_measured_at_small_size() -> None:
    found = list(peer_training.rows(["apart"], seeds=2, items=2_000))
    assert [(row.policy, row.option) for row in found] == [
        (policy, option) for policy in peer_training.MAKERS for option in peer_training.OPTIONS
    ]
    assert all(row.worst >= row.regret > 0 for row in found)
    assert all(peer_training.line(row).count("|") == 8 for row in found)


@pytest.mark.claims
@pytest.mark.parametrize(("problem", "most"), [("apart", 1 / 4), ("hot-line", 1.3)])
def test_labels_end_what_peers_that_nobody_teaches_cost(problem: str, most: float) -> None:
    """docs/contributing/0001: most of the regret where peers see other items, and little is lost where they do not."""
    found = {(row.policy, row.option): row.regret for row in peer_training.rows([problem], 8, 200_000)}
    for policy in peer_training.MAKERS:
        assert found[policy, "always"] < most * found[policy, "nobody"]
