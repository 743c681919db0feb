"""A start says what it took over from the folder of the site where that is not as it was, or not as the file says."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cosend import Budget
from cosend.runtime.running_site import RunningSite
from cosend.server.from_file import read_site
from tests.cli.serving import MODELS, write_network

NETWORK = """
[[context]]
feature = "age"
range = [0, 100]
[network]
servers = ["nats://127.0.0.1:1"]
[[sites]]
name = "north"
classifiers = [
  {{ name = "young", model = "models:young", cost = {young} }},
  {{ name = "always", model = "always", label = "{label}" }},
  {{ name = "dummy", model = "dummy.pkl", trusted = true, features = ["age"] }},
  {{ name = "{fourth}", model = "models:old", cost = 0.1 }},
]
[[sites]]
name = "{peer}"
classifiers = [{{ name = "any", model = "models:any_age" }}]
"""


def write_file(folder: Path, **changes: object) -> None:
    said = {"young": 0.0, "label": "ill", "fourth": "old", "peer": "south", **changes}
    write_network(folder, NETWORK.format(**said))


def write_dummy(folder: Path, constant: str) -> None:
    model = (
        pytest.importorskip("sklearn.dummy")
        .DummyClassifier(strategy="constant", constant=constant)
        .fit([[1.0], [2.0]], ["ill", "well"])
    )
    (folder / "dummy.pkl").write_bytes(pickle.dumps(model))


async def changed(node: RunningSite) -> None:
    await node.change_arm("always", cost=0.25)
    await node.change_arm("dummy", paused=True)
    await node.set_mode("observe", "young")


async def nothing(node: RunningSite) -> None:
    pass


def started(
    folder: Path, caplog: pytest.LogCaptureFixture, work: Callable[[RunningSite], Awaitable[None]] = nothing
) -> list[str]:
    """Start a site, let it work and stop it; return what the start says, and check that its log says the same."""

    async def run() -> list[str]:
        found = read_site(folder / "network.toml", "north", 7.0)
        node = RunningSite(found.setup, folder / "store" / "north", link=found.link)
        await node.start()
        await work(node)
        await node.stop()
        return node.took_over

    caplog.clear()
    told = asyncio.run(run())
    assert [each.getMessage() for each in caplog.records if each.getMessage() in told] == told
    return told


def test_a_start_says_what_it_took_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_file(tmp_path)
    write_dummy(tmp_path, "ill")
    assert started(tmp_path, caplog, changed) == []  # it has no past
    still = [
        "'always' costs 0.25, as it was set while the site ran; the file says 0",
        "'dummy' is still paused",
        "observe mode is still on: 'young' answers, and decisions are only learnt from",
    ]
    assert started(tmp_path, caplog) == still

    write_file(tmp_path, young=0.05, label="well", fourth="elder", peer="west")
    write_dummy(tmp_path, "well")
    (tmp_path / "models.py").write_text(MODELS.replace("< 30", "< 40"))
    told = started(tmp_path, caplog)
    another = "is another model than at the last start; what was learnt about it is kept"
    assert told == [
        "classifier 'elder' is new, at a cost of 0.1",
        "classifier 'old' is gone: what was learnt about it is dropped",
        "'young' costs 0.05 now: the file said 0 at the last start",
        still[0],
        "peer 'west' is new, at a cost of 0",
        "peer 'south' is gone: what was learnt about it is dropped",
        still[1],
        *(f"classifier {name!r} {another}" for name in ("young", "always", "dummy")),
        still[2],
    ]
    assert started(tmp_path, caplog) == still  # the same file again: what has changed was said


def test_a_model_that_is_trained_here_is_known_by_its_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    network = """
[stream]
kind = "file"
path = "visits.csv"
label = "ill"
training = 40
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
classifiers = [{ name = "tree", model = "tree", train = [0, 40] }, { name = "yes", model = "always", label = "yes" }]
"""

    def write_rows(age: int) -> None:
        rows = [f"{n % 90},{'yes' if n % 90 > age else 'no'}\n" for n in range(100)]
        (tmp_path / "visits.csv").write_text("age,ill\n" + "".join(rows))

    write_network(tmp_path, network)
    said = []
    for age in (20, 20, 30):
        write_rows(age)
        said.append(started(tmp_path, caplog))
    assert said[:2] == [[], []]
    assert said[2] == ["classifier 'tree' is another model than at the last start; what was learnt about it is kept"]


def test_a_start_says_that_the_budget_is_another_and_keeps_what_was_spent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = """
[costs]
unit = 0.1
currency = "EUR"
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
score_local = "used"
classifiers = [{{ name = "young", model = "models:young", price = 0.0004 }}]
{budget}
"""
    found = []

    async def used(node: RunningSite) -> None:
        await node.classify([{"age": 5}] * 10)
        accounts = node.state.accounts
        found.append(None if accounts is None else accounts.spending(node.setup.money)[0].spent)

    said = []
    for budget in ("per_item = 0.0001", "per_item = 0.001", "at_most_per_second = { young = 5 }", ""):
        write_network(tmp_path, network.format(budget=f"[sites.budget]\n{budget}" if budget else ""))
        said.append(started(tmp_path, caplog, used if "per_item" in budget else nothing))
    assert found == [pytest.approx(0.004), pytest.approx(0.008)]
    assert said == [
        [],
        ["the budget is per_item 0.001 EUR now; it was per_item 0.0001 EUR, with 0.004 EUR spent"],
        ["the budget is at_most_per_second.young 5 now; it was per_item 0.001 EUR, with 0.008 EUR spent"],
        ["there is no budget now; it was at_most_per_second.young 5"],
    ]

    async def changed(node: RunningSite) -> None:
        await node.set_budget(Budget(total=2.5))

    write_network(tmp_path, network.format(budget="[sites.budget]\ntotal = 5"))
    assert started(tmp_path, caplog, changed) == ["the budget is total 5 EUR now; there was none before"]
    kept = "the budget is total 2.5 EUR, as it was set while the site ran; the file says total 5 EUR"
    assert started(tmp_path, caplog) == [kept]
    write_network(tmp_path, network.format(budget="[sites.budget]\ntotal = 6"))
    assert started(tmp_path, caplog) == ["the budget is total 6 EUR now; it was total 2.5 EUR, with 0 EUR spent"]
    assert started(tmp_path, caplog) == []
