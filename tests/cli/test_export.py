"""`cosend export` as a user types it, over folders that running sites have left."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cosend.axes import AllFeatures, Confidence, Says
from cosend.cli.main import app
from cosend.errors import NoAnswer
from cosend.models.adapters import as_classifier
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.version import VERSION
from tests.cli.folders import a_folder, a_killed_folder, a_pruned_folder, contents, live

parquet = import_module("pyarrow.parquet")  # it has no types
COLUMNS = [
    *("number", "id", "at", "arm", "phase", "cell", "context", "propensity", "cost"),
    *("label", "label_of_arm", "answered_by", "labelled", "truth", "gain", "cost_paid", "labelled_at", "score"),
    "item",
]


def export(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, ["export", *map(str, arguments)])


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_folder(tmp_path_factory.mktemp("stopped") / "north")


def test_every_decision_is_a_row_with_its_label(stopped: Path) -> None:
    before = contents(stopped)
    result = export(stopped)
    rows = rows_of(result)
    assert contents(stopped) == before
    assert len(rows) == 100
    assert all(list(row) == COLUMNS for row in rows)
    assert [row["number"] for row in rows] == sorted({row["number"] for row in rows})
    assert 50 < sum(row["labelled"] for row in rows) < 100
    for row in rows:
        assert [row[name] is None for name in ("gain", "labelled_at", "truth")] == [not row["labelled"]] * 3
        if row["labelled"]:
            assert row["gain"] in (float(row["truth"] == row["label_of_arm"]), 0.25)
            assert row["labelled_at"] >= row["at"] - 1.0
    assert {row["phase"] for row in rows} <= {"train", "explore", "exploit"}
    assert {row["context"]["ward"] for row in rows} == {"A", "B"}
    assert all(0.0 <= row["context"]["age"] <= 1.0 for row in rows)
    assert {row["answered_by"] for row in rows} == {None, "learns"}
    assert any(row["label"] != row["label_of_arm"] for row in rows if row["answered_by"])
    named = [row["id"] for row in rows if row["id"].startswith("visit")]
    assert sorted(named) == sorted(f"visit {n}" for n in range(25))


def test_a_row_says_what_the_site_itself_says_of_a_decision(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []

    async def work(node: RunningSite) -> None:
        told.extend([await Inspection(node).decision(each) for each in await live(node, 0, 6)])

    rows = {row["id"]: row for row in rows_of(export(a_folder(tmp_path, work)))}
    assert len(told) == len(rows) == 24
    for facts in told:
        row = rows[facts["id"]]
        assert list(row["context"].values()) == facts["context"]
        for name in ("number", "at", "arm", "phase", "cell", "propensity", "cost", "label", "labelled", "truth"):
            assert row[name] == facts[name], name


def test_parquet_has_the_same_rows(stopped: Path, tmp_path: Path) -> None:
    lines = rows_of(export(stopped))
    result = export(stopped, "--to", tmp_path / "all.parquet")
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert f"100 decisions written to {tmp_path / 'all.parquet'}" in result.stderr
    rows = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row | {"item": json.loads(row["item"])} for row in rows] == lines
    assert os.listdir(tmp_path) == ["all.parquet"]


@pytest.mark.parametrize(
    ("labels", "kind", "told"),
    [
        ([1, 2.5, None], "double", [1.0, 2.5, None]),
        ([True, False, True], "bool", [True, False, True]),
        ([True, "yes", None], "string", ["true", '"yes"', None]),
        ([2**60, 5, 1], "string", [str(2**60), "5", "1"]),
    ],
)
def test_labels_of_any_kind_in_parquet(labels: list[Any], kind: str, told: list[Any], tmp_path: Path) -> None:
    async def work(node: RunningSite) -> None:
        decided: list[Any] = await node.classify([{"age": n, "ward": "A"} for n in range(3)])
        await node.label([Given(each.id, truth) for each, truth in zip(decided, labels, strict=True)])

    models = {"echo": as_classifier(lambda item: labels[item["age"]])}
    folder = a_folder(tmp_path / "north", work, classifiers=models, costs={})
    assert export(folder, "--to", tmp_path / "all.parquet").exit_code == 0
    table = parquet.read_table(tmp_path / "all.parquet")
    for name in ("label", "label_of_arm", "truth"):
        assert str(table.schema.field(name).type) == kind
        assert table.column(name).to_pylist() == told


def test_opinions_are_columns_that_may_be_empty(tmp_path: Path) -> None:
    async def work(node: RunningSite) -> None:
        await node.classify([{"age": n} for n in (20, 70)])

    models = {"sure": as_classifier(lambda item: ("ill", 0.75) if item["age"] > 60 else "well")}
    axes = [Confidence("sure"), Says("sure"), Says("stack")]
    folder = a_folder(tmp_path / "north", work, classifiers=models, costs={}, axes=axes)
    contexts = [
        {"confidence of sure": None, "what sure says": "well", "what stack says": "well"},
        {"confidence of sure": 0.75, "what sure says": "ill", "what stack says": "ill"},
    ]
    assert [row["context"] for row in rows_of(export(folder))] == contexts
    assert export(folder, "--to", tmp_path / "all.parquet").exit_code == 0
    assert [row["context"] for row in parquet.read_table(tmp_path / "all.parquet").to_pylist()] == contexts


def test_raw_events(stopped: Path, tmp_path: Path) -> None:
    result = export(stopped, "--events", "--to", tmp_path / "events.jsonl")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(len(lines)))
    assert lines[0]["event"] == "Started"
    assert {"Chosen", "Answered", "Failed", "Labelled", "Named", "ModeChanged"} <= {line["event"] for line in lines}
    result = export(stopped, "--events", "--to", tmp_path / "events.parquet")
    assert (result.exit_code, "events differ too much" in result.stderr) == (2, True)


def test_what_was_removed_is_null_and_said(tmp_path: Path) -> None:
    folder = a_pruned_folder(tmp_path)
    result = export(folder)
    rows = rows_of(result)
    assert "note: the events before number" in result.stderr
    assert 0 < len(rows) < 120 - 40
    (late,) = [row for row in rows if row["arm"] is None]  # its label came after its choice was removed
    assert (late["id"], late["truth"], late["labelled"], late["label"]) == ("other/0", "ill", True, None)
    assert late["context"] == {"age": None, "ward": None}
    assert export(folder, "--to", tmp_path / "all.parquet").exit_code == 0
    found = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row | {"item": row["item"] and json.loads(row["item"])} for row in found] == rows
    events = rows_of(export(folder, "--events"))
    assert events[0]["number"] == 0
    assert events[1]["number"] > 1
    assert [line["number"] for line in events[1:]] == list(range(events[1]["number"], events[-1]["number"] + 1))


def test_a_number_that_a_client_took_as_a_name_is_not_that_of_another_decision(tmp_path: Path) -> None:
    async def work(node: RunningSite) -> None:
        items = [{"age": n, "ward": "A"} for n in range(4)]
        told.extend(each.id for each in await node.classify(items[:1], ["3"]) if not isinstance(each, NoAnswer))
        told.extend(each.id for each in await node.classify(items[1:]) if not isinstance(each, NoAnswer))

    told: list[str] = []
    rows = rows_of(export(a_folder(tmp_path, work, classifiers={"any": as_classifier(lambda item: 1)}, costs={})))
    assert [row["id"] for row in rows] == told == ["3", "d-2", "d-3", "d-4"]


def test_a_site_that_was_killed_and_one_that_runs(tmp_path: Path) -> None:
    folder = a_killed_folder(tmp_path / "killed")
    before = contents(folder)
    assert len(rows_of(export(folder))) == 100
    assert contents(folder) == before

    async def work(node: RunningSite) -> None:
        await live(node, 0, 3)
        results.append(await asyncio.to_thread(export, node.folder))
        await live(node, 3, 4)

    results: list[Result] = []
    a_folder(tmp_path / "runs", work)
    assert len(rows_of(results[0])) == 12
    assert "note: the site is running" in results[0].stderr


def test_a_file_that_is_there_is_only_written_over_if_that_is_wanted(stopped: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    target.write_text("precious")
    result = export(stopped, "--to", target)
    assert (result.exit_code, "--force overwrites it" in result.stderr) == (2, True)
    assert target.read_text() == "precious"
    assert export(stopped, "--to", target, "--force").exit_code == 0
    assert len(target.read_text().splitlines()) == 100


def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "north")
    with sqlite3.connect(folder / "events.sqlite") as connection:
        connection.execute("UPDATE events SET event = x'00' WHERE number = (SELECT MAX(number) FROM events)")
    connection.close()
    for name in ("all.jsonl", "all.parquet"):
        result = export(folder, "--to", tmp_path / name)
        assert result.exit_code == 2
        assert isinstance(result.exception, SystemExit)
        assert "damaged, event" in result.stderr
    assert os.listdir(tmp_path) == ["north"]


@pytest.mark.parametrize(
    ("target", "said"),
    [("all.csv", "ends in .jsonl or .parquet"), ("no/all.jsonl", "in an existing folder"), (".", "ends in .jsonl")],
)
def test_targets_that_are_not_allowed(target: str, said: str, stopped: Path, tmp_path: Path) -> None:
    result = export(stopped, "--to", tmp_path / target)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
    nothing = export(tmp_path / "nothing", "--to", tmp_path / "all.jsonl")
    assert (nothing.exit_code, "not the folder of a site" in nothing.stderr) == (2, True)
    assert os.listdir(tmp_path) == []


def test_a_reader_that_has_had_enough_is_no_error(stopped: Path) -> None:
    command = [sys.executable, "-m", "cosend.cli", "export", str(stopped)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 - our own
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 0, said
    assert "Traceback" not in said
    assert "rror" not in said


def test_without_pyarrow_it_says_what_to_install(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = export(stopped, "--to", tmp_path / "all.parquet")
    assert (result.exit_code, "pip install '.[files]' in a checkout of cosend" in result.stderr) == (2, True), (
        result.output
    )


@pytest.mark.parametrize("items", [0, 3, 140])
def test_a_site_without_a_context_is_exported_however_little_it_has_seen(items: int, tmp_path: Path) -> None:
    """Before 128 items no feature has an axis, and Parquet knows no column that holds nothing at all."""

    async def work(node: RunningSite) -> None:
        if items:
            await node.classify([{"age": n, "ward": "A"} for n in range(items)])

    models = {"one": as_classifier(lambda item: "ill"), "two": as_classifier(lambda item: "well")}
    folder = a_folder(tmp_path / "north", work, classifiers=models, axes=[AllFeatures()], costs={})
    result = export(folder, "--to", tmp_path / "x.parquet")
    assert result.exit_code == 0, result.output
    assert not items or "join these rows with your own by `id`" in " ".join(result.stderr.split())
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.column_names == COLUMNS
    rows = table.to_pylist()
    assert [row["number"] for row in rows] == [row["number"] for row in rows_of(export(folder))]
    assert len(rows) == items
    assert all(row["item"] is None for row in rows)  # the log has no features
    assert all(row["context"]["age"] is not None for row in rows[128:])


def test_an_export_says_what_made_it_and_of_what(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["cosend", "export", "a folder"])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    said = []
    for name in ("x.jsonl", "x.parquet"):
        assert export(stopped, "--to", tmp_path / name).exit_code == 0
    said.append(json.loads((tmp_path / "x.jsonl.about.json").read_text()))
    said.append(json.loads(parquet.read_schema(tmp_path / "x.parquet").metadata[b"cosend"]))
    assert said[0] == said[1]
    made = {"version": VERSION, "date": "1970-01-01T00:00:00+00:00", "command": "cosend export 'a folder'"}
    assert said[0] == said[0] | made | {"site": "north", "seeds": [0]}
    assert len(said[0]["data"]) == 64
