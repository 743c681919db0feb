"""With and without the compiler every policy makes the same decisions and keeps the same state, to the last bit."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.policies import POLICIES, choose, everything, new_learner, told_of

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parents[2]
ITEMS = 150


def fingerprint(policy: str) -> dict[str, str | int]:
    """Choose, answer and learn late for a while; returns all that was said and all that is kept, in short."""
    learner, draw = new_learner(POLICIES[policy]), random.Random(policy)
    said: list[object] = []
    for n in range(ITEMS):
        context = (draw.random() ** 2, draw.random())
        said.append(told_of(choose(learner, context)))
        if n % 5 == 0:
            said.append(learner.answer(context, caller="far", request=n, training=n % 2 == 0))
        for decision in [each for each in learner.room.entries if draw.random() < 0.4]:
            arm = learner.arms.names[learner.room.entries[decision][1]]
            learner.learn(decision, float(draw.random() < (0.8 if arm == "there" else 0.4)))
    facts, arrays = everything(learner)
    bits = {name: zlib.crc32(content) for name, (_, content) in arrays.items()}
    return {"said": json.dumps(said, default=str), "facts": facts, **bits}


def test_every_policy_does_the_same_with_and_without_the_compiler() -> None:
    program = (
        "import json\n"
        "from tests.core.test_compiled import POLICIES, fingerprint\n"
        "print(json.dumps({policy: fingerprint(policy) for policy in POLICIES}))\n"
    )
    without = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program], cwd=ROOT, env=without, capture_output=True, text=True, check=True
    )
    uncompiled = json.loads(done.stdout)
    assert list(uncompiled) == list(POLICIES)
    for policy in POLICIES:
        assert fingerprint(policy) == uncompiled[policy], policy
