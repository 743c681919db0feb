"""A vote at a running site: it hears every label, its ballots are in the log, and a kill takes nothing from it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cosend import Vote
from cosend.classifiers.vote import NEWEST
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.site import events
from cosend.site.recovery import read_events
from tests.node.sites import Majority, crash, old, run, running, setup_of, young
from tests.site.test_fold import everything


def failing(_: Any) -> str:
    raise ValueError("broken")


def models(**more: Any) -> dict[str, Any]:
    return {"young": young, "old": old, "learns": Majority(), "vote": Vote(), **more}


def learnt(node: Node, name: str = "vote") -> dict[str, Any]:
    """Return what a vote has learnt, when it has heard everything."""
    while node.workers[name].is_busy:
        time.sleep(0.001)
    vote: Any = node.workers[name].classifier
    return dict(vote.facts())


async def played(node: Node, count: int) -> list[Decided]:
    """Let a site decide, two items at a time, of which the second is labelled first."""
    found: list[Decided] = []
    for n in range(count):
        made = await node.classify([{"age": (37.0 * n) % 100}, {"age": (59.0 * n) % 100}])
        both = [each for each in made if isinstance(each, Decided)]
        found += both
        await node.label([Given(each.id, "ill" if n % 3 else "well") for each in reversed(both)])
    return found


@pytest.mark.parametrize("score_local", ["all", "used"])
def test_it_learns_from_every_label_and_survives_a_kill(score_local: Any, tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of(models(second=Vote(over=["young"]), broken=failing), score_local=score_local)
        node = Node(setup, tmp_path)
        await node.start()
        made = await played(node, 8)
        await node.snapshot()
        made += await played(node, 8)
        live, votes = everything(node.rules), [learnt(node), learnt(node, "second")]
        labels = sum(count for *key, count in votes[0]["bayes"][1][1] if len(key) == 1)
        assert labels == len(made) == 32
        assert {each.arm for each in made} >= {"vote", "young"}
        await crash(node)
        for _ in range(2):
            node = Node(setup, tmp_path)
            await node.start()
            assert everything(node.rules) == live
            assert [learnt(node), learnt(node, "second")] == votes
            await crash(node)

    run(work())


def test_ballots_are_in_the_log_and_its_answers_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(models(), score_local="all"), tmp_path) as node:
            await played(node, 6)
            said = [
                each
                for _, event in read_events(node.store.log)
                if isinstance(event, events.Answered)
                for each in event.others
            ]
            assert all(NEWEST in each and len(each) == 4 for each in said)  # all but the arm, and the newest label
            assert node.deciding.beside._said == {}
            assert {*node.rules.learner.cells()[0].estimates} == {*models()}

    run(work())


def test_while_decisions_are_only_observed_a_vote_may_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(models()), tmp_path) as node:
            await node.set_mode("observe", "vote")
            made = await node.classify([{"age": 80.0}, {"age": 10.0}])
            assert [each.label for each in made if isinstance(each, Decided)] in (["well", "well"], ["ill", "ill"])
            assert node.deciding.beside._said == {}

    run(work())
