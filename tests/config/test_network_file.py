"""A network file: what every key means, what it is without it, and every mistake, named with its key."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend import MixedViews, Patience, Site, ZoomingKLUCB
from cosend.algorithm.policies import POLICIES, CoS
from cosend.axes import Feature
from cosend.cli.main import app
from cosend.config.network_file import NetworkFile, built_in, load, parse, with_stream
from cosend.errors import NetworkFileError, SettingError

PAGE = Path(__file__).parents[2] / "docs" / "network-file.md"
NETWORK = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)[0]  # that of the page
TOP, AXIS, NORTH, SOUTH = "call_cost = 0.05", "range = [0, 100]", "port = 8801", "port = 8802"
YOUNG, OLD, ANY = 'model = "models:young"', 'model = "old.skops"', "cost = 0.01"
AGE = 'feature = "age"\nrange = [0, 100]'  # the whole axis
SITE_1, FIRST, SECOND = "sites.1", "sites.1.classifiers.1", "sites.1.classifiers.2"

# what is wrong -> (a line, what is put below it or in its place, what the mistake must begin with and hold)
MISTAKES: dict[str, tuple[str, str, str, list[str]]] = {
    "a key with a slip": (TOP, "+lables = [0, 1]", "lables: ", ["did you mean 'labels'?", "strict_labels"]),
    "a key of an axis": (AXIS, "+hiden = true", "context.1.hiden: ", ["did you mean 'hidden'?"]),
    "a key of a site": (NORTH, "+prot = 1", f"{SITE_1}.prot: ", ["did you mean 'port'?", "learns_from"]),
    "a key of a classifier": (YOUNG, "+trustd = true", f"{FIRST}.trustd: ", ["did you mean 'trusted'?"]),
    "a key of patience": (TOP, "+patience = {max_age = 3}", "patience.max_age: ", ["wait_limit, max_pending, overdue"]),
    "labels that are one": (TOP, "+labels = [1]", "labels: ", ["at least 2"]),
    "labels that are equal": (TOP, "+labels = [1, 1.0]", "labels: ", ["different"]),
    "a label that is none": (
        YOUNG, 'model = "always"\nlabel = "x"', f"{FIRST}.label: ", ["'x' is not one of the labels, 'ill', 'well'"]
    ),
    "tries below 0": (TOP, "+retries = -1", "retries: ", ["greater than or equal to 0"]),
    "a word for a truth value": (TOP, '+strict_labels = "yes"', "strict_labels: ", ["boolean"]),
    "a wait of nothing": (TOP, "+patience = {wait_limit = 0}", "patience.wait_limit: ", ["at least 1, got 0"]),
    "a gain above 1": (TOP, "+patience = {overdue = 1.5}", "patience.overdue: ", ["[0, 1]", "1.5"]),
    "patience that is a number": (TOP, "+patience = 3", "patience: ", ["must be a table", "3"]),
    "hidden without a feature": (
        AGE, 'kind = "time"\nhidden = true', "context.1: ", ["hidden is for"]
    ),
    "a horizon of a feature": (AXIS, "+horizon = 5", "context.1: ", ["horizon is for kind 'time'"]),
    "a category with a range": (AXIS, '+kind = "category"', "context.1: ", ["not for kind 'category'"]),
    "port 0": (NORTH, "port = 0", f"{SITE_1}.port: ", ["greater than or equal to 1"]),
    "a port twice": (SOUTH, "port = 8801", "sites.2.port: ", ["8801 is the port of 'north'"]),
    "a host with a blank": (NORTH, '+host = "a b"', f"{SITE_1}.host: ", ["pattern"]),
    "a call above 1": (NORTH, "+call_cost = 1.5", f"{SITE_1}.call_cost: ", ["less than or equal to 1"]),
    "no model": (YOUNG, "", f"{FIRST}.model: ", ["is required"]),
    "a model with a slip": (YOUNG, 'model = "naive_bays"', f"{FIRST}.model: ", ["did you mean 'naive_bayes'?"]),
    "a model of another type": (OLD, 'model = "old.txt"', f"{SECOND}.model: ", [".skops, .onnx", "'old.txt'"]),
    "a column without a name": (YOUNG, 'model = "column:"', f"{FIRST}.model: ", ["column:NAME"]),
    "features of a column": (OLD, 'model = "column:said"', f"{SECOND}: ", ["features are for models"]),
    "a feature twice": ('"pressure"]', '"age"]', f"{SECOND}.features: ", ["once"]),
    "a hidden feature that is named": (AXIS, "+hidden = true", f"{SECOND}.features: ", ["'age' is hidden"]),
    "rows for a function": (YOUNG, "+train = [0, 5]", f"{FIRST}: ", ["train and train_on are for models by name"]),
    "rows backwards": (YOUNG, 'model = "tree"\ntrain = [5, 0]\ntrain_on = "own"', f"{FIRST}: ", ["at least one row"]),
    "a label of a file": (OLD, '+label = "ill"', f"{SECOND}: ", ["label is for model 'always'"]),
    "trust in a function": (YOUNG, "+trusted = true", f"{FIRST}: ", ["trusted is for files", ".joblib"]),
    "features of a vote": (OLD, 'model = "vote"', f"{SECOND}: ", ["a vote sees", "no features"]),
    "over without a vote": (YOUNG, '+over = ["old"]', f"{FIRST}: ", ["over is for model 'vote'"]),
    "no time at all": (YOUNG, "+limit_s = 0", f"{FIRST}.limit_s: ", ["greater than 0"]),
    "a stream without a label": (TOP, '+stream = {kind = "file", path = "a.csv"}', "stream: ", ["path and label"]),
}  # fmt: skip


def changed(line: str, below: str, text: str = NETWORK) -> str:
    """Return a file with something below a line, or in its place."""
    assert line in text
    return text.replace(line, f"{line}\n{below[1:]}" if below.startswith("+") else below, 1)


def network(*changes: tuple[str, str]) -> NetworkFile:
    text = NETWORK
    for change in changes:
        text = changed(*change, text)
    return parse(text, "network.toml")


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_with_its_key(case: str) -> None:
    line, below, start, words = MISTAKES[case]
    text = NETWORK if "labels" in below else f'labels = ["ill", "well"]\n{NETWORK}'
    with pytest.raises(NetworkFileError) as raised:
        parse(changed(line, below, text), "network.toml")
    (said,) = [each for each in raised.value.mistakes if each.startswith(start)]
    assert all(word in said for word in words), said


def test_a_mistake_says_what_was_given_unless_a_password_may_be_in_it() -> None:
    text = f'[network]\nservers = "nats://me:secret@north:4222"\n\n{changed(NORTH, "port = 0")}'
    with pytest.raises(NetworkFileError) as raised:
        parse(text, "network.toml")
    said = "\n".join(raised.value.mistakes)
    assert "sites.1.port: must be greater than or equal to 1, got 0" in said
    assert "network.servers: must be a valid list" in said
    assert "secret" not in said


def test_the_network_of_the_page_says_what_it_says() -> None:
    found = network()
    north, south = found.sites
    assert (north.port, south.port, north.host) == (8801, 8802, None)
    assert [(each.name, each.kind) for each in north.classifiers] == [("young", "module"), ("old", "file")]
    assert north.classifiers[1].features == ["age", "pressure"]
    assert (south.classifiers[0].cost, south.classifiers[0].limit_s) == (0.01, 1.0)
    assert found.call_costs() == {"north": 0.05, "south": 0.05}
    assert found.build_policy(None) == ZoomingKLUCB()
    assert found.patience == Patience()
    assert found.serving_mistakes() == []
    assert found.hidden() == []


def test_without_a_table_the_policy_is_that_of_a_site() -> None:
    plain = network(('[policy]\nname = "ZoomingKLUCB"', ""))
    assert plain.build_policy(300) is None
    for score_local in (None, "used", "all"):
        setting = plain.sites[0].model_copy(update={"score_local": score_local})
        site = Site("s", classifiers={"a": str}, context=Feature("x"), score_local=score_local)
        assert plain.policy_of(setting, None) == (site.learner.policy, site.score_local)
        assert site.learner.policy == (ZoomingKLUCB() if score_local == "used" else MixedViews(max_cells=200_000))
    assert plain.policy_of(plain.sites[0], CoS()) == (CoS(), "used")


def test_a_policy_of_equal_cells_guesses_its_horizon_where_there_is_no_stream() -> None:
    found = network(('name = "ZoomingKLUCB"', 'name = "CoS"'))
    assert found.build_policy(300) == CoS(horizon=300)
    assert found.build_policy(None) == CoS()


def test_options_stand_for_what_a_site_is_given() -> None:
    text = "+retries = 0\nstrict_labels = true\npatience = {wait_limit = 9, max_pending = 7, overdue = 0.25}"
    found = network(
        (TOP, text), (NORTH, '+call_cost = 0.5\nhost = "127.0.0.1"\nlearns_from = "used"\nscore_local = "all"')
    )
    assert (found.retries, found.strict_labels) == (0, True)
    assert found.patience == Patience(wait_limit=9, max_pending=7, overdue=0.25)
    assert found.call_costs() == {"north": 0.5, "south": 0.05}
    assert (found.sites[0].learns_from, found.sites[1].learns_from) == ("used", "all")
    assert (found.sites[0].score_local, found.sites[1].score_local) == ("all", None)


def test_two_machines_may_use_the_same_port() -> None:
    network((NORTH, '+host = "north.example.org"'), (SOUTH, 'port = 8801\nhost = "south.example.org"'))


def test_what_is_hidden_are_axes_that_say_so_columns_of_predictions_and_columns_for_contexts() -> None:
    stream = '+stream = {kind = "file", path = "a.csv", label = "y", contexts = ["hour"]}'
    found = network((TOP, stream), ('["age", "pressure"]', '["pressure"]'), (AXIS, "+hidden = true"))
    assert found.hidden() == ["age", "hour"]
    assert network((YOUNG, 'model = "column:forest says"')).hidden() == ["forest says"]


# what a file has -> the mistakes that keep it from being served
NOT_SERVED: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "a column": ([(YOUNG, 'model = "column:said"')], [f"{FIRST}.model: 'column:said' is what a recorded stream says"]),
    "a column and a stream": (
        [(YOUNG, 'model = "column:said"'), (TOP, '+stream = {kind = "traffic"}')],
        [f"{FIRST}.model: 'column:said'"],
    ),
    "a previous label": ([(AGE, 'kind = "previous_label"')], ["context.1.kind: "]),
    "time": ([(AGE, 'kind = "time"')], ["context.1.horizon: "]),
    "a model to train": ([(YOUNG, 'model = "tree"\ntrain = [0, 9]')], [f"{FIRST}.model: 'tree' is trained on rows"]),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_SERVED)
def test_what_cannot_be_served_is_named_with_its_key(case: str) -> None:
    changes, starts = NOT_SERVED[case]
    found = network(*changes).serving_mistakes()
    assert len(found) == len(starts)
    for mistake, start in zip(found, starts, strict=True):
        assert mistake.startswith(start), mistake


def test_a_site_may_be_served_though_another_may_not() -> None:
    found = network((YOUNG, 'model = "column:said"'))
    assert found.serving_mistakes("south") == []
    assert len(found.serving_mistakes("north")) == 1


def test_what_a_stream_would_tell_may_stand_in_the_file() -> None:
    axes = 'kind = "previous_label"\n[[context]]\nkind = "time"\nhorizon = 500'
    found = network((AGE, axes), (TOP, '+labels = ["ill", "well"]'))
    assert found.serving_mistakes() == []


# The stream that a command names


def test_a_stream_that_is_named_is_read_whole() -> None:
    stream = with_stream(network(), Path("visits.csv"), "ill", None).stream
    assert stream is not None
    assert (stream.path, stream.label, stream.site) == (Path("visits.csv").absolute(), "ill", None)
    assert (stream.items, stream.training) == (None, 0)


def test_rows_for_training_come_first_where_the_file_has_no_stream() -> None:
    found = network((YOUNG, 'model = "tree"\ntrain = [10, 90]'))
    stream = with_stream(found, Path("visits.csv"), "ill", "where").stream
    assert stream is not None
    assert (stream.training, stream.site) == (90, "where")


def test_a_stream_that_is_named_takes_the_place_of_that_of_the_file_and_its_columns_stay() -> None:
    line = '+stream = {kind = "file", path = "a.csv", label = "y", contexts = ["hour"], items = 5, training = 3}'
    found = network((TOP, line))
    stream = with_stream(found, Path("b.csv"), None, None).stream
    assert stream is not None
    assert (stream.path, stream.label, stream.contexts) == (Path("b.csv").absolute(), "y", ["hour"])
    assert (stream.items, stream.training) == (None, 3)
    other = with_stream(found, None, "z", "where").stream
    assert other is not None
    assert (other.path, other.label, other.site, other.items) == (Path("a.csv"), "z", "where", 5)
    assert with_stream(found, None, None, None) is found


def test_a_stream_of_another_kind_leaves_only_its_training_rows() -> None:
    found = network((TOP, '+stream = {kind = "traffic", training = 7, items = 5}'))
    stream = with_stream(found, Path("b.csv"), "y", None).stream
    assert stream is not None
    assert (stream.kind, stream.training, stream.items) == ("file", 7, None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((Path("a.csv"), None, None), ["--label", "with --stream"]),
        ((None, "y", None), ["--label", "'y'", "with --stream"]),
        ((None, None, "where"), ["--site-column", "'where'", "with --stream"]),
        ((Path("a\0.csv"), "y", None), ["--stream", "NUL"]),
    ],
    ids=str,
)
def test_a_stream_that_is_named_by_half_is_refused(given: Any, words: list[str]) -> None:
    with pytest.raises(SettingError) as raised:
        with_stream(network(), *given)
    assert all(word in str(raised.value) for word in words), raised.value


# A whole file

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
MISTAKES_OF_PARTS: dict[str, tuple[str, str, list[str]]] = {
    "a list for a table": ("[policy]\n", "[[policy]]\n", ["policy"]),
    "no items": ("items = 300", "items = 0", ["stream.items", "greater than or equal to 1"]),
    "two sites of a name": ('name = "south"', 'name = "north"', ["names", "north"]),
    "a classifier named as a site": ('name = "alarm"', 'name = "north"', ["names", "north"]),
    "trained beyond the training rows": ("[0, 300]", "[0, 601]", ["sites.1.classifiers.1.train", "601", "stream"]),
    "always without a label": ('label = "attack"\n', "", ["sites.2.classifiers.1", "label"]),
    "an axis without feature": ('kind = "previous_label"', 'scale = "log"', ["context.1", "feature"]),
    "unknown kind of axis": ('"previous_label"', '"moon"', ["context.1.kind", "time_of_day"]),
    "linear without a range": (
        'kind = "previous_label"', 'feature = "count"\nscale = "linear"', ["context.1", "range", "scale='rank'"]
    ),
    "a range backwards": ('kind = "previous_label"', 'feature = "count"\nrange = [5, 1]', ["context.1", "range"]),
    "a log range of one logarithm": (
        'kind = "previous_label"',
        'feature = "count"\nscale = "log"\nrange = [1e16, 10000000000000002]',
        ["context.1", "range", "different logarithms"],
    ),
    "a file without path": ('kind = "traffic"', 'kind = "file"\nlabel = "y"', ["stream", "path"]),
    "a file without label": ('kind = "traffic"', 'kind = "file"\npath = "a.csv"', ["stream", "label"]),
    "river without a dataset": ('kind = "traffic"', 'kind = "river"', ["stream", "dataset"]),
    "a seed beyond 64 bits": ("seed = 3", "seed = 9223372036854775808", ["seed", "less than or equal"]),
    "a title that moves the cursor": ('"Two sites"', r'"Two \u001b[2J sites"', ["title", "control characters"]),
    "a NUL in a path": (
        'kind = "traffic"',
        r'kind = "file"' + "\n" + r'path = "a\u0000.csv"' + '\nlabel = "y"',
        ["stream.path", "without a NUL character"],
    ),
    "brackets without end": ("seed = 3", "seed = " + 100_000 * "[", ["not TOML", "brackets"]),
    "not TOML": ("seed = 3", "seed = ", ["not TOML", "line 3"]),
}  # fmt: skip


def replaced(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new)


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(NetworkFileError) as raised:
        parse(text, "test.toml")
    assert str(raised.value).startswith("test.toml has ")
    return raised.value.mistakes


def test_the_default_file_is_valid_and_is_what_the_readers_are_promised() -> None:
    found, folder = load(None)
    assert [site.name for site in found.sites] == ["school", "town", "seniors"]
    assert sum(len(site.classifiers) for site in found.sites) == 7
    assert found.stream is not None
    assert (found.stream.kind, found.stream.items, found.stream.changes) == ("clinics", 15_000, [7_500])
    assert found.policy is None
    assert folder == Path()


def test_built_in_files_have_names_and_a_file_of_that_name_comes_first(
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
    found, folder = load(file)
    assert folder == tmp_path
    assert (found.seed, found.call_cost, found.label_delay) == (3, 0.1, 2)
    assert found.sites[0].classifiers[0].train == (0, 300)
    assert found.build_policy(500) == CoS(slices=2, horizon=500)


@pytest.mark.parametrize("mistake", MISTAKES_OF_PARTS)
def test_a_mistake_in_any_part_is_named_with_its_key(mistake: str) -> None:
    old, new, words = MISTAKES_OF_PARTS[mistake]
    said = mistakes_of(replaced(old, new))
    assert any(all(word in each for word in words) for each in said), said


def test_several_mistakes_in_several_places_are_all_named() -> None:
    text = replaced("seed = 3", "seed = -3")
    text = replaced("items = 300", 'items = "many"', text)
    text = replaced("cost = 0.05", "cost = 5", text)
    text = replaced('label = "attack"\n', "", text)
    text = replaced('kind = "previous_label"', 'kind = "moon"', text)
    said = mistakes_of(text)
    keys = ("seed", "stream.items", "sites.1.classifiers.1.cost", "sites.2.classifiers.1", "context.1.kind")
    assert len(said) == len(keys)
    for key in keys:
        assert any(each.startswith(f"{key}: ") for each in said), key


def test_mistakes_that_concern_the_whole_file_are_all_named_too() -> None:
    """A double name, rows that are not there and a wrong option of the policy: none hides the others."""
    text = replaced('name = "alarm"', 'name = "north"')
    text = replaced("[0, 300]", "[0, 900]", text)
    text = replaced("slices = 2", "slices = 0", text)
    said = "\n".join(mistakes_of(text))
    for word in ("'north' appears twice", "900", "policy.slices: slices must be"):
        assert word in said, said


def test_every_file_and_policy_of_the_documentation_is_valid() -> None:
    page = PAGE.read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks[:2]:
        parse(block, "docs/network-file.md")
    for block in blocks[2:]:
        parse(replaced('[policy]\nname = "CoS"\nslices = 2\n', block), "docs/network-file.md")


def test_every_policy_and_option_stands_in_the_documentation() -> None:
    page = PAGE.read_text()
    for name, kind in POLICIES.items():
        assert f"`{name}`" in page
        assert all(f"`{option}`" in page for option in signature(kind).parameters), name


@pytest.mark.parametrize(("given", "meant"), [("", "rank"), ("range = [0, 9]", "linear"), ('scale = "log"', "log")])
def test_a_feature_is_scaled_as_that_of_a_site_is(given: str, meant: str) -> None:
    found = parse(replaced('kind = "previous_label"', f'feature = "count"\n{given}'), "test.toml")
    axis = found.context[0].build([], 1)
    assert isinstance(axis, Feature)
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
    file.write_text(replaced("cost = 0.05", "cost = 5", replaced("seed = 3", "sede = 3")))
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{file} has 2 mistakes:" in result.stderr
    assert "- sede: " in result.stderr
    assert "- sites.1.classifiers.1.cost: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b""])
def test_a_file_that_is_missing_or_no_text_or_empty_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "network.toml"
    if content is not None:
        file.write_bytes(content)
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert "mistake" in result.stderr


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(NetworkFileError, match="longer than 10,000,000 characters"):
        load(Path("/dev/zero"))


@pytest.mark.parametrize("path", ["a\0.toml", Path("a\0.toml"), 5], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(SettingError, match="network file must be the path of a file"):
        load(path)


def test_a_folder_is_no_network_file(tmp_path: Path) -> None:
    with pytest.raises(NetworkFileError, match="directory"):
        load(tmp_path)
