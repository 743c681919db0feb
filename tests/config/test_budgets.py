"""Budgets in a network file: what a site may spend, and every mistake with its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosend import Budget, MixedViews, Money
from cosend.config.build import Built
from cosend.config.network_file import load
from cosend.server.from_file import read_site
from tests.cli.commands import called

HEAD = """
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
score_local = "used"
"""
MODELS = """
[[sites.classifiers]]
name = "young"
model = "return:young"
[[sites.classifiers]]
name = "old"
model = "return:old"
cost = 0.1
"""
COSTS = '[costs]\nunit = 0.02\ncurrency = "USD"\n'


def written(folder: Path, text: str) -> Path:
    (folder / "network.toml").write_text(text)
    return folder / "network.toml"


def test_a_site_has_the_budget_of_the_file_or_one_of_its_own(tmp_path: Path) -> None:
    whole = "[budget]\nper_item = 0.001\nper_day = 3\ncalls = { old = { per_hour = 10 } }\n"
    whole += "at_most_per_second = { old = 2, young = 5.5 }\n"
    file = written(tmp_path, COSTS + whole + HEAD + MODELS)
    setup = read_site(file, None, 7).setup
    rates = {"old": 2, "young": 5.5}
    assert setup.budget == Budget(per_item=0.001, per_day=3, calls={"old": {"per_hour": 10}}, at_most_per_second=rates)
    assert isinstance(setup.policy, MixedViews)
    assert setup.money == Money(0.02, "USD")
    own = "budget = { per_hour = 0.5, total = 25, calls = { old = { total = 9 } } }\n"
    network, folder = load(written(tmp_path, COSTS + whole + HEAD + own + MODELS))
    site = Built(network, folder, None).site("north")
    assert [(each.limit, each.amount, each.unit) for each in site.spending()] == [
        ("per_hour", 0.5, "USD"),
        ("total", 25.0, "USD"),
        ("total", 9.0, "calls"),
    ]
    assert site.learner.policy.mixes
    without = read_site(written(tmp_path, HEAD + MODELS), None, 7).setup
    assert (without.budget, without.policy) == (None, None)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[budget]\n", "at least one of per_item, per_hour, per_day, total, calls and at_most_per_second"),
        ("[budget]\nper_item = 0\n", "budget.per_item"),
        ("[budget]\nper_week = 1\n", "budget.per_week"),
        ("[budget]\ntotal = -1\n", "budget.total"),
        ("[budget]\ntotal = 5\n", "budget.total: is in money: needs a table [costs] with unit"),
        ("[budget]\ncalls = { old = {} }\n", "at least one of"),
        ("[budget]\ncalls = { nobody = { per_item = 1 } }\n", "budget.calls.nobody: must be a classifier or a site"),
        ("[budget]\nat_most_per_second = { nobody = 1 }\n", "budget.at_most_per_second.nobody: must be a classifier"),
        ("[budget]\nper_item = 0.1\n", "budget.per_item: is in money: needs a table [costs] with unit"),
        (COSTS + "[budget]\nper_item = 0.1\n[policy]\nname = 'CellKLUCB'\n", "budget: needs the policy MixedViews"),
    ],
)
def test_a_budget_that_is_wrong_is_named_with_its_key(tmp_path: Path, table: str, said: str) -> None:
    found: Any = called("validate", written(tmp_path, table + HEAD + MODELS))
    assert found.exit_code != 0
    assert said in " ".join(found.output.split()), found.output
