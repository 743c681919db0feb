"""A scenario file is checked before anything runs, and every mistake in it is named with its key."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from cosend.config.scenario import built_in, load, parse
from cosend.core.policy.policies import POLICIES, CoS
from cosend.errors import ScenarioError, SettingError
from cosend.site.context import Context

GOOD = """
title = "Two sites"
seed = 3
call_cost = 0.1
label_delay = 2

[stream]
kind = "traffic"
items = 300
training = 600

[[context]]
kind = "previous_label"

[policy]
name = "CoS"
slices = 2

[[sites]]
name = "north"
[[sites.classifiers]]
name = "bayes"
model = "naive_bayes"
train = [0, 300]
cost = 0.05

[[sites]]
name = "south"
[[sites.classifiers]]
name = "alarm"
model = "always"
label = "attack"
"""

# what is changed -> (old text, new text, what the error must say)
MISTAKES: dict[str, tuple[str, str, list[str]]] = {
    "unknown key at the top": ("seed = 3", "sede = 3", ["sede"]),
    "unknown key of the stream": ("items = 300", "itmes = 300", ["stream.itmes"]),
    "unknown key of an axis": ('kind = "previous_label"', 'kind = "time"\nhorison = 3', ["1.horison", "'horizon'"]),
    "unknown key of a site": ('name = "south"', 'name = "south"\ncity = 1', ["sites.2.city"]),
    "unknown key of a classifier": ("cost = 0.05", "price = 0.05", ["sites.1.classifiers.1.price"]),
    "text for a number": ("items = 300", 'items = "many"', ["stream.items", "integer"]),
    "a number for text": ('title = "Two sites"', "title = 2", ["title", "string"]),
    "a list for a table": ("[policy]\n", "[[policy]]\n", ["policy"]),
    "a share of an item": ("items = 300", "items = 2.5", ["stream.items"]),
    "no items": ("items = 300", "items = 0", ["stream.items", "greater than or equal to 1"]),
    "negative seed": ("seed = 3", "seed = -1", ["seed", "greater than or equal to 0"]),
    "negative delay": ("label_delay = 2", "label_delay = -1", ["label_delay"]),
    "call cost above 1": ("call_cost = 0.1", "call_cost = 1.5", ["call_cost", "less than or equal to 1"]),
    "negative cost": ("cost = 0.05", "cost = -0.05", ["sites.1.classifiers.1.cost", "greater than or equal to 0"]),
    "two sites of a name": ('name = "south"', 'name = "north"', ["names", "north"]),
    "a classifier named as a site": ('name = "alarm"', 'name = "north"', ["names", "north"]),
    "two classifiers of a name": ('name = "alarm"', 'name = "bayes"', ["names", "bayes"]),
    "a name with a blank": ('name = "south"', 'name = "south pole"', ["sites.2.name"]),
    "unknown model": ('"naive_bayes"', '"forest"', ["sites.1.classifiers.1", "model", "random_tree"]),
    "no training rows": ("train = [0, 300]\n", "", ["sites.1.classifiers.1", "train"]),
    "training rows backwards": ("train = [0, 300]", "train = [300, 0]", ["sites.1.classifiers.1", "train"]),
    "training rows of three numbers": ("train = [0, 300]", "train = [0, 1, 2]", ["sites.1.classifiers.1.train"]),
    "trained beyond the training rows": ("[0, 300]", "[0, 601]", ["sites.1.classifiers.1.train", "601", "stream"]),
    "always without a label": ('label = "attack"\n', "", ["sites.2.classifiers.1", "label"]),
    "an axis without feature": ('kind = "previous_label"', 'scale = "log"', ["context.1", "feature"]),
    "time of day without feature": ('"previous_label"', '"time_of_day"', ["context.1", "feature"]),
    "a feature too much": ('"previous_label"', '"time"\nfeature = "count"', ["context.1", "feature"]),
    "unknown kind of axis": ('"previous_label"', '"moon"', ["context.1.kind", "time_of_day"]),
    "linear without a range": (
        'kind = "previous_label"', 'feature = "count"\nscale = "linear"', ["context.1", "range", "scale='rank'"]
    ),
    "unknown scale": ('kind = "previous_label"', 'feature = "count"\nscale = "root"', ["context.1.scale"]),
    "a range backwards": ('kind = "previous_label"', 'feature = "count"\nrange = [5, 1]', ["context.1", "range"]),
    "a log range of one logarithm": (
        'kind = "previous_label"',
        'feature = "count"\nscale = "log"\nrange = [1e16, 10000000000000002]',
        ["context.1", "range", "different logarithms"],
    ),
    "no axis": ('[[context]]\nkind = "previous_label"', "", ["context"]),
    "unknown policy option": ("slices = 2", "slises = 2", ["policy.slises", "exploration_exponent"]),
    "policy option out of range": ("slices = 2", "exploration_exponent = 1.4", ["policy", "exponent", "1.4"]),
    "policy option of a wrong type": ("slices = 2", 'slices = "two"', ["policy", "slices", "'two'"]),
    "unknown order": ("slices = 2", 'order = "sometimes"', ["policy", "order", "train_first"]),
    "a file without path": ('kind = "traffic"', 'kind = "file"\nlabel = "y"', ["stream", "path"]),
    "a file without label": ('kind = "traffic"', 'kind = "file"\npath = "a.csv"', ["stream", "label"]),
    "a label for generated traffic": ('kind = "traffic"', 'kind = "traffic"\nlabel = "y"', ["stream", "label"]),
    "unknown kind of stream": ('kind = "traffic"', 'kind = "tape"', ["stream.kind"]),
    "river without a dataset": ('kind = "traffic"', 'kind = "river"', ["stream", "dataset"]),
    "a policy without a name": ('name = "CoS"\nslices', "slices", ["policy.name", "needs its name"]),
    "unknown policy": ('name = "CoS"', 'name = "CoZ"', ["policy.name", "did you mean 'CoS'?"]),
    "more cells than there can be": ("slices = 2", "slices = 100000000000000000", ["policy", "slices", "at most"]),
    "a horizon without end": ("slices = 2", "horizon = 1" + 30 * "0", ["policy.horizon", "at most"]),
    "alpha without end": ("slices = 2", "alpha = 1e308", ["policy.alpha", "at most 10"]),
    "cells without end": ("slices = 2", "max_cells = 1" + 30 * "0", ["policy.max_cells", "at most"]),
    "a seed beyond 64 bits": ("seed = 3", "seed = 9223372036854775808", ["seed", "less than or equal"]),
    "items without end": ("items = 300", "items = 1" + 30 * "0", ["stream.items", "less than or equal"]),
    "a delay without end": ("label_delay = 2", "label_delay = 1" + 30 * "0", ["label_delay"]),
    "a title that moves the cursor": ('"Two sites"', r'"Two \u001b[2J sites"', ["title", "control characters"]),
    "a title that never ends": ('"Two sites"', f'"{"x" * 300}"', ["title", "at most 200"]),
    "a NUL in a path": (
        'kind = "traffic"',
        r'kind = "file"' + "\n" + r'path = "a\u0000.csv"' + '\nlabel = "y"',
        ["stream.path", "without a NUL character"],
    ),
    "a number that Python does not read": ("seed = 3", "seed = " + 5_000 * "9", ["not TOML", "digits"]),
    "brackets without end": ("seed = 3", "seed = " + 100_000 * "[", ["not TOML", "brackets"]),
    "braces without end": ("seed = 3", "seed = " + 100_000 * "{a=", ["not TOML", "brackets"]),
    "not TOML": ("seed = 3", "seed = ", ["not TOML", "line 3"]),
}  # fmt: skip


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new)


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as raised:
        parse(text, "test.toml")
    assert str(raised.value).startswith("test.toml has ")
    return raised.value.mistakes


def test_the_default_scenario_is_valid_and_is_what_the_readers_are_promised() -> None:
    scenario, folder = load(None)
    assert [site.name for site in scenario.sites] == ["school", "town", "seniors"]
    assert sum(len(site.classifiers) for site in scenario.sites) == 7
    assert scenario.stream is not None
    assert (scenario.stream.kind, scenario.stream.items, scenario.stream.changes) == ("clinics", 15_000, [7_500])
    assert scenario.policy is None
    assert folder == Path()


def test_built_in_scenarios_have_names_and_a_file_of_that_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(built_in()) == ["clinics", "traffic"]
    monkeypatch.chdir(tmp_path)
    assert load(Path("clinics")) == load(None)
    traffic, _ = load(Path("traffic"))
    assert (len(traffic.sites), traffic.policy and traffic.policy["name"]) == (4, "CoS")
    Path("traffic").write_text(GOOD)
    assert load(Path("traffic"))[0].seed == 3


def test_a_good_file_says_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    file.write_text(GOOD)
    scenario, folder = load(file)
    assert folder == tmp_path
    assert (scenario.seed, scenario.call_cost, scenario.label_delay) == (3, 0.1, 2)
    assert scenario.sites[0].classifiers[0].train == (0, 300)
    assert scenario.build_policy(500) == CoS(slices=2, horizon=500)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_key(mistake: str) -> None:
    old, new, words = MISTAKES[mistake]
    said = mistakes_of(changed(old, new))
    assert any(all(word in each for word in words) for each in said), said


def test_several_mistakes_in_several_places_are_all_named() -> None:
    text = changed("seed = 3", "seed = -3")
    text = changed("items = 300", 'items = "many"', text)
    text = changed("cost = 0.05", "cost = 5", text)
    text = changed('label = "attack"\n', "", text)
    text = changed('kind = "previous_label"', 'kind = "moon"', text)
    said = mistakes_of(text)
    keys = ("seed", "stream.items", "sites.1.classifiers.1.cost", "sites.2.classifiers.1", "context.1.kind")
    assert len(said) == len(keys)
    for key in keys:
        assert any(each.startswith(f"{key}: ") for each in said), key


def test_mistakes_that_concern_the_whole_file_are_all_named_too() -> None:
    """A double name, rows that are not there and a wrong option of the policy: none hides the others."""
    text = changed('name = "alarm"', 'name = "north"')
    text = changed("[0, 300]", "[0, 900]", text)
    text = changed("slices = 2", "slices = 0", text)
    said = "\n".join(mistakes_of(text))
    for word in ("'north' appears twice", "900", "policy.slices: slices must be"):
        assert word in said, said


def test_every_scenario_and_policy_of_the_documentation_is_valid() -> None:
    page = (Path(__file__).parents[2] / "docs" / "network-file.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks[:2]:
        parse(block, "docs/network-file.md")
    for block in blocks[2:]:
        parse(changed('[policy]\nname = "CoS"\nslices = 2\n', block), "docs/network-file.md")


def test_every_policy_and_option_stands_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "network-file.md").read_text()
    for name, kind in POLICIES.items():
        assert f"`{name}`" in page
        assert all(f"`{option}`" in page for option in signature(kind).parameters), name


@pytest.mark.parametrize(("given", "meant"), [("", "rank"), ("range = [0, 9]", "linear"), ('scale = "log"', "log")])
def test_a_feature_is_scaled_as_that_of_a_site_is(given: str, meant: str) -> None:
    scenario = parse(changed('kind = "previous_label"', f'feature = "count"\n{given}'), "test.toml")
    axis = scenario.context[0].build([], 1)
    assert isinstance(axis, Context)
    assert axis.scale == meant


def test_validate_says_that_a_file_is_good(tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    file.write_text(GOOD)
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{file}: good. 2 sites, 2 classifiers, 300 items.",
        "  north: bayes (naive_bayes)",
        "  south: alarm (always 'attack')",
        "  cosend run: ready",
        "  cosend serve: ready",
    ]


def test_validate_names_every_mistake_and_exits_with_2(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(changed("cost = 0.05", "cost = 5", changed("seed = 3", "sede = 3")))
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{file} has 2 mistakes:" in result.stderr
    assert "- sede: " in result.stderr
    assert "- sites.1.classifiers.1.cost: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b""])
def test_a_file_that_is_missing_or_no_text_or_empty_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "scenario.toml"
    if content is not None:
        file.write_bytes(content)
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert "mistake" in result.stderr


def test_a_scenario_without_end_is_refused() -> None:
    with pytest.raises(ScenarioError, match="longer than 10,000,000 characters"):
        load(Path("/dev/zero"))


@pytest.mark.parametrize("path", ["a\0.toml", Path("a\0.toml"), 5], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(SettingError, match="scenario must be the path of a file"):
        load(path)


def test_a_folder_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="directory"):
        load(tmp_path)
