"""Running sites that ask each other, over links of one event loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cosend.node.node import Node
from cosend.site.context import Axis
from cosend.site.fold import fold
from cosend.site.recovery import read_events
from cosend.site.snapshot import rules_state
from tests.node.networks import AXES, in_one_process, network_of, one_by_one, running
from tests.node.sites import run
from tests.policies import POLICIES, mostly_claims

TURNS = 30


def check_folds(node: Node, axes: Sequence[Axis] = AXES) -> None:
    """Check that the log of a site leads to its state."""
    folded = fold((event for _, event in read_events(node.store.log)), axes=axes)
    live, again = rules_state(node.rules), rules_state(folded)
    assert live.facts == again.facts
    assert live.arrays.keys() == again.arrays.keys()
    assert all((live.arrays[name] == again.arrays[name]).all() for name in live.arrays)


@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_one_at_a_time_they_decide_as_the_network_in_one_process(policy: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, POLICIES[policy]) as nodes:
            decided = await one_by_one(nodes, TURNS)
            for node in nodes.values():
                await node.commits.done()
                check_folds(node)
        assert decided == in_one_process(network_of(POLICIES[policy]), TURNS)
        assert {name for name, (_, _, arm, _) in decided if arm in nodes}  # some were sent

    run(work())
