"""One by one or in batches, compiled or not: the same decisions and the same state, to the last bit."""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import Learner, MixedViews, Site, compiled, simulate
from cosend.algorithm import boosting
from cosend.algorithm import layout as col
from cosend.algorithm.values import Phase
from cosend.axes import Category, Feature
from tests.policies import POLICIES, choose, everything, new_learner, told_of
from tests.random_networks import play, played
from tests.simulation.test_simulate import new_learners, stream

ROOT = Path(__file__).parents[1]
PARTS = [range(40), range(40, 700), range(700, 1300), range(1300, 2000)]  # of 2,000 random networks
ITEMS = 100
SLOTS = 100  # of a replay, which takes long without the compiler


@contextmanager
def one_compiles() -> Iterator[None]:
    """Wait for the other part of the tests, if it compiles now: it keeps what this one needs too."""
    with Path(compiled.__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def in_the_other_way(expression: str) -> Any:
    """Evaluate an expression of this module in a new process, without the compiler if it is used here, else with it."""
    program = (
        "import json, numba, tests.test_same_everywhere as here\n"
        f"print(json.dumps([bool(numba.config.DISABLE_JIT), {expression}]))\n"
    )
    is_plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0" if is_plain else "1"}
    command = [sys.executable, "-c", program]
    with one_compiles() if is_plain else nullcontext():
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own
    was_plain, result = json.loads(done.stdout)
    assert was_plain != is_plain
    return result


def plain(value: Any) -> Any:
    """Return a form that JSON has for numbers of NumPy, which rules without the compiler give, and for names."""
    return value.item() if isinstance(value, np.generic) else str(value)


def kept(learner: Learner) -> dict[str, Any]:
    """Return the whole state of a learner in short."""
    facts, arrays = everything(learner)
    return {"facts": facts, **{name: zlib.crc32(content) for name, (_, content) in arrays.items()}}


def stepped(policy: str) -> dict[str, Any]:
    """Choose, answer and learn late for a while; returns all that was said and all that is kept."""
    learner, draw = new_learner(POLICIES[policy]), random.Random(policy)
    said: list[object] = []
    waiting: dict[int, str] = {}  # the arm of every decision without a label
    for n in range(ITEMS):
        context = (draw.random() ** 2, draw.random())
        made = choose(learner, context)
        said.append(told_of(made))
        waiting[made.id] = made.arm
        if n % 5 == 0:
            said.append(learner.answer(context, caller="far", request=n, training=n % 2 == 0))
        for decision in [each for each in waiting if draw.random() < 0.4]:
            chance = 0.8 if waiting.pop(decision) == "there" else 0.4
            learner.learn(decision, float(draw.random() < chance))
    return {"said": json.dumps(said, default=plain), **kept(learner)}


def simulated(policy: str, kind: type) -> dict[str, Any]:
    """Replay a network with gains of a kind; returns all that was decided and all that is kept."""
    learners, (contexts, gains, items) = new_learners([POLICIES[policy]] * 3), stream(5)
    items = items[:SLOTS]
    trace = simulate(learners, contexts, gains.astype(kind), items=items, delay=np.maximum(items, 0) % 7)
    return {
        "trace": [zlib.crc32(column.tobytes()) for column in trace],
        **{learner.name: kept(learner) for learner in learners},
    }


def everything_of(policy: str) -> dict[str, Any]:
    """Return what comes of a policy step by step, and in replays of both kinds of gains that experiments have."""
    return {"steps": stepped(policy), "right": simulated(policy, np.uint8), "gains": simulated(policy, np.float64)}


def learnt() -> dict[str, Any]:
    """Let a site learn arms of its own from labels that are late; returns all that was decided and all that is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "ROUNDS", 3)
        return _learnt()


def _learnt() -> dict[str, Any]:
    draw, waiting, said = random.Random(1), list[tuple[Any, str]](), list[Any]()
    models: dict[str, Any] = {
        "half": lambda item: ("no" if item["x"] < 0.5 else "yes", item["x"]),
        "other": lambda _: "perhaps",
    }
    site = Site("here", classifiers=models, context=[Feature("x", range=(0, 1)), Category("kind")])
    for _ in range(140):
        item: dict[str, Any] = {"x": draw.random(), "kind": draw.choice("abc")}
        decision = site.classify(item)
        said.append(decision[:3])
        waiting.append((decision, "yes" if item["x"] > 0.5 and item["kind"] == "a" else "no"))
        if len(waiting) > 9:
            site.learn(*waiting.pop(draw.randrange(9)))
    state = site.state()
    arrays = {name: zlib.crc32(np.ascontiguousarray(array).tobytes()) for name, array in state.arrays.items()}
    assert "learnt_grown_nodes" in arrays
    return {"said": json.dumps(said), "facts": json.dumps(state.facts), "arrays": arrays}


def test_every_policy_does_the_same_with_and_without_the_compiler() -> None:
    """What the other process compiles is ready for the tests that need the compiler."""
    theirs = in_the_other_way("{**{each: here.everything_of(each) for each in here.POLICIES}, 'learnt': here.learnt()}")
    assert learnt() == theirs.pop("learnt")
    assert list(theirs) == list(POLICIES)
    for policy in POLICIES:
        assert everything_of(policy) == theirs[policy], policy


@pytest.mark.compiled
@pytest.mark.parametrize(
    "seeds", [PARTS[0], *(pytest.param(part, marks=pytest.mark.claims) for part in PARTS[1:])], ids=str
)
def test_batches_equal_one_by_one_and_compiled_equals_uncompiled(seeds: range) -> None:
    with one_compiles():
        batched = [played(seed, batched=True) for seed in seeds]
    one_by_one = [played(seed, batched=False) for seed in seeds]
    assert [seed for seed, a, b in zip(seeds, batched, one_by_one, strict=True) if a != b] == []
    the_other_way = in_the_other_way(f"[here.played(seed, batched=True) for seed in {seeds!r}]")
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
