"""Whatever is wrong with what a user gives, a command says so in a line or two and ends with 2, and never hangs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import called, refused

pytestmark = pytest.mark.compiled

SITES = """
[[sites]]
name = "north"
[[sites.classifiers]]
name = "adults"
model = "tree"
train = [0, 40]
[[sites]]
name = "south"
[[sites.classifiers]]
name = "fixed"
model = "always"
label = "p"
"""
STREAM = '[stream]\nkind = "file"\npath = "rows.csv"\nlabel = "y"\nsite = "where"\ntraining = 40\nitems = 60\n'
CONTEXT = '[[context]]\nfeature = "a"\nrange = [0, 1000]\n'
GOOD = STREAM + CONTEXT + SITES


def rows(count: int = 100, number: Callable[[int], Any] = lambda n: n, label: str = "pq", where: str = "north") -> str:
    lines = [f"{number(n)},{n % 3},{label[n % len(label)]},{where}" for n in range(count)]
    return "\n".join(["a,b,y,where", *lines]) + "\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(rows())
    (tmp_path / "good.toml").write_text(GOOD)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_what_is_good_is_played() -> None:
    assert called("validate", "good.toml").stdout.startswith("good.toml: OK. 2 sites, 2 classifiers, 60 items.\n")
    result = called("run", "good.toml", "--out", "out")
    assert result.exit_code == 0, result.output


# what is wrong -> (rows of the data, the network file, what must be said)
WRONG: dict[str, tuple[str, str, list[str]]] = {
    "items beyond the file": (rows(99), GOOD, ["100 rows are wanted", "99"]),
    "a site that is not there": (rows(where="west"), GOOD, ["stream.site", "'west'", "'north', 'south'"]),
    "no such context": (rows(), GOOD.replace('"a"', '"z"'), ["context.1.feature", "'z'", "'a', 'b'"]),
    "a context out of its range, late": (rows(number=lambda n: 20 * n), GOOD, ["item 12", "[0, 1000]", "1020"]),
    "a context of text": (
        rows(number=lambda n: f"x{n}"),
        GOOD,
        ["item 1", "'a' must be a finite number", "'x40'", 'kind = "category"'],
    ),
    "a previous label of one class": (
        rows(label="p"),
        GOOD.replace(CONTEXT, '[[context]]\nkind = "previous_label"\n'),
        ["context.1.kind", "'p'"],
    ),
    "numbers that a model cannot use": (rows(number=lambda n: f"{n}e300"), GOOD, ["'adults' cannot be trained"]),
    "a dataset that is none": (
        rows(),
        '[stream]\nkind = "river"\ndataset = "__class__"\ntraining = 40\nitems = 6\n' + CONTEXT + SITES,
        ["no dataset '__class__'", "Phishing"],
    ),
    "more axes than cubes can split": (
        rows(),
        STREAM + 25 * CONTEXT + '[policy]\nname = "ZoomingKLUCB"\n' + SITES,
        ["policy", "at most 24"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_validate_refuses_what_run_refuses_and_says_the_same(case: str, here: Path) -> None:
    data, network, words = WRONG[case]
    (here / "rows.csv").write_text(data)
    (here / "bad.toml").write_text(network)
    said = refused("validate", "bad.toml")
    assert all(word in said for word in words), said
    assert refused("run", "bad.toml") == said


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize("path", ["a\0b.toml", "x" * 5_000 + ".toml", "nowhere.toml", ".", "\udcff.toml"], ids=ascii)
@pytest.mark.usefixtures("here")
def test_a_path_that_leads_nowhere_is_refused_in_short(command: str, path: str) -> None:
    assert len(refused(command, path)) < 6_000


@pytest.mark.parametrize(("name", "seed"), [("[/b]", 2**32 - 1), ("$x_{$", 2**32), ("a\\b</title>", 2**63 - 1)])
def test_titles_and_columns_have_any_name_and_a_seed_may_be_too_large_for_scikit_learn(
    name: str, seed: int, here: Path
) -> None:
    (here / "rows.csv").write_text(rows().replace("a,b,y", f"{name},b,y"))
    text = f"title = '{name}'\nseed = {seed}\n"
    (here / "good.toml").write_text(text + GOOD.replace('feature = "a"', f"feature = '{name}'"))
    result = called("run", "good.toml", "--out", "out[/b]")
    assert result.exit_code == 0, result.output
    assert f"{name} \N{MIDDLE DOT} 60 items" in result.stdout
    assert "report: out[/b]/report.html" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--seed", str(2**63)], "--seed"),
        (["--items", "61"], "rows.csv"),
        (["--out", "a\0b"], "--out"),
        (["--out", "rows.csv"], "--out"),
        (["--out", "rows.csv/below"], "--out"),
        (["--out", "x" * 5_000], "--out"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("here")
def test_options_out_of_bounds_are_refused_by_name(arguments: list[str], word: str) -> None:
    assert word in refused("run", "good.toml", *arguments)


@pytest.mark.parametrize("name", ["report.html", "results.json", "plots/flow.svg"])
def test_a_folder_in_the_place_of_a_result_is_found_before_anything_is_played(name: str, here: Path) -> None:
    (here / "out" / name).mkdir(parents=True)
    said = refused("run", "good.toml", "--out", "out")
    assert "--out must be a folder that can be written to" in said
    assert f"{Path(name).name} is a folder there" in said
    assert len(said.splitlines()) == 1


@pytest.mark.usefixtures("here")
def test_too_little_memory_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("cosend.run.prepare.prepare", full)
    assert refused("run", "good.toml") == "error: not enough memory; use fewer items\n"
