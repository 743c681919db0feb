"""Tables and the first picture are what was recorded gives, and what was recorded is what the commands give."""

from __future__ import annotations

import copy
import json
import re
import runpy
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from cosend.report.verdict import verdict

ROOT = Path(__file__).parents[1]
RECORDS = sorted((ROOT / "research" / "results").glob("*.json"))
Tool = Callable[[str], Any]


@pytest.fixture(name="tool")
def tool_of(monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_tools"))
    return import_module


def test_every_table_of_a_page_is_made_of_what_was_recorded(tool: Tool) -> None:
    pages = tool("tables").pages()
    assert {path.name for path, _ in pages} == {"README.md", "index.md", "clinics.md", "lab-notes.md"}
    for (path, place), text in pages.items():
        assert f"<!-- {place} -->\n{text}<!-- end -->" in path.read_text(), f"make tables writes {path.name}: {place}"


def test_the_verdict_of_the_quick_start_is_what_was_recorded(tool: Tool) -> None:
    record = tool("recorded").read("clinics")["results"]
    result = {"overall": record["policies"], "policy": record["policy"], "is_default": True, "sites": [1, 2, 3]}
    said = verdict({**result, "seeds": [1, 2, 3, 4, 5]})
    assert f"\n![{said}](../images/report-top-light.png)\n" in (ROOT / "docs" / "start" / "quick-start.md").read_text()


def test_the_first_picture_is_made_of_what_was_recorded(tool: Tool) -> None:
    drawn = tool("hero").drawn(tool("recorded").read("clinics")["results"])
    assert drawn == (ROOT / "docs" / "images" / "run-reward.svg").read_text(), "make tables writes run-reward.svg"


def test_the_picture_makes_no_claim_that_its_numbers_do_not_bear(tool: Tool) -> None:
    record = copy.deepcopy(tool("recorded").read("clinics")["results"])
    assert re.search(r"drops to 0\.\d\d .* stays at 0\.\d\d", tool("hero").title(record)[1])
    record["around"][record["policy"]][1] -= 0.2
    with pytest.raises(SystemExit, match="does not hold"):
        tool("hero").drawn(record)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_when_where_and_how_it_was_measured(path: Path) -> None:
    record = json.loads(path.read_text())
    assert record.keys() - {"note"} == {"command", "date", "cores", "memory_gb", "results"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    program, what = re.split(r" +", record["command"])[:2]
    if program == "make":
        assert f"\n{what}:" in (ROOT / "Makefile").read_text()
    elif program == "cosend":
        assert what in {command.name for command in app.registered_commands}
    else:
        assert (ROOT / what).is_file()


def test_policies_are_tied_if_their_intervals_overlap(tool: Tool) -> None:
    row = {"reward_interval": 0.01, "error": 10.0, "sent": 20.0, "hindsight": False}
    clinics = {
        "policy": "ours",
        "policies": [
            {"policy": "ours", "mean_reward": 0.9, "behind": 0.0, "behind_interval": 0.0, **row},
            {"policy": "near", "mean_reward": 0.881, "behind": 0.019, "behind_interval": 0.006, **row},
            {"policy": "far", "mean_reward": 0.8, "behind": 0.1, "behind_interval": 0.02, **row},
            {"policy": "oracle", "mean_reward": 0.91, "behind": -0.01, "behind_interval": 0.02, **row}
            | {"hindsight": True},
        ],
    }
    lines = tool("tables").policies_table(clinics).splitlines()[2:]
    assert lines == [
        "| **ours** | **0.900 ± 0.010** | | 10.0% | 20% |",
        "| **near** | **0.881 ± 0.010** | 0.019 ± 0.006 | 10.0% | 20% |",
        "| far | 0.800 ± 0.010 | 0.100 ± 0.020 | 10.0% | 20% |",
        "| oracle (hindsight) | 0.910 ± 0.010 | -0.010 ± 0.020 | 10.0% | 20% |",
    ]


def test_folders_of_experiments_are_known_by_their_rows(tool: Tool, tmp_path: Path) -> None:
    places = {"scenario": "apart", "world": "eeg", "delay": 100, "cost": 0.05}
    values = {
        "best_local": 60.0,
        "grown": 70.0,
        "stack": 71.0,
        "net": 72.0,
        "sent": 5.0,
        "field": {"vw_squarecb": 50.0},
    }
    written = {
        "worlds": {
            "rows": [{**places, "seed": 0, **values}, {**places, "seed": 1, **values, "net": 74.0}],
            "settings": {"items": None},
        },
        "budgets": {
            "orders": 1,
            "rows": [
                {"recording": "val_k4", "event": "", "budget": 0.1, "score": 0.9, "beside_mixture": 0.1}
                | {"single": 0.7, "oracle": 0.95, "spent": 1.0, "most_spent": 1.1}
                | {"field": {"score": 0.85, "beside_mixture": 0.05, "spent": 0.4, "most_spent": 0.5}}
            ],
        },
        "speed": {"rows": [{"what": "a site", "measured": "3 us", "goal": "", "reached": ""}]},
    }
    for name, results in written.items():
        (tmp_path / "results.json").write_text(json.dumps(results))
        found, record = tool("recorded").of_folder(tmp_path)
        assert found == name
        if name == "worlds":
            (row,) = record["results"]["rows"]
            assert (row["net"], row["seeds"]) == (73.0, 2)
            assert record["command"].endswith('OPTIONS="--field --late 100 --cost 0.05 --scenario apart"')
            table = tool("tables").worlds_table(record["results"])
            assert "| apart | eeg | 60.0 | 50.0 (VW, SquareCB) | 70.0 | 71.0 | **73.0** | 5% |" in table
        if name == "budgets":
            assert "| 0.1 | 0.700 | 0.800 | 0.850 | **0.900** | 0.950 | 40% | 100% |" in tool("tables").budgets_table(
                record["results"]
            )
    (tmp_path / "results.json").write_text('{"rows": [{"other": 1}]}')
    with pytest.raises(SystemExit, match="of no experiment"):
        tool("recorded").of_folder(tmp_path)


def test_several_runs_of_the_benchmarks_show_the_least_and_the_most(tool: Tool, tmp_path: Path) -> None:
    records = []
    for run, ratio in enumerate((0.9, 1.1, 1.0)):
        told = f"{ratio} x items/s, bare: {ratio} times: {ratio}"
        rows = [{"what": what, "measured": told} for what, *_ in tool("tables").SPEEDS]
        (tmp_path / str(run)).mkdir()
        (tmp_path / str(run) / "results.json").write_text(json.dumps({"rows": rows}))
        records.append(tool("recorded").of_folder(tmp_path / str(run))[1])
    record = tool("recorded").together(records)
    assert record["results"]["rows"][0][1] == [each["results"]["rows"][0][1][0] for each in records]
    one, all_of_them = (tool("tables").speed_table(each["results"]) for each in (records[0], record))
    assert "| 0.90 |" in one
    assert "| ratio, 3 runs |" in all_of_them
    assert "| 0.90 to 1.10 |" in all_of_them
    assert (
        tool("recorded").together([{"command": "make worlds"}, {"command": "make worlds", "results": 1}])["results"]
        == 1
    )


def test_a_table_needs_its_place_on_the_page(tool: Tool, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- one -->\nold\n<!-- end -->\nafter\n")
    tool("tables").put(page, "one", "new\n")
    assert page.read_text() == "before\n<!-- one -->\nnew\n<!-- end -->\nafter\n"
    with pytest.raises(SystemExit, match="no place for a table called two"):
        tool("tables").put(page, "two", "new\n")


@pytest.mark.claims
def test_the_first_run_gives_what_is_recorded_and_the_reason_that_the_guide_quotes(tool: Tool, tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["run", "--markdown", "--out", str(tmp_path)]).stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert tool("recorded").clinics(results, printed) == tool("recorded").read("clinics")["results"]
    reason = tool("tables").first_reason(printed)
    page = (ROOT / "docs" / "guides" / "how-a-site-learns.md").read_text()
    assert f"<!-- a reason of cosend run -->\n{reason}<!-- end -->" in page


@pytest.mark.claims
def test_the_example_with_river_gives_what_is_recorded(tool: Tool, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "river_pipeline.py"))
    found = tool("recorded").image_segments(capsys.readouterr().out)
    assert found == tool("recorded").read("image_segments")["results"]
