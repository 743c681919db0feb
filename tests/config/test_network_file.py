"""A network file: what every key means, what it is without it, and every mistake, named with its key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend import CellKLUCB, CoS, MixedViews, Patience, Zooming, ZoomingKLUCB
from cosend.algorithm.policies import POLICIES, Policy
from cosend.axes import Feature
from cosend.cli.main import app
from cosend.config.network_file import NetworkFile, build_policy, built_in, load, parse, with_stream
from cosend.errors import NetworkFileError, SettingError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "network-file.md"
NETWORK = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)[0]  # that of the page
TOP, AXIS, NORTH, SOUTH = "call_cost = 0.05", "range = [0, 100]", "port = 8801", "port = 8802"
YOUNG, OLD, ANY = 'model = "models:young"', 'model = "old.skops"', "cost = 0.01"
AGE = 'feature = "age"\nrange = [0, 100]'  # the whole axis
MIX_UP = '{truth = "ill", said = "well", cost = 1}'
SITE_1, FIRST, SECOND = "sites.1", "sites.1.classifiers.1", "sites.1.classifiers.2"

# what is wrong -> (a line, what is put below it or in its place, what the mistake must begin with and hold)
MISTAKES: dict[str, tuple[str, str, str, list[str]]] = {
    "a key with a slip": (TOP, "+lables = [0, 1]", "lables: ", ["did you mean 'labels'?", "strict_labels"]),
    "a key of an axis": (AXIS, "+hiden = true", "context.1.hiden: ", ["did you mean 'hidden'?"]),
    "a key of patience": (TOP, "+patience = {max_age = 3}", "patience.max_age: ", ["wait_limit, max_pending, overdue"]),
    "labels that are equal": (TOP, "+labels = [1, 1.0]", "labels: ", ["different"]),
    "a label that is none": (
        YOUNG, 'model = "always"\nlabel = "x"', f"{FIRST}.label: ", ["'x' is not one of the labels, 'ill', 'well'"]
    ),
    "a gain above 1": (TOP, "+patience = {overdue = 1.5}", "patience.overdue: ", ["[0, 1]", "1.5"]),
    "patience that is a number": (TOP, "+patience = 3", "patience: ", ["must be a table", "3"]),
    "hidden without a feature": (
        AGE, 'kind = "time"\nhidden = true', "context.1: ", ["hidden is for"]
    ),
    "a category with a range": (AXIS, '+kind = "category"', "context.1: ", ["not for kind 'category'"]),
    "a port twice": (SOUTH, "port = 8801", "sites.2.port: ", ["8801 is the port of 'north'"]),
    "a host with a blank": (NORTH, '+host = "a b"', f"{SITE_1}.host: ", ["pattern"]),
    "no model": (YOUNG, "", f"{FIRST}.model: ", ["is required"]),
    "a model with a slip": (YOUNG, 'model = "naive_bays"', f"{FIRST}.model: ", ["did you mean 'naive_bayes'?"]),
    "a column without a name": (YOUNG, 'model = "column:"', f"{FIRST}.model: ", ["column:NAME"]),
    "features of a column": (OLD, 'model = "column:said"', f"{SECOND}: ", ["not for columns of predictions"]),
    "a feature twice": ('"pressure"]', '"age"]', f"{SECOND}.features: ", ["once"]),
    "a hidden feature that is named": (AXIS, "+hidden = true", f"{SECOND}.features: ", ["'age' is hidden"]),
    "rows for a function": (YOUNG, "+train = [0, 5]", f"{FIRST}: ", ["train is for models by name"]),
    "trust in a function": (YOUNG, "+trusted = true", f"{FIRST}: ", ["trusted is for model files"]),
    "trust in an ONNX file": (OLD, 'model = "old.onnx"\ntrusted = true', f"{SECOND}: ", ["runs no code"]),
    "features of a stack": (OLD, 'model = "stack"', f"{SECOND}: ", ["not for models 'grown' and 'stack'"]),
    "learnt that is a number": (NORTH, "+learnt = 1", f"{SITE_1}.learnt: ", ["boolean", "1"]),
    "a reward of the wrong kind": (TOP, "+reward = 3", "reward: ", ["must be a table"]),
    "units the wrong way round": (TOP, "+reward = {range = [5, 0]}", "reward: ", ["[lowest, highest]", "[5.0, 0.0]"]),
    "a function in no module": (TOP, '+reward = {function = "gain"}', "reward.function: ", ["module:function"]),
    "two rewards": (
        TOP, '+reward = {function = "a:b", confusions = [{truth = "ill", said = "well", cost = 1}]}',
        "reward: ", ["not given together"],
    ),
    "a confusion that costs too much": (
        TOP, '+reward = {confusions = [{truth = "ill", said = "well", cost = 2}]}',
        "reward.confusions.1.cost: ", ["less than or equal to 1", "2"],
    ),
    "a confusion that is none": (
        TOP, '+reward = {confusions = [{truth = "ill", said = "ill", cost = 1}]}', "reward.confusions.1: ", ["differ"]
    ),
    "a confusion of what is no label": (
        TOP, '+reward = {confusions = [{truth = [], said = "ill", cost = 1}]}',
        "reward.confusions.1.truth: ", ["a label is text"],
    ),
    "a confusion of an unknown label": (
        TOP, '+reward = {confusions = [{truth = "ill", said = "odd", cost = 1}]}',
        "reward.confusions.1.said: ", ["'odd' is not one of the labels, 'ill', 'well'"],
    ),
    "a confusion twice": (
        TOP, f"+reward = {{confusions = [{', '.join(2 * [MIX_UP])}]}}",
        "reward: ", ["twice"],
    ),
    "a feature that is shared and withheld": (
        NORTH, '+shares = ["age"]\nwithholds = ["age"]', "sites.1: ", ["withholds", "not in shares", "'age'"]
    ),
    "a withheld axis": (
        NORTH, '+withholds = ["age"]', "sites.1.withholds: ", ["context.1 reads 'age'", "ZoomingKLUCB"]
    ),
    "an axis that is not shared": (
        SOUTH, '+shares = ["pressure"]', "sites.2.shares: ", ["context.1 reads 'age'", "only MixedViews"]
    ),
    "a misspelt key of a site": (NORTH, '+withhold = ["age"]', "sites.1.withhold: ", ["did you mean 'withholds'?"]),
    "labels shared now and then": (NORTH, '+share_labels = "often"', "sites.1.share_labels: ", ["'never'", "often"]),
    "a number of a text that there is not": (
        AGE, 'feature = "age"\nof = "colour"', "context.1: ", ["of must be one of 'length'", "'colour'"]
    ),
    "a number of a category": (AGE, 'feature = "age"\nkind = "category"\nof = "words"', "context.1: ", ["of is for"]),
    "a unit of nothing": (TOP, "+costs = {unit = 0}", "costs.unit: ", ["greater than 0"]),
    "a price without a unit": (ANY, "price = 0.01", "sites.2.classifiers.1.price: ", ["[costs]", "unit"]),
    "a price above the unit": (
        ANY, "price = 3.0\n[costs]\nunit = 2", "sites.2.classifiers.1.price: ", ["from 0 to the unit, 2", "3.0"]
    ),
    "a price and a cost": (ANY, "+price = 0.01\n[costs]\nunit = 2", "sites.2.classifiers.1.price: ", ["not together"]),
    "a price of calls and a cost": (TOP, "+call_price = 0.01\ncosts = {unit = 2}", "call_price: ", ["not together"]),
    "scores of one model only": (YOUNG, 'model = "score:a"', f"{SECOND}.model: ", ["score:COLUMN", "'old.skops'"]),
    "scores without a column": (YOUNG, 'model = "score:"', f"{FIRST}.model: ", ["score:NAME"]),
    "scores and labels": (
        YOUNG, 'model = "score:a"\n[stream]\nkind = "file"\npath = "a.csv"\nlabel = "b"', "stream.label: ",
        ["no labels"],
    ),
    "scores and a stack": (
        YOUNG, 'model = "stack"\n[[sites.classifiers]]\nname = "s"\nmodel = "score:a"',
        f"{FIRST}.model: ", ["learns from labels"],
    ),
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


def test_options_stand_for_what_a_site_is_given() -> None:
    text = "+retries = 0\nstrict_labels = true\npatience = {wait_limit = 9, max_pending = 7, overdue = 0.25}"
    found = network(
        (TOP, text),
        (NORTH, '+call_cost = 0.5\nhost = "127.0.0.1"\nlearns_from = "used"\nscore_local = "all"'),
        (SOUTH, 'port = 8801\nhost = "10.0.0.1"'),  # the same port at another host
    )
    assert (found.retries, found.strict_labels) == (0, True)
    assert found.patience == Patience(wait_limit=9, max_pending=7, overdue=0.25)
    assert found.call_costs() == {"north": 0.5, "south": 0.05}
    assert (found.sites[0].learns_from, found.sites[1].learns_from) == ("used", "all")
    assert (found.sites[0].score_local, found.sites[1].score_local) == ("all", None)


# what a file has -> the mistakes that keep it from being served
NOT_SERVED: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "a column": ([(YOUNG, 'model = "column:said"')], [f"{FIRST}.model: 'column:said' is what a recorded stream says"]),
    "a previous label": ([(AGE, 'kind = "previous_label"')], ["context.1: the labels of the axis"]),
    "time": ([(AGE, 'kind = "time"')], ["context.1: horizon"]),
    "a model to train": ([(YOUNG, 'model = "tree"\ntrain = [0, 9]')], [f"{FIRST}.model: 'tree' is trained on rows"]),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_SERVED)
def test_what_cannot_be_served_is_named_with_its_key(case: str) -> None:
    changes, starts = NOT_SERVED[case]
    found = network(*changes).serving_mistakes()
    assert len(found) == len(starts)
    for mistake, start in zip(found, starts, strict=True):
        assert mistake.startswith(start), mistake


# The stream that a command names


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
    new = with_stream(network(), Path("visits.csv"), "ill", None).stream
    assert new is not None
    assert (new.path, new.label, new.site) == (Path("visits.csv").absolute(), "ill", None)
    assert (new.items, new.training) == (None, 0)


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
    "two sites of a name": ('name = "south"', 'name = "north"', ["names", "north"]),
    "trained beyond the training rows": ("[0, 300]", "[0, 601]", ["sites.1.classifiers.1.train", "601", "stream"]),
    "an axis without feature": ('kind = "previous_label"', 'scale = "log"', ["context.1", "feature"]),
    "unknown kind of axis": ('"previous_label"', '"moon"', ["context.1.kind", "time_of_day"]),
    "linear without a range": (
        'kind = "previous_label"', 'feature = "count"\nscale = "linear"', ["context.1", "range", "scale='rank'"]
    ),
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
    text = replaced('name = "alarm"', 'name = "north"')  # mistakes that concern the whole file
    text = replaced("slices = 2", "slices = 0", replaced("[0, 300]", "[0, 900]", text))
    whole = "\n".join(mistakes_of(text))
    assert all(word in whole for word in ("'north' appears twice", "900", "policy.slices: slices must be"))


@pytest.mark.parametrize(("given", "meant"), [("", "rank"), ("range = [0, 9]", "linear"), ('scale = "log"', "log")])
def test_a_feature_is_scaled_as_that_of_a_site_is(given: str, meant: str) -> None:
    found = parse(replaced('kind = "previous_label"', f'feature = "count"\n{given}'), "test.toml")
    axis = found.context[0].build([], 1)
    assert isinstance(axis, Feature)
    assert axis.scale == meant


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b""])
def test_a_file_that_is_missing_or_no_text_or_empty_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "network.toml"
    if content is not None:
        file.write_bytes(content)
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert "mistake" in result.stderr


@pytest.mark.parametrize("path", ["a\0.toml", 5], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(SettingError, match="network file must be the path of a file"):
        load(path)


def test_a_file_without_end_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NetworkFileError, match="longer than 10,000,000 characters"):
        load(Path("/dev/zero"))
    with pytest.raises(NetworkFileError, match="directory"):
        load(tmp_path)


# a table [policy] -> what it stands for, with 500 items at a site
MEANT: dict[str, Policy] = {
    'name = "cos"\nslices = 2\nexploration_exponent = 0.125': CoS(horizon=500, slices=2, exploration_exponent=0.125),
    'name = "CoS"\nhorizon = 70': CoS(horizon=70),
    'name = "CELLKLUCB"\nhorizon = "unknown"': CellKLUCB(),
    'name = "ZoomingKLUCB"\nlipschitz = 5': ZoomingKLUCB(lipschitz=5),
    'name = "Zooming"\ncontexts = "concentrated"': Zooming(contexts="concentrated"),
    'name = "MixedViews"\nbonus = 0.5\nmax_cells = 900': MixedViews(bonus=0.5, max_cells=900),
}

# a table [policy] -> what the mistakes must begin with and hold
WRONG_POLICIES: dict[str, tuple[str, list[str]]] = {
    'name = "UCB1"': ("policy.name: ", ["CoS, CellKLUCB", "MixedViews", "'UCB1'"]),
    'name = "ZoomingKLUBC"': ("policy.name: ", ["did you mean 'ZoomingKLUCB'?"]),
    "slices = 2": ("policy.name: ", ["needs its name", "CoS, CellKLUCB"]),
    'name = ["CoS"]': ("policy.name: ", ["['CoS']"]),
    'name = "CoS"\nslises = 2': ("policy.slises: ", ["did you mean 'slices'?", "CoS has horizon"]),
    'name = "ZoomingKLUCB"\nlipschitz = 0': ("policy.lipschitz: ", ["above 0", "got 0"]),
}


@pytest.mark.parametrize("table", MEANT)
def test_a_table_stands_for_a_policy_whose_name_may_be_in_any_case(table: str) -> None:
    assert build_policy(tomllib.loads(table), 500) == MEANT[table]
    assert {type(policy).__name__ for policy in MEANT.values()} == set(POLICIES)


def of_policy(table: str) -> str:
    return replaced('name = "CoS"\nslices = 2', table)


@pytest.mark.parametrize("table", WRONG_POLICIES)
def test_a_mistake_in_a_policy_is_named_with_its_key(table: str) -> None:
    start, words = WRONG_POLICIES[table]
    (mistake,) = mistakes_of(of_policy(table))
    assert mistake.startswith(start)
    assert all(word in mistake for word in words), mistake


def test_all_mistakes_in_a_policy_are_named() -> None:
    keys = [each.split(":")[0] for each in mistakes_of(of_policy('name = "CoS"\nslices = 0\nalpha = -1\nfalling = 1'))]
    assert keys == ["policy.slices", "policy.alpha", "policy.falling"]


NO_LABELS = """labels = ["ill", "well"]
[[context]]
kind = "previous_label"
[policy]
name = "POLICY"
[[sites]]
name = "north"
share_labels = "never"
[[sites.classifiers]]
name = "one"
model = "models:one"
"""


@pytest.mark.parametrize(
    ("policy", "mistakes"),
    [
        ("MixedViews", []),
        ("CoS", ["sites.1.share_labels: share_labels must be 'training' or 'always': CoS trains peers, got 'never'"]),
        (
            "CellKLUCB",
            [
                "sites.1.share_labels: context.1 tells what the true labels are, and CellKLUCB needs it at every site; "
                "only MixedViews can do without an axis"
            ],
        ),
        ("CoSs", ["policy.name: must be one of CoS, CellKLUCB, Zooming, ZoomingKLUCB, MixedViews, got 'CoSs'"]),
    ],
)
def test_labels_that_peers_must_not_see_go_with_the_policy(policy: str, mistakes: list[str]) -> None:
    text = NO_LABELS.replace("POLICY", policy)
    if not mistakes:
        (site,) = parse(text, "network.toml").sites
        assert parse(text, "network.toml").policy_of(site, None)[0].share_labels == "never"
        return
    with pytest.raises(NetworkFileError) as raised:
        parse(text, "network.toml")
    assert [each.partition("; did you")[0] for each in raised.value.mistakes] == mistakes
