"""Every Python block of the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend.config.contexts import AxisSetting
from cosend.config.network import NetworkSetting
from cosend.config.parts import Part
from cosend.config.scenario import Scenario, load
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.config.waiting import PatienceSetting
from cosend.experiments.scenario import run, world

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = ROOT / "docs" / "guides"  # test_guides.py does what they say, as a whole


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page.parent != GUIDES], ids=lambda page: page.name
)
def test_every_example_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, code in enumerate(blocks(page)):
        exec(compile(code, f"{page.name}, block {number}", "exec"), {})  # noqa: S102 - that is what this test is for


@pytest.mark.claims
def test_numbers_of_the_default_run_in_the_readme_are_those_it_gives() -> None:
    printed = {
        "ZoomingKLUCB": "ZoomingKLUCB, what a site uses unless told otherwise",
        "CellKLUCB": "CellKLUCB, an index policy in the cells of CoS",
        "CoS": "CoS, the paper's algorithm",
        "LinUCB": "LinUCB, all functions as flat arms",
        "previous label": "predicting the previous label, no classifier at all",
        "AdaBoost": "AdaBoost over all functions",
        "best fixed": "best single function, known beforehand",
        "oracle per cell": "best function of each cell, known beforehand",
    }
    scenario, folder = load(None)
    rows: list[dict[str, Any]] = []
    for seed in range(5):
        played = run.run(world.build(scenario.model_copy(update={"seed": seed}), folder)).played
        rows += run.summary(played)
    text = (ROOT / "README.md").read_text().replace("**", "")
    for policy, name in printed.items():
        error, reward, sent = (
            np.mean([row[key] for row in rows if row["policy"] == policy]) for key in ("error", "mean_reward", "sent")
        )
        assert f"| {name} | {error:.2f} | {reward:.3f} | {sent:.0f} |" in text, (policy, error, reward, sent)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


TABLES: dict[str, type[Part]] = {
    "At the top": Scenario,
    "`[patience]`": PatienceSetting,
    "`[network]`": NetworkSetting,
    "`[[context]]`": AxisSetting,
    "`[[sites]]`": SiteSetting,
    "`[[sites.classifiers]]`": ClassifierSetting,
}


@pytest.mark.parametrize("title", TABLES)
def test_every_key_of_a_network_file_is_documented(title: str) -> None:
    text = (ROOT / "docs" / "network-file.md").read_text()
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section, flags=re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"\w+", row)}
    tables = {name for name in TABLES[title].model_fields if f"{name}]" in text}  # these have sections of their own
    assert TABLES[title].model_fields.keys() - tables - named == set()
