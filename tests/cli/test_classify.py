"""`cosend classify` in a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from tests.cli.serving import NETWORK, write_network


def lines(*values: Any) -> str:
    return "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)


def item(age: float, name: str | None = None) -> dict[str, Any]:
    return {"features": {"age": age}, **({} if name is None else {"id": name})}


def test_every_line_gets_one_and_a_wrong_one_fails_alone(tmp_path: Path) -> None:
    write_network(tmp_path)
    given = lines(
        item(20, "a"),
        {"id": "a", "label": "ill"},
        item(500),
        "",
        "nonsense",
        item(80),
        {"id": "a", "label": "ill"},
        {"id": 3},
    )
    done = CliRunner().invoke(app, ["classify", str(tmp_path / "network.toml"), "--site", "north"], input=given)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 1
    assert [sorted(answer)[0] for answer in answers] == ["arm", "id", "error", "error", "arm", "id", "error"]
    assert answers[0]["id"] == "a"
    assert (answers[1]["result"], answers[5]["result"]) == ("learnt", "duplicate")
    assert answers[2]["error"].startswith("line 3: feature 'age' must be in [0, 100], got 500")
    assert answers[3]["error"].startswith("line 5: it is not JSON: ")  # an empty line is passed over, and counted
    assert answers[6]["error"] == "line 8: Expected `str | null`, got `int` - at `$.id`"


def test_a_line_says_what_its_decision_cost_in_money(tmp_path: Path) -> None:
    file = write_network(tmp_path, NETWORK.replace("[[context]]", "[costs]\nunit = 0.02\n[[context]]"))
    given = lines(
        *(item(20, name) for name in "ab"),
        {"id": "a", "score": 1, "price": 0.005},
        {"id": "b", "score": 1, "price": 0.03},
    )
    done = CliRunner().invoke(app, ["classify", str(file), "--site", "north"], input=given)
    *_, learnt, refused = [json.loads(line) for line in done.stdout.splitlines()]
    assert learnt == {"id": "a", "result": "learnt"}
    assert "line 4: the price of decision 'b' must be a number from 0 to the unit, 0.02" in refused["error"]


def test_a_site_hears_what_its_classifiers_say_and_its_log_says_so(tmp_path: Path) -> None:
    file = write_network(tmp_path)
    says = "".join(f'[[context]]\nkind = "says"\nclassifier = "{name}"\n' for name in ("young", "any"))
    file.write_text(file.read_text().replace("[[sites]]", f"{says}[[sites]]", 1))
    good = CliRunner().invoke(app, ["validate", str(file)])
    assert (good.exit_code, "cosend serve: ready" in good.stdout) == (0, True), good.output
    given = lines(item(20, "a"), {"id": "a", "label": "ill"}, item(80, "b"), {"id": "b", "label": "well"})
    command = ["classify", str(file), "--site", "north"]
    said = [CliRunner().invoke(app, command, input=part) for part in (given, lines(item(81, "c")))]
    assert [done.exit_code for done in said] == [0, 0], said
    (folder,) = (each for each in tmp_path.rglob("north") if each.is_dir())
    checked = CliRunner().invoke(app, ["verify", str(folder)])
    assert checked.exit_code == 0, checked.output
    rows = [json.loads(row) for row in CliRunner().invoke(app, ["export", str(folder)]).stdout.splitlines()]
    contexts = [row["context"] for row in rows]
    assert [each["what young says"] for each in contexts] == ["ill", "well", "well"]
    assert {each["what any says"] for each in contexts} == {None}  # it is a classifier of the other site
    file.write_text(file.read_text().replace('classifier = "any"', 'classifier = "old"'))
    wrong = CliRunner().invoke(app, ["validate", str(file)])
    assert wrong.exit_code == 2
    assert "context.3.classifier: must be a classifier that costs nothing" in " ".join(wrong.stderr.split())


@pytest.mark.claims
def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    visits = [item(float(7 * n % 100), f"visit-{n}") for n in range(150)]
    labels = [{"id": f"visit-{n}", "label": "ill" if 7 * n % 100 > 70 else "well"} for n in range(150)]
    both = [line for pair in zip(visits, labels, strict=True) for line in pair]
    network = NETWORK.replace('name = "north"', 'name = "north"\nlearnt = false')  # fits take as long as they take
    said = []
    for name, parts in (("one", [both]), ("two", [both[:190], both[190:]])):
        (tmp_path / name).mkdir()
        command = ["classify", str(write_network(tmp_path / name, network)), "--site", "north"]
        said.append("".join(CliRunner().invoke(app, command, input=lines(*part)).stdout for part in parts))
    assert said[0] == said[1]
    assert said[0].count("\n") == 300


def test_whoever_reads_may_stop(tmp_path: Path) -> None:
    write_network(tmp_path)
    (tmp_path / "items").write_text(lines(*[item(5.0)] * 5_000))
    with (tmp_path / "items").open() as source:
        process = subprocess.Popen(
            [sys.executable, "-m", "cosend.cli", "classify", "network.toml", "--site", "south"],
            cwd=tmp_path,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["label"]
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert b"Traceback" not in process.stderr.read()
        process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file here is always full")
def test_decisions_that_cannot_be_written_are_said_in_a_line(tmp_path: Path) -> None:
    write_network(tmp_path)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cosend.cli", "classify", "network.toml", "--site", "south"],
            cwd=tmp_path,
            input=lines(item(5.0)).encode(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"error: the decisions cannot be written (No space left on device)" in done.stderr
