"""Sites in one process: how they join and leave, how streams are played, and how all is saved and goes on."""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import CellKLUCB, CoS, Decision, Network, Patience, Site
from cosend.algorithm.values import Phase
from cosend.axes import Feature, PreviousLabel, Time
from cosend.errors import ArmError, LabelWarning, NetworkError, RewardError, SettingError, StateError
from cosend.store.state_file import load_states, save_states

Stream = list[tuple[dict[str, float], int]]
NAMES = ("north", "south", "west")
QUICK = CoS(slices=1, exploration_exponent=0.05)


def high(item: Any) -> int:
    return int(item["x"] > 0.5)


def low(item: Any) -> int:
    return int(item["x"] <= 0.5)


def a_site(name: str, **options: Any) -> Site:
    settings = {
        "classifiers": {"high": high, "low": low},
        "context": Feature("x", range=(0, 1)),
        "policy": QUICK,
        **options,
    }
    return Site(name, **settings)


def a_network(*names: str, **options: Any) -> Network:
    return Network([a_site(name, **options) for name in names or NAMES], call_cost=0.1)


def stream(count: int, seed: int = 0) -> Stream:
    draw = random.Random(seed)
    return [({"x": x}, int(x > 0.5)) for x in (draw.random() for _ in range(count))]


def streams(count: int) -> dict[str, Stream]:
    return {name: stream(count, seed) for seed, name in enumerate(NAMES)}


def everything(network: Network) -> str:
    states = {name: site.state() for name, site in network.sites.items()}
    return json.dumps(
        {
            name: [state.facts, {key: array.tolist() for key, array in state.arrays.items()}]
            for name, state in states.items()
        },
        sort_keys=True,
    )


def peers(*sites: Site) -> list[list[str]]:
    return [sorted(site.peers) for site in sites]


def test_all_sites_of_a_network_are_peers_and_announce_how_many_classifiers_they_have() -> None:
    sites = [a_site("a"), a_site("b", classifiers={"one": high}), a_site("c")]
    Network(sites)
    assert peers(*sites) == [["b", "c"], ["a", "c"], ["a", "b"]]
    assert sites[0].learner.arms.functions == {"b": 1, "c": 2}


@pytest.mark.parametrize("sites", [["a"], [a_site("a"), None], 5, None], ids=["text", "a hole", "5", "None"])
def test_only_sites_make_a_network(sites: Any) -> None:
    with pytest.raises(SettingError, match="Site"):
        Network(sites)
    with pytest.raises(NetworkError, match="needs at least one site"):
        Network([])
    network: Any = a_network("a", "b")
    with pytest.raises(SettingError, match="must be a Site, got 'c'"):
        network.add("c")
    assert list(network.sites) == ["a", "b"]


def test_two_sites_of_one_name_are_refused_and_stay_as_they_were() -> None:
    sites = [a_site("a"), a_site("b"), a_site("a")]
    with pytest.raises(NetworkError, match="two sites have the name 'a': names must differ"):
        Network(sites)
    assert peers(*sites) == [[], [], []]
    Network(sites[:2])


OTHER_CONTEXTS = [[Feature("x", range=(0, 1)), Feature("y", range=(0, 1))], Time(5), Feature("x", range=(0, 5))]
other_contexts = pytest.mark.parametrize("context", OTHER_CONTEXTS, ids=["axes", "time", "range"])


@other_contexts
def test_sites_may_describe_items_differently(context: Any) -> None:
    network = a_network("a")
    network.add(a_site("b", context=context))
    rows = [({"x": n % 10 / 10, "y": n % 7 / 7}, n % 2) for n in range(60)]
    turns = list(network.run({"a": rows, "b": rows}))
    assert {turn.decision.arm for turn in turns} >= {"a", "b"}
    for site in network.sites.values():
        assert not site.pending()


COSTS: list[tuple[Any, dict[tuple[str, str], float]]] = [
    (0.2, {("a", "b"): 0.2, ("b", "a"): 0.2}),
    (np.float64(0.2), {("a", "b"): 0.2, ("b", "a"): 0.2}),
    ({"a": 0.1, "b": 0.3}, {("a", "b"): 0.3, ("b", "a"): 0.1}),
]


@pytest.mark.parametrize(("given", "paid"), COSTS)
def test_the_call_cost_is_one_number_or_one_for_each_peer(given: Any, paid: dict[tuple[str, str], float]) -> None:
    network = Network([a_site("a"), a_site("b")], call_cost=given)
    assert {pair: network.sites[pair[0]].learner.arms.peers[pair[1]] for pair in paid} == paid


BAD_COSTS: list[tuple[Any, type[Exception], str]] = [
    (1.5, RewardError, r"call_cost must be a number in \[0, 1\], got 1.5 for calling a peer"),
    (float("nan"), RewardError, "got nan"),
    ("free", RewardError, "got 'free'"),
    (None, RewardError, "got None"),
    ({"b": 0.1}, NetworkError, "no cost for calling 'a'"),
    ({"a": 0.1, "b": -0.1}, RewardError, "got -0.1 for calling a peer"),
    ({"a": 0.1, "b": 0.1, "c": 0.2}, NetworkError, "a cost for 'c', which is not a site: there are a, b"),
]


@pytest.mark.parametrize(("cost", "error", "sentence"), BAD_COSTS, ids=[sentence for *_, sentence in BAD_COSTS])
def test_a_bad_call_cost_is_refused_and_the_sites_stay_as_they_were(
    cost: Any, error: type[Exception], sentence: str
) -> None:
    sites = [a_site("a"), a_site("b")]
    with pytest.raises(error, match=sentence):
        Network(sites, call_cost=cost)
    assert peers(*sites) == [[], []]


def test_a_site_whose_name_is_a_classifier_of_another_is_refused_and_nobody_has_met_it() -> None:
    network = Network([a_site("a"), a_site("b", classifiers={"c": high})])
    before = everything(network)
    stranger = a_site("c")
    with pytest.raises((ArmError, NetworkError), match="'c'"):
        network.add(stranger)
    assert everything(network) == before
    assert peers(*network.sites.values(), stranger) == [["b"], ["a"], []]


def test_a_site_that_joins_while_running_is_trained_and_the_others_keep_what_they_know() -> None:
    network = a_network("north", "south")
    list(network.run({"north": stream(60), "south": stream(60, 1)}))
    known = network.sites["north"].learner.cells()[0].estimates
    network.add(a_site("west"))
    now = network.sites["north"].learner.cells()[0].estimates
    assert {arm: now[arm] for arm in known} == known
    events = list(network.run({"north": stream(60, 2)}))
    assert any(event.decision.phase is Phase.TRAIN and event.decision.arm == "west" for event in events)


def test_a_site_that_leaves_is_forgotten_and_forgets() -> None:
    network = a_network()
    list(network.run(streams(40)))
    west = network.sites["west"]
    network.remove("west")
    assert peers(*network.sites.values(), west) == [["south"], ["north"], []]
    events = list(network.run({"north": stream(60, 2)}))
    assert {event.decision.arm for event in events} <= {"high", "low", "south"}
    assert west.classify({"x": 0.5}).arm in ("high", "low")
    with pytest.raises(NetworkError, match="no site 'west': it has north, south"):
        network.remove("west")


def test_answers_to_a_site_that_has_left_wait_no_longer() -> None:
    """Nobody will send their labels."""
    network = a_network("north", "south", policy=CoS(slices=1, order="train_first"))
    north, south = network.sites.values()
    north.classify_many([item for item, _ in stream(10)])
    assert south.pending()
    network.remove("north")
    assert south.pending() == {}


@pytest.mark.parametrize("label_delay", [0, 1, 5])
def test_streams_of_different_length_are_played_in_turn_and_every_label_is_told(label_delay: int) -> None:
    network = a_network()
    given = {"north": stream(3), "south": stream(20, 1), "west": stream(0)}
    events = list(network.run(given, label_delay=label_delay))
    turns = ["north", "south"] * 3 + ["south"] * 17
    assert [event.site for event in events] == turns
    assert [event.truth for event in events if event.site == "south"] == [truth for _, truth in given["south"]]
    assert [site.learner.arrivals for site in network.sites.values()] == [3, 20, 0]
    assert all(not site.pending() for site in network.sites.values())


@pytest.mark.parametrize("label_delay", [0, 1, 5])
def test_a_label_is_known_so_many_turns_later(label_delay: int) -> None:
    network = a_network("north")
    events = network.run({"north": stream(12)}, label_delay=label_delay)
    waiting = [len(network.sites["north"].pending()) for _ in events]
    # The event is handed over when its own item has been decided.
    assert waiting == [min(n, label_delay) for n in range(1, 13)]
    assert network.sites["north"].pending() == {}


def test_run_is_the_same_as_classify_and_learn_by_hand() -> None:
    played, by_hand = a_network(), a_network()
    events = list(played.run(streams(50), label_delay=1))
    decisions: list[Decision] = []
    for turn in zip(*streams(50).values(), strict=True):
        made = [by_hand.sites[name].classify(item) for name, (item, _) in zip(NAMES, turn, strict=True)]
        for name, decision, (_, truth) in zip(NAMES, made, turn, strict=True):
            by_hand.sites[name].learn(decision.id, truth)
        decisions += made
    assert [event.decision for event in events] == decisions
    assert everything(played) == everything(by_hand)


def test_run_passes_over_labels_of_decisions_that_were_dropped() -> None:
    network = a_network(patience=Patience(wait_limit=2))
    assert len(list(network.run(streams(20), label_delay=5))) == 60


@pytest.mark.parametrize(
    ("given", "delay", "error", "sentence"),
    [
        ({"nobody": []}, 1, NetworkError, "a stream for 'nobody', which is not a site"),
        ({}, -1, SettingError, "label_delay must be a whole number of at least 0, got -1"),
        ({}, 0.5, SettingError, "label_delay must be a whole number"),
        (5, 1, SettingError, "a mapping"),
        ({"north": 5}, 1, NetworkError, "stream of site 'north'"),
    ],
)
def test_run_refuses_what_it_cannot_play_at_once(given: Any, delay: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        a_network().run(given, label_delay=delay)


@pytest.mark.parametrize("row", [None, "ab", {"x": 0.5, "y": 1}, {1, 2}, (1, 2, 3)], ids=str)
def test_a_row_that_is_no_pair_is_named_by_site_and_number(row: Any) -> None:
    network, good = a_network("a", "b"), ({"x": 0.5}, 1)
    events = network.run({"a": [good] * 3, "b": [good, row]})
    with pytest.raises(NetworkError, match=r"row 2 of the stream of site 'b' must be a pair \(item, truth\)"):
        list(events)
    assert network.sites["b"].learner.arrivals == 1


CONTEXT = [PreviousLabel(0, 1), Feature("x", scale="rank", window=20)]
SETTINGS: list[dict[str, Any]] = [
    {"policy": QUICK},
    {"policy": CoS()},
    {"policy": CellKLUCB(), "context": CONTEXT},
    {"policy": CoS(horizon=60, order="random", share_labels="always"), "context": CONTEXT},
    {"policy": CoS(horizon=60), "patience": Patience(wait_limit=6, overdue=0.5)},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_network_that_was_saved_goes_on_as_one_that_never_stopped(settings: dict[str, Any], tmp_path: Path) -> None:
    """Saved with labels pending, which come after the load."""
    never_stopped, fresh = a_network(**settings), a_network(**settings)
    turns = list(zip(*streams(60).values(), strict=True))
    pending = []
    for n, turn in enumerate(turns[:30]):
        for name, (item, truth) in zip(NAMES, turn, strict=True):
            decision = never_stopped.sites[name].classify(item)
            if n % 3:
                never_stopped.sites[name].learn(decision.id, truth)
            else:
                pending.append((name, decision.id, truth))
    never_stopped.save(tmp_path / "saved")
    fresh.load(tmp_path / "saved")
    assert everything(fresh) == everything(never_stopped)
    for network in (never_stopped, fresh):
        for name, decision_id, truth in pending:
            if decision_id in network.sites[name].pending():
                network.sites[name].learn(decision_id, truth)
    rest = {name: [turn[n] for turn in turns[30:]] for n, name in enumerate(NAMES)}
    assert list(fresh.run(rest, label_delay=2)) == list(never_stopped.run(rest, label_delay=2))
    assert everything(fresh) == everything(never_stopped)


def test_a_save_that_fails_leaves_the_earlier_one_whole(tmp_path: Path) -> None:
    network = a_network()
    network.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for site in network.sites.values():
        site.classify({"x": 0.5})
    west = network.sites["west"]
    with pytest.warns(LabelWarning, match="no arm of site 'west' could have given"):
        west.learn(max(west.pending()), object())
    with pytest.raises(StateError, match="'west' cannot be saved: labels and kept items must be plain values"):
        network.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_disk_that_fills_up_leaves_the_earlier_save_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = a_network()
    network.save(tmp_path)
    before = (tmp_path / "network.npz").read_bytes()
    network.sites["west"].classify({"x": 0.5})

    def fills_up(member: Any, _: Any) -> None:
        member.write(b"the first half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cosend.store.state_file.npy.write_array_header_1_0", fills_up)
        with pytest.raises(StateError, match=r"network\.npz: cannot be written .*No space left"):
            network.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["network.npz"]
    assert (tmp_path / "network.npz").read_bytes() == before
    network.save(tmp_path)
    assert (tmp_path / "network.npz").read_bytes() != before


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    for folder in ("taken", "taken/below"):
        with pytest.raises(StateError, match=f"{folder}: cannot be made a folder"):
            a_network().save(tmp_path / folder)
    (tmp_path / "saved" / "network.npz.part").mkdir(parents=True)
    with pytest.raises(StateError, match=r"network\.npz: cannot be written"):
        a_network().save(tmp_path / "saved")


@pytest.mark.parametrize("folder", [None, b"saved", "sa\0ved"], ids=repr)
def test_what_is_no_folder_is_refused_by_save_and_load(folder: Any) -> None:
    for method in (a_network().save, a_network().load):
        with pytest.raises(SettingError, match="folder must be the path of a file or folder"):
            method(folder)


def test_what_was_saved_wins_over_what_the_sites_were_built_with(tmp_path: Path) -> None:
    costs = {"high": 0.5, "low": 0.0}
    a_network("a", policy=CoS(slices=3), seed=5, costs=costs).save(tmp_path)
    network = a_network("a")
    network.load(tmp_path)
    learner = network.sites["a"].learner
    assert (learner.policy, learner.seed, learner.arms.own) == (CoS(slices=3), 5, costs)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)


def swap(path: Path) -> None:
    states = load_states(NAMES, path.parent)
    save_states({**states, "west": states["north"]}, path.parent)


def with_fact(name: str, value: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        states = load_states(NAMES, path.parent)
        states["west"].facts[name] = value
        save_states(states, path.parent)

    return change


def forget_the_newest(path: Path) -> None:
    states = load_states(NAMES, path.parent)
    states["west"].facts["site"]["newest"] = None
    save_states(states, path.parent)


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (cut, "network.npz: not a whole saved state"),
    (flip, "network.npz: not a whole saved state"),
    (lambda path: path.unlink(), "network.npz: no such file"),
    (swap, "name 'north', the site has 'west'"),
    (with_fact("version", 3), "version 3; this cosend reads version 8"),
    (with_fact("site", {}), "'west' is damaged"),
    (forget_the_newest, "'west' is damaged"),
    (with_fact("policy", {"name": "CoS", "horizon": 3, "speed": 7}), "damaged.*speed"),
    (with_fact("own", {"high": 0.0, "other": 0.0}), "classifiers .*'other'.*the site has .*'low'"),
    (with_fact("peers", {"north": 0.1, "east": 0.1}), "peers .*'east'.*the site has .*'south'"),
    (with_fact("own", {"high": 0.0, "low": 7}), "damaged"),
]


@pytest.mark.parametrize(("damage", "sentence"), DAMAGE, ids=[f"{n} {said}" for n, (_, said) in enumerate(DAMAGE)])
def test_a_save_that_does_not_fit_is_refused_and_the_network_stays_as_it_was(
    damage: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    """West is the last to be read: the others must not be restored either."""
    a_network().save(tmp_path)
    damage(tmp_path / "network.npz")
    network = a_network()
    list(network.run(streams(5)))
    before = everything(network)
    with pytest.raises(StateError, match=sentence):
        network.load(tmp_path)
    assert everything(network) == before


@other_contexts
def test_a_save_with_another_context_is_refused(context: Any, tmp_path: Path) -> None:
    a_network().save(tmp_path)
    with pytest.raises(StateError, match="context"):
        a_network(context=context).load(tmp_path)
