"""With and without the compiler every policy makes the same decisions and keeps the same state, to the last bit."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from cosend import Learner, simulate
from tests.policies import POLICIES, choose, everything, new_learner, told_of
from tests.simulation.test_simulate import new_learners, stream

ROOT = Path(__file__).parents[1]
ITEMS = 100
SLOTS = 100  # of a replay, which takes long without the compiler


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


def test_every_policy_does_the_same_with_and_without_the_compiler() -> None:
    """Here one way, in a new process the other. What it compiles is ready for the tests that need the compiler."""
    program = (
        "import json\n"
        "from tests.test_compiled import POLICIES, everything_of\n"
        "print(json.dumps({policy: everything_of(policy) for policy in POLICIES}))\n"
    )
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "1"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": other}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own
    theirs = json.loads(done.stdout)
    assert list(theirs) == list(POLICIES)
    for policy in POLICIES:
        assert everything_of(policy) == theirs[policy], policy
