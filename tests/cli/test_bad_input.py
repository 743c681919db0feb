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
name = "grown"
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
    assert called("validate", "good.toml").stdout.startswith("good.toml: good. 2 sites, 2 classifiers, 60 items.\n")
    result = called("run", "good.toml", "--out", "out")
    assert result.exit_code == 0, result.output


# what is wrong -> (rows of the data, the network file, what must be said)
WRONG: dict[str, tuple[str, str, list[str]]] = {
    "items beyond the file": (rows(99), GOOD, ["rows 0 to 99", "99 rows"]),
    "a site that is not there": (rows(where="west"), GOOD, ["stream.site", "'west'", "'north', 'south'"]),
    "a label that does not occur": (
        rows(),
        GOOD.replace('label = "p"', 'label = "P"'),
        ["sites.2.classifiers.1.label", "'P'", "'p', 'q'"],
    ),
    "a label of another type": (rows(label="01"), GOOD, ["sites.2.classifiers.1.label", "'p'; they are 0, 1"]),
    "no such context": (rows(), GOOD.replace('"a"', '"z"'), ["context.1.feature", "'z'", "'a', 'b'"]),
    "no such feature": (
        rows(),
        GOOD.replace("[0, 40]", '[0, 40]\nfeatures = ["b", "z"]'),
        ["sites.1.classifiers.1.features", "'z'"],
    ),
    "a context out of its range, late": (rows(number=lambda n: 20 * n), GOOD, ["item 12", "[0, 1000]", "1020"]),
    "a context of text": (rows(number=lambda n: f"x{n}"), GOOD, ["item 1", "'a' must be a finite number", "'x40'"]),
    "a previous label of one class": (
        rows(label="p"),
        GOOD.replace(CONTEXT, '[[context]]\nkind = "previous_label"\n'),
        ["context.1.kind", "'p'"],
    ),
    "numbers that a model cannot use": (rows(number=lambda n: f"{n}e300"), GOOD, ["'grown' cannot be trained"]),
    "labels without classes": (
        rows(label="pq").replace(",p,", ",0.25,").replace(",q,", ",0.5,"),
        GOOD.replace('label = "p"', "label = 0.25"),
        ["'grown' cannot be trained"],
    ),
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


def test_all_that_a_file_says_wrongly_about_its_stream_is_named_at_once(here: Path) -> None:
    text = GOOD.replace('"a"', '"z"').replace('label = "p"', 'label = "P"').replace('"north"', '"nord"')
    (here / "bad.toml").write_text(text)
    said = refused("validate", "bad.toml")
    assert "3 mistakes" in said
    for key in ("context.1.feature: ", "stream.site: ", "sites.2.classifiers.1.label: "):
        assert key in said


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize("path", ["a\0b.toml", "x" * 5_000 + ".toml", "nowhere.toml", ".", "\udcff.toml"], ids=ascii)
@pytest.mark.usefixtures("here")
def test_a_path_that_leads_nowhere_is_refused_in_short(command: str, path: str) -> None:
    assert len(refused(command, path)) < 6_000


@pytest.mark.parametrize("title", ["[/b]", ":smile:", "$x_{$", "<b>&"])
def test_a_title_is_printed_as_it_is(title: str, here: Path) -> None:
    (here / "good.toml").write_text(f"title = {title!r}\n{GOOD}")
    result = called("run", "good.toml", "--out", "out[/b]")
    assert result.exit_code == 0, result.output
    assert f"{title} \N{MIDDLE DOT} 60 items" in result.stdout
    assert "report: out[/b]/report.html" in result.stdout


@pytest.mark.parametrize("name", ["[/b]", "$x_{$", "a\\b", "</title>"])
def test_a_column_may_have_any_name(name: str, here: Path) -> None:
    (here / "rows.csv").write_text(rows().replace("a,b,y", f"{name},b,y"))
    (here / "good.toml").write_text(GOOD.replace('feature = "a"', f"feature = '{name}'"))
    result = called("run", "good.toml", "--out", "out")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("seed", [2**32 - 1, 2**32, 2**63 - 1])
@pytest.mark.usefixtures("here")
def test_a_seed_that_is_large_for_scikit_learn_is_played(seed: int) -> None:
    result = called("run", "good.toml", "--seed", str(seed))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--seed", str(2**63)], "--seed"),
        (["--seed", "-1"], "--seed"),
        (["--items", "1" + 30 * "0"], "--items"),
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
    assert refused("run", "good.toml") == "error: not enough memory for that; use fewer items\n"
