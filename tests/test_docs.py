"""Every Python block of the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from cosend.config.contexts import AxisSetting
from cosend.config.network import NetworkSetting
from cosend.config.parts import Part
from cosend.config.scenario import Scenario
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.config.waiting import PatienceSetting

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
def test_table_and_picture_of_the_first_run_in_the_readme_are_what_the_command_gives(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["run", "--markdown", "--out", str(tmp_path)]).stdout
    assert f"<!-- cosend run --markdown -->\n{printed}<!-- end -->" in (ROOT / "README.md").read_text()
    drawn = (tmp_path / "plots" / "reward.svg").read_text()
    assert drawn == (ROOT / "docs" / "images" / "run-reward.svg").read_text()


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
