"""A process that starts others, which serve a site with models of every kind and are killed by a test.

It is started as `python -m tests.processes.server FOLDER PORT KIND`. KIND is "calm" for models whose answers depend on
the item alone, and "wild" for such as hang too. For every line that it reads it starts a server and says its process
id. The servers are forked from this one, so that what takes long, importing and compiling, is done once.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

from river import linear_model, preprocessing

from cosend import Patience
from cosend.axes import Category, Feature
from cosend.engine.snapshot import state_of
from cosend.models.adapters import SeesOnly, as_classifier
from cosend.runtime import running_site as running
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server.auth import Tokens
from cosend.server.http_server import Address, serve
from cosend.server.logs import set_up_logs
from tests.processes.served import fork_for_lines

SNAPSHOT_EVERY = 150  # events: so that kills come before, in and after many of them
LIMIT_S = 0.15


def always(_: Any) -> bool:
    return True


def high(item: Any) -> bool:
    return bool(item["x"] > 0.5)


def fails(item: Any) -> bool:
    """Raise for some items, else say the opposite of another model."""
    if item["n"] % 11 == 0:
        raise ValueError("it is a multiple of eleven")
    return bool(item["x"] < 0.3)


def hangs(item: Any) -> bool:
    """Take far too long for some items."""
    if item["n"] % 37 == 0:
        time.sleep(3 * LIMIT_S)
    return bool(item["y"] > 0.5)


def learner() -> SeesOnly:
    return SeesOnly(preprocessing.StandardScaler() | linear_model.LogisticRegression(), ["x", "y"])


def knowledge(learnt: Any) -> Any:
    """Return all that a learner knows, to the last bit."""
    model = learnt.classifier.model
    scaler, regression = model["StandardScaler"], model["LogisticRegression"]
    return dict(scaler.counts), dict(scaler.means), dict(scaler.vars), dict(regression.weights), regression.intercept


def item_of(n: int) -> dict[str, Any]:
    """Return an item; the same number gives the same item."""
    draw = random.Random(n)
    return {"n": n, "x": draw.random(), "y": draw.random(), "kind": draw.choice("abc")}


def truth_of(item: Any) -> bool:
    """Return the true label of an item."""
    return bool(item["x"] + item["y"] > 1)


def setup_of(kind: str) -> Setup:
    """Return the site."""
    models: dict[str, Any] = {"always": always, "high": high, "learns": learner(), "fails": fails}
    if kind == "wild":
        models["hangs"] = hangs
    return Setup(
        name="lab",
        classifiers={name: as_classifier(model) for name, model in models.items()},
        axes=[Feature("x", range=(0, 1)), Category("kind")],
        costs={"high": 0.05, "learns": 0.02},
        patience=Patience(wait_limit=100_000),
        limits_s={"hangs": LIMIT_S},
        learns_from="all",
        learnt=kind != "calm",  # fits take as long as they take, so two runs decide otherwise
        seed=11,
    )


def main(folder: Path, port: int, kind: str) -> None:
    running.SNAPSHOT_EVERY = SNAPSHOT_EVERY  # type: ignore[misc]
    setup = setup_of(kind)
    setup.warm_up()
    state_of(setup.new_state(None))
    set_up_logs("lab", "text")
    fork_for_lines(lambda _: serve(RunningSite(setup_of(kind), folder), Address(port=port), Tokens({})))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
