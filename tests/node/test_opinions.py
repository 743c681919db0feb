"""Votes: they learn from every label, and are there again after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosend import Vote
from cosend.engine.needs import Call, Forward, Question
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import (
    Majority,
    check_folds,
    crash,
    decided,
    everything,
    old,
    running,
    setup_of,
    started,
    young,
)


def models(**more: Any) -> dict[str, Any]:
    return {"young": young, "old": old, "learns": Majority(), "vote": Vote(), **more}


async def played(node: RunningSite, count: int) -> list[Decided]:
    """Let a site decide, two items at a time, of which the second is labelled first."""
    found: list[Decided] = []
    for n in range(count):
        both = await decided(node, {"age": (37.0 * n) % 100}, {"age": (59.0 * n) % 100})
        found += both
        await node.label([Given(each.id, "ill" if n % 3 else "well") for each in reversed(both)])
    return found


def labels_of(node: RunningSite, vote: str = "vote") -> int:
    """Return from how many labels a vote has learnt."""
    return sum(count for *key, count in node.state.votes[vote].facts()["bayes"][1][1] if len(key) == 1)


@pytest.mark.parametrize("score_local", ["all", "used"])
async def test_a_vote_learns_from_every_label_and_survives_a_kill(score_local: Any, tmp_path: Path) -> None:
    setup = setup_of(models(second=Vote(over=["young"])), score_local=score_local)
    node = await started(setup, tmp_path)
    made = await played(node, 8)
    await node.snapshot()
    made += await played(node, 8)
    live = everything(node.state)
    assert labels_of(node) == labels_of(node, "second") == len(made) == 32
    assert {each.arm for each in made} >= {"vote", "young"}
    await crash(node)
    for _ in range(2):
        node = await started(setup, tmp_path)
        assert everything(node.state) == live
        await check_folds(node)
        await crash(node)


async def test_a_vote_learns_from_the_labels_of_peers(tmp_path: Path) -> None:
    async with running(setup_of(models()), tmp_path) as node:
        await node.call(Call("north", "south", [Question(n, {"age": n}, (n / 100,), False, True) for n in range(1, 6)]))
        await node.post("south", [Forward("north", "south", n, "ill") for n in range(1, 5)])
        assert labels_of(node) == node.counts.taught["south"] == 4
        await check_folds(node)


async def test_a_vote_over_other_models_is_another_one_after_a_restart(tmp_path: Path) -> None:
    for over, known in ((["young"], 0), (["young"], 8), (["young", "old"], 0)):
        async with running(setup_of(models(vote=Vote(over=over))), tmp_path) as node:
            assert labels_of(node) == known
            if not known:
                await played(node, 4)
