"""One by one or in batches, compiled or not: the same decisions and the same state, in 2,000 random networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cosend import MixedViews
from cosend.algorithm import layout as col
from cosend.algorithm.values import Phase
from tests.random_networks import play, played

ROOT = Path(__file__).parents[1]
PARTS = [range(40), range(40, 700), range(700, 1300), range(1300, 2000)]

pytestmark = pytest.mark.compiled


def played_the_other_way(seeds: range) -> list[int]:
    """Play networks in batches in a new process, without the compiler if it is used here, else with it."""
    program = (
        "import json, numba\n"
        "from tests.random_networks import played\n"
        f"checksums = [played(seed, batched=True) for seed in {seeds!r}]\n"
        "print(json.dumps([bool(numba.config.DISABLE_JIT), checksums]))\n"
    )
    here = os.environ.get("NUMBA_DISABLE_JIT") == "1"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0" if here else "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own
    there, checksums = json.loads(done.stdout)
    assert there != here
    return list(checksums)


@pytest.mark.parametrize(
    "seeds", [PARTS[0], *(pytest.param(part, marks=pytest.mark.claims) for part in PARTS[1:])], ids=str
)
def test_batches_equal_one_by_one_and_compiled_equals_uncompiled(seeds: range) -> None:
    batched = [played(seed, batched=True) for seed in seeds]
    one_by_one = [played(seed, batched=False) for seed in seeds]
    assert [seed for seed, a, b in zip(seeds, batched, one_by_one, strict=True) if a != b] == []
    the_other_way = played_the_other_way(seeds)
    assert [seed for seed, a, b in zip(seeds, batched, the_other_way, strict=True) if a != b] == []


IN_THERE = ["MixedViews", "Zooming", "ZoomingKLUCB", "CoS", "CellKLUCB"]
REACHED = ["overdue", "trained", "small cubes", "later phases", "paused", "scored", "full"]


@pytest.mark.claims
def test_these_networks_reach_what_could_differ() -> None:
    """The comparison above would be worth little if nobody were trained, nothing split and no label were overdue."""
    reached = Counter[str]()
    for seed in range(0, 2000, 5):
        said, sites, overdue = play(seed, batched=True)
        reached["overdue"] += overdue
        reached["trained"] += sum(str(Phase.TRAIN) in decision for decision in said)
        for site in sites.values():
            learner, ledger = site.learner, site.learner.ledger
            reached[type(learner.policy).__name__] += 1
            reached["small cubes"] += bool((ledger.cells[:, col.CELL_LEVEL] < -1).any())
            reached["later phases"] += bool(ledger.site[col.EPOCH] > 2)
            reached["paused"] += bool(learner.arms.paused)
            reached["scored"] += learner.score_local == "all" and len(learner.arms.own) > 1
            if isinstance(learner.policy, MixedViews):
                reached["full"] += int(ledger.site[col.ROWS]) == learner.policy.max_cells
    assert min(reached[each] for each in [*IN_THERE, *REACHED]) > 5, reached
