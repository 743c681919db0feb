"""The network file of the documentation, as a user runs and checks it, and what is said of files that are wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.classifiers import models
from tests.cli.commands import called, refused, result_of

pytestmark = pytest.mark.compiled

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "network-file.md").read_text()
NETWORK = re.findall(r"^```toml\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)[0]
MODULE = """
from river.naive_bayes import GaussianNB

def young(item):
    return int(item["pressure"] > 140)

def any_age(item):
    return int(item["age"] > 60)

def online():
    return GaussianNB()
"""
PLAY = ("--stream", "visits.csv", "--label", "ill")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay everything beside the file, as the page says, and be there."""
    draw = np.random.default_rng(0)
    age, pressure = draw.integers(0, 100, 120), draw.normal(130, 15, 120).round(1)
    ill = np.where(age < 50, pressure > 140, age > 70).astype(int)
    rows = [f"{a},{p},{y}" for a, p, y in zip(age.tolist(), pressure.tolist(), ill.tolist(), strict=True)]
    (tmp_path / "visits.csv").write_text("\n".join(["age,pressure,ill", *rows]) + "\n")
    models.write_skops(tmp_path, models.LogisticRegression().fit(np.column_stack([age, pressure]), ill))
    (tmp_path / "models.py").write_text(MODULE)
    (tmp_path / "network.toml").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def change(here: Path, old: str, new: str) -> None:
    text = (here / "network.toml").read_text()
    assert old in text
    (here / "network.toml").write_text(text.replace(old, new))


@pytest.mark.usefixtures("here")
def test_the_network_of_the_page_runs_as_it_stands() -> None:
    shown = result_of("network.toml", *PLAY)
    assert (shown["items"], shown["sites"], shown["policy"]) == (120, ["north", "south"], "ZoomingKLUCB")
    assert shown["notes"] == []
    assert "oracle" in shown["error_curves"]
    rows = Path("visits.csv").read_text().splitlines()
    places = [f"{row},{'south' if n % 4 else 'north'}" for n, row in enumerate(rows[1:])]
    Path("visits.csv").write_text("\n".join([f"{rows[0]},where", *places]) + "\n")
    shown = result_of("network.toml", *PLAY, "--site-column", "where", "--items", "60")
    assert shown["items"] == 60
    assert shown["phases"]["north"]["item"][-1] <= 15


@pytest.mark.usefixtures("here")
def test_validate_says_what_is_there_and_for_which_commands_as_the_page_says() -> None:
    (said,) = re.findall(r"^```(?:text)?\n(network\.toml: OK.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert called("validate", "network.toml").stdout == said
    with_stream = called("validate", "network.toml", *PLAY).stdout
    assert with_stream.startswith("network.toml: OK. 2 sites, 3 classifiers, 120 items.\n")
    assert "  cosend run: ready\n" in with_stream


def test_a_column_of_predictions_can_be_played_and_not_served(here: Path) -> None:
    change(here, '"models:any_age"', '"column:said"')
    rows = (here / "visits.csv").read_text().splitlines()
    (here / "visits.csv").write_text("\n".join([f"{rows[0]},said", *(f"{row},1" for row in rows[1:])]) + "\n")
    assert called("run", "network.toml", *PLAY).exit_code == 0
    said = refused("validate", "network.toml")
    assert "sites.2.classifiers.1.model: 'column:said'" in said
    assert "stream: there is no stream: give --stream FILE --label COLUMN, or a table [stream]" in said
    lines = called("validate", "network.toml", *PLAY).stdout.splitlines()
    assert lines[-1].startswith("  cosend serve: no, sites.2.classifiers.1.model: 'column:said'")
    assert "any (column 'said' of the stream)" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--stream", "visits.csv"], ["--label", "with --stream"]),
        (["--label", "ill"], ["--label", "with --stream"]),
        ([*PLAY, "--site-column", "nowhere"], ["no such site column"]),
        (["--stream", "nowhere.csv", "--label", "ill"], ["nowhere.csv", "no such file"]),
        (["--stream", "visits.csv", "--label", "sick"], ["'sick'", "no such label column", "'ill'"]),
        (["--stream", "models.py", "--label", "ill"], ["unsupported file type", ".parquet"]),
        ([*PLAY, "--items", "121"], ["the file has 120"]),
    ],
    ids=str,
)
@pytest.mark.usefixtures("here")
def test_a_stream_that_cannot_be_used_is_refused_by_run_and_validate(arguments: list[str], words: list[str]) -> None:
    said = refused("run", "network.toml", *arguments)
    assert all(word in said for word in words), said
    if "--items" not in arguments:
        assert refused("validate", "network.toml", *arguments) == said


# what is changed in the file -> what must be said, by validate alone and by run with a stream
WRONG: dict[str, tuple[str, str, list[str]]] = {
    "no such file": ('"old.skops"', '"new.skops"', ["sites.1.classifiers.2.model: 'new.skops': there is no file"]),
    "no such module": ('"models:young"', '"modls:young"', ["sites.1.classifiers.1.model: ", "no installed module"]),
    "a file that is none": ('"old.skops"', '"visits.csv.skops"', ["sites.1.classifiers.2.model: ", "not a readable"]),
    "a pickle": ('"old.skops"', '"old.pkl"', ["sites.1.classifiers.2.model: ", "trusted = true", "skops.io.dump"]),
    "a tree without trust": ('"old.skops"', '"tree.skops"', ["sites.1.classifiers.2.model: ", "_tree.Tree"]),
    "a module that fails": ('"models:young"', '"broken:x"', ["sites.1.classifiers.1.model: ", "ZeroDivisionError"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_model_that_cannot_be_loaded_is_named_with_its_key_and_no_traceback(case: str, here: Path) -> None:
    old, new, words = WRONG[case]
    models.write_pickle(here, models.tree())
    models.write_skops(here, models.DecisionTree().fit([[0, 1], [1, 0]], [0, 1]), "tree.skops")
    (here / "visits.csv.skops").write_text("age,pressure\n")
    (here / "broken.py").write_text("x = 1 / 0\n")
    change(here, old, new)
    for said in (refused("validate", "network.toml"), refused("run", "network.toml", *PLAY)):
        assert all(word in said for word in words), said


def test_a_tree_plays_when_it_is_trusted_and_so_does_onnx(here: Path) -> None:
    fitted = models.DecisionTree(max_depth=2).fit([[20, 120], [80, 120], [30, 150], [75, 150]], [0, 1, 1, 1])
    models.write_skops(here, fitted, "tree.skops")
    models.write_onnx(here, fitted, np.zeros((1, 2), np.float32))
    change(here, '"old.skops"', '"tree.skops"\ntrusted = true')
    change(here, '"models:any_age"', '"old.onnx"')
    found = called("validate", "network.toml").stdout
    assert "old (DecisionTreeClassifier from tree.skops)" in found
    assert "any (OnnxTable from old.onnx)" in found
    result = called("run", "network.toml", *PLAY)
    assert result.exit_code == 0, result.output


def test_a_model_that_fails_to_learn_is_said_in_a_line(here: Path) -> None:
    (here / "stubborn.py").write_text(
        "class Stubborn:\n    learns = True\n    def predict(self, items):\n        return [1] * len(items)\n"
        "    def learn(self, item, label):\n        raise RuntimeError('no more')\n"
    )
    change(here, '"models:young"', '"stubborn:Stubborn"')
    result = called("run", "network.toml", *PLAY)
    assert result.exit_code == 2, result.output
    assert result.stderr == "error: classifier 'young' failed to learn: RuntimeError: no more\n"
