"""Every key of the network file: what it means, what it is without it, and what is refused, with its key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cosend import Context, MixedViews, Patience, Site, ZoomingKLUCB
from cosend.config.recorded import with_stream
from cosend.config.scenario import Scenario, parse
from cosend.core.policy.policies import CoS
from cosend.errors import ScenarioError, SettingError

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
    "a key of patience": (TOP, "+patience = {max_age = 3}", "patience.max_age: ", ["wait_limit, max_waiting, overdue"]),
    "labels that are one": (TOP, "+labels = [1]", "labels: ", ["at least 2"]),
    "labels that are equal": (TOP, "+labels = [1, 1.0]", "labels: ", ["different"]),
    "labels that are lists": (TOP, "+labels = [[1], [2]]", "labels: ", ["text, a number or a truth value", "[1]"]),
    "labels that are no number": (TOP, "+labels = [nan, 1]", "labels: ", ["nan"]),
    "a label that is none": (
        YOUNG, 'model = "always"\nlabel = "x"', f"{FIRST}.label: ", ["'x' is not one of the labels, 'ill', 'well'"]
    ),
    "labels that are text": (TOP, '+labels = "ab"', "labels: ", ["list"]),
    "tries below 0": (TOP, "+retries = -1", "retries: ", ["greater than or equal to 0"]),
    "a share of a try": (TOP, "+retries = 1.5", "retries: ", ["integer"]),
    "a word for a truth value": (TOP, '+strict_labels = "yes"', "strict_labels: ", ["boolean"]),
    "a number for a truth value": (TOP, "+strict_labels = 1", "strict_labels: ", ["boolean"]),
    "a wait of nothing": (TOP, "+patience = {wait_limit = 0}", "patience.wait_limit: ", ["at least 1, got 0"]),
    "a share of a place": (TOP, "+patience = {max_waiting = 0.5}", "patience.max_waiting: ", ["whole number"]),
    "a gain above 1": (TOP, "+patience = {overdue = 1.5}", "patience.overdue: ", ["[0, 1]", "1.5"]),
    "a word for a gain": (TOP, '+patience = {overdue = "keep"}', "patience.overdue: ", ["'drop'"]),
    "patience that is a number": (TOP, "+patience = 3", "patience: ", ["must be a table", "3"]),
    "a policy without a name": ('name = "ZoomingKLUCB"', "", "policy.name: ", ["needs its name", "ZoomingKLUCB"]),
    "a policy that is a word": ('[policy]\nname = "ZoomingKLUCB"', "policy = 3", "context.1.policy: ", ["no such key"]),
    "hidden without a feature": (
        AGE, 'kind = "time"\nhidden = true', "context.1: ", ["hidden is for"]
    ),
    "a word for hidden": (AXIS, '+hidden = "yes"', "context.1.hidden: ", ["boolean"]),
    "a horizon of a feature": (AXIS, "+horizon = 5", "context.1: ", ["horizon is for kind 'time'"]),
    "a horizon of nothing": (AGE, 'kind = "time"\nhorizon = 0', "context.1.horizon: ", []),
    "a category with a range": (AXIS, '+kind = "category"', "context.1: ", ["not for kind 'category'"]),
    "a category of nothing": (AGE, 'kind = "category"', "context.1: ", ["needs a feature"]),
    "port 0": (NORTH, "port = 0", f"{SITE_1}.port: ", ["greater than or equal to 1"]),
    "port 65536": (NORTH, "port = 65536", f"{SITE_1}.port: ", ["65535"]),
    "a word for a port": (NORTH, 'port = "8801"', f"{SITE_1}.port: ", ["integer"]),
    "a port twice": (SOUTH, "port = 8801", "sites.2.port: ", ["8801 is the port of 'north'"]),
    "a host with a blank": (NORTH, '+host = "a b"', f"{SITE_1}.host: ", ["pattern"]),
    "a host with a path": (NORTH, '+host = "a/b"', f"{SITE_1}.host: ", ["pattern"]),
    "a call above 1": (NORTH, "+call_cost = 1.5", f"{SITE_1}.call_cost: ", ["less than or equal to 1"]),
    "learning from some": (NORTH, '+learns_from = "some"', f"{SITE_1}.learns_from: ", ["'used' or 'all'"]),
    "no model": (YOUNG, "", f"{FIRST}.model: ", ["must be there"]),
    "a model of nothing": (YOUNG, 'model = ""', f"{FIRST}.model: ", ["naive_bayes", "module:callable"]),
    "a model with a slip": (YOUNG, 'model = "naive_bays"', f"{FIRST}.model: ", ["did you mean 'naive_bayes'?"]),
    "a model of another type": (OLD, 'model = "old.txt"', f"{SECOND}.model: ", [".skops, .onnx", "'old.txt'"]),
    "a NUL in a model": (OLD, r'model = "a\u0000.skops"', f"{SECOND}.model: ", ["NUL"]),
    "a column without a name": (YOUNG, 'model = "column:"', f"{FIRST}.model: ", ["column:NAME"]),
    "features of a column": (OLD, 'model = "column:said"', f"{SECOND}: ", ["features are for models"]),
    "a feature twice": ('"pressure"]', '"age"]', f"{SECOND}.features: ", ["once"]),
    "no features": ('["age", "pressure"]', "[]", f"{SECOND}.features: ", ["at least 1"]),
    "a hidden feature that is named": (AXIS, "+hidden = true", f"{SECOND}.features: ", ["'age' is hidden"]),
    "rows for a function": (YOUNG, "+train = [0, 5]", f"{FIRST}: ", ["train and train_on are for models by name"]),
    "own rows for a file": (OLD, '+train_on = "own"', f"{SECOND}: ", ["train and train_on are for models by name"]),
    "rows of others": (YOUNG, 'model = "tree"\ntrain_on = "theirs"', f"{FIRST}.train_on: ", ["'stream' or 'own'"]),
    "rows backwards": (YOUNG, 'model = "tree"\ntrain = [5, 0]\ntrain_on = "own"', f"{FIRST}: ", ["at least one row"]),
    "a label of a file": (OLD, '+label = "ill"', f"{SECOND}: ", ["label is for model 'always'"]),
    "trust in a function": (YOUNG, "+trusted = true", f"{FIRST}: ", ["trusted is for files", ".joblib"]),
    "features of a vote": (OLD, 'model = "vote"', f"{SECOND}: ", ["a vote sees", "no features"]),
    "over without a vote": (YOUNG, '+over = ["old"]', f"{FIRST}: ", ["over is for model 'vote'"]),
    "trust in ONNX": (OLD, 'model = "old.onnx"\ntrusted = true', f"{SECOND}: ", ["trusted is for files"]),
    "a word for trust": (OLD, '+trusted = "yes"', f"{SECOND}.trusted: ", ["boolean"]),
    "no time at all": (YOUNG, "+limit_s = 0", f"{FIRST}.limit_s: ", ["greater than 0"]),
    "time without end": (YOUNG, "+limit_s = inf", f"{FIRST}.limit_s: ", ["less than or equal to 3600"]),
    "a word for a time": (YOUNG, '+limit_s = "1s"', f"{FIRST}.limit_s: ", ["number"]),
    "a stream without a label": (TOP, '+stream = {kind = "file", path = "a.csv"}', "stream: ", ["path and label"]),
}  # fmt: skip


def changed(line: str, below: str, text: str = NETWORK) -> str:
    """Return a file with something below a line, or in its place."""
    assert line in text
    return text.replace(line, f"{line}\n{below[1:]}" if below.startswith("+") else below, 1)


def network(*changes: tuple[str, str]) -> Scenario:
    text = NETWORK
    for change in changes:
        text = changed(*change, text)
    return parse(text, "network.toml")


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_with_its_key(case: str) -> None:
    line, below, start, words = MISTAKES[case]
    text = NETWORK if "labels" in below else f'labels = ["ill", "well"]\n{NETWORK}'
    with pytest.raises(ScenarioError) as raised:
        parse(changed(line, below, text), "network.toml")
    (said,) = [each for each in raised.value.mistakes if each.startswith(start)]
    assert all(word in said for word in words), said


def test_a_mistake_says_what_was_given_unless_a_password_may_be_in_it() -> None:
    text = f'[network]\nservers = "nats://me:secret@north:4222"\n\n{changed(NORTH, "port = 0")}'
    with pytest.raises(ScenarioError) as raised:
        parse(text, "network.toml")
    said = "\n".join(raised.value.mistakes)
    assert "sites.1.port: must be greater than or equal to 1, got 0" in said
    assert "network.servers: must be a valid list" in said
    assert "secret" not in said


def test_the_network_of_the_page_says_what_it_says() -> None:
    scenario = network()
    north, south = scenario.sites
    assert (north.port, south.port, north.host) == (8801, 8802, None)
    assert [(each.name, each.kind) for each in north.classifiers] == [("young", "module"), ("old", "file")]
    assert north.classifiers[1].features == ["age", "pressure"]
    assert (south.classifiers[0].cost, south.classifiers[0].limit_s) == (0.01, 1.0)
    assert scenario.call_costs() == {"north": 0.05, "south": 0.05}
    assert scenario.build_policy(None) == ZoomingKLUCB()
    assert scenario.patience.build() == Patience()
    assert scenario.serving_mistakes() == []
    assert scenario.hidden() == []


def test_without_a_table_the_policy_is_that_of_a_site() -> None:
    plain = network(('[policy]\nname = "ZoomingKLUCB"', ""))
    assert plain.build_policy(300) is None
    for score_local in (None, "used", "all"):
        setting = plain.sites[0].model_copy(update={"score_local": score_local})
        site = Site("s", classifiers={"a": str}, context=Context("x"), score_local=score_local)
        assert plain.how_to_decide(setting, None) == (site.learner.policy, site.score_local)
        assert site.learner.policy == (ZoomingKLUCB() if score_local == "used" else MixedViews(max_cells=200_000))
    assert plain.how_to_decide(plain.sites[0], CoS()) == (CoS(), "used")


def test_a_policy_of_equal_cells_guesses_its_horizon_where_there_is_no_stream() -> None:
    scenario = network(('name = "ZoomingKLUCB"', 'name = "CoS"'))
    assert scenario.build_policy(300) == CoS(horizon=300)
    assert scenario.build_policy(None) == CoS()


def test_options_stand_for_what_a_site_is_given() -> None:
    text = "+retries = 0\nstrict_labels = true\npatience = {wait_limit = 9, max_waiting = 7, overdue = 0.25}"
    scenario = network(
        (TOP, text), (NORTH, '+call_cost = 0.5\nhost = "127.0.0.1"\nlearns_from = "used"\nscore_local = "all"')
    )
    assert (scenario.retries, scenario.strict_labels) == (0, True)
    assert scenario.patience.build() == Patience(wait_limit=9, max_waiting=7, overdue=0.25)
    assert scenario.call_costs() == {"north": 0.5, "south": 0.05}
    assert (scenario.sites[0].learns_from, scenario.sites[1].learns_from) == ("used", "all")
    assert (scenario.sites[0].score_local, scenario.sites[1].score_local) == ("all", None)


def test_two_machines_may_use_the_same_port() -> None:
    network((NORTH, '+host = "north.example.org"'), (SOUTH, 'port = 8801\nhost = "south.example.org"'))


def test_what_is_hidden_are_axes_that_say_so_columns_of_predictions_and_columns_for_contexts() -> None:
    stream = '+stream = {kind = "file", path = "a.csv", label = "y", contexts = ["hour"]}'
    scenario = network((TOP, stream), ('["age", "pressure"]', '["pressure"]'), (AXIS, "+hidden = true"))
    assert scenario.hidden() == ["age", "hour"]
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
    "time in the policy": (
        [('name = "ZoomingKLUCB"', 'name = "ZoomingKLUCB"\ntime_dimension = true')], ["policy: time_dimension"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_SERVED)
def test_what_cannot_be_served_is_named_with_its_key(case: str) -> None:
    changes, starts = NOT_SERVED[case]
    found = network(*changes).serving_mistakes()
    assert len(found) == len(starts)
    for mistake, start in zip(found, starts, strict=True):
        assert mistake.startswith(start), mistake


def test_a_site_may_be_served_though_another_may_not() -> None:
    scenario = network((YOUNG, 'model = "column:said"'))
    assert scenario.serving_mistakes("south") == []
    assert len(scenario.serving_mistakes("north")) == 1


def test_what_a_stream_would_tell_may_stand_in_the_file() -> None:
    axes = 'kind = "previous_label"\n[[context]]\nkind = "time"\nhorizon = 500'
    scenario = network((AGE, axes), (TOP, '+labels = ["ill", "well"]'))
    assert scenario.serving_mistakes() == []


# The stream that a command names


def test_a_stream_that_is_named_is_read_whole() -> None:
    stream = with_stream(network(), Path("visits.csv"), "ill", None).stream
    assert stream is not None
    assert (stream.path, stream.label, stream.site) == (Path("visits.csv").absolute(), "ill", None)
    assert (stream.items, stream.training) == (None, 0)


def test_rows_for_training_come_first_where_the_file_has_no_stream() -> None:
    scenario = network((YOUNG, 'model = "tree"\ntrain = [10, 90]'))
    stream = with_stream(scenario, Path("visits.csv"), "ill", "where").stream
    assert stream is not None
    assert (stream.training, stream.site) == (90, "where")


def test_a_stream_that_is_named_takes_the_place_of_that_of_the_file_and_its_columns_stay() -> None:
    line = '+stream = {kind = "file", path = "a.csv", label = "y", contexts = ["hour"], items = 5, training = 3}'
    scenario = network((TOP, line))
    stream = with_stream(scenario, Path("b.csv"), None, None).stream
    assert stream is not None
    assert (stream.path, stream.label, stream.contexts) == (Path("b.csv").absolute(), "y", ["hour"])
    assert (stream.items, stream.training) == (None, 3)
    other = with_stream(scenario, None, "z", "where").stream
    assert other is not None
    assert (other.path, other.label, other.site, other.items) == (Path("a.csv"), "z", "where", 5)
    assert with_stream(scenario, None, None, None) is scenario


def test_a_stream_of_another_kind_leaves_only_its_training_rows() -> None:
    scenario = network((TOP, '+stream = {kind = "traffic", training = 7, arrivals = "deal", items = 5}'))
    stream = with_stream(scenario, Path("b.csv"), "y", None).stream
    assert stream is not None
    assert (stream.kind, stream.training, stream.arrivals, stream.items) == ("file", 7, "deal", None)


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
