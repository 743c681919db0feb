"""What a network refuses, and what a save that fails leaves behind."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from cosend import CoS, Network, Site
from cosend.axes import Feature
from cosend.errors import NetworkError, SettingError, StateError

NEW_NETWORK: Any = Network


def a_site(name: str, **options: Any) -> Site:
    return Site(name, classifiers={"one": lambda _: 1}, context=Feature("x", range=(0, 1)), **options)


def a_network(**options: Any) -> Network:
    return Network([a_site("a", **options), a_site("b", **options)], call_cost=0.1)


@pytest.mark.parametrize(
    "sites", [["a"], [a_site("a"), None], 5, None, "ab"], ids=["text", "a hole", "5", "None", "ab"]
)
def test_only_sites_make_a_network(sites: Any) -> None:
    with pytest.raises(SettingError, match="Site"):
        NEW_NETWORK(sites)


def test_only_a_site_joins_a_network() -> None:
    network: Any = a_network()
    with pytest.raises(SettingError, match="must be a Site, got 'c'"):
        network.add("c")
    assert list(network.sites) == ["a", "b"]


@pytest.mark.parametrize("key", ["c", ("a", "b"), 5], ids=str)
def test_a_call_cost_for_nobody_is_refused(key: Any) -> None:
    sites = [a_site("a"), a_site("b")]
    with pytest.raises(NetworkError) as caught:
        Network(sites, call_cost={"a": 0.1, "b": 0.1, key: 0.2})
    assert f"a cost for {key!r}, which is not a site: there are a, b" in str(caught.value)
    assert all(not site.peers for site in sites)


@pytest.mark.parametrize("row", [None, 5, "ab", {"x": 0.5, "y": 1}, {1, 2}, ({"x": 0.5},), (1, 2, 3)], ids=str)
def test_a_row_that_is_no_pair_is_named_by_site_and_number(row: Any) -> None:
    network = a_network()
    good = ({"x": 0.5}, 1)
    events = network.run({"a": [good] * 3, "b": [good, row]})
    with pytest.raises(NetworkError, match=r"row 2 of the stream of site 'b' must be a pair \(item, truth\)"):
        list(events)
    assert network.sites["b"].learner.arrivals == 1


@pytest.mark.parametrize(
    ("streams", "error", "said"), [(5, SettingError, "a mapping"), ({"a": 5}, NetworkError, "stream of site 'a'")]
)
def test_what_is_no_stream_is_refused_at_once(streams: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        a_network().run(streams)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_disk_that_fills_up_leaves_the_earlier_save_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = a_network()
    network.save(tmp_path)
    before = content(tmp_path)
    assert set(before) == {"network.npz"}
    network.sites["a"].classify({"x": 0.5})
    network.sites["b"].classify({"x": 0.5})

    def fills_up(member: Any, _: Any) -> None:
        member.write(b"the first half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cosend.store.state_file.npy.write_array_header_1_0", fills_up)
        with pytest.raises(StateError, match=r"network\.npz: cannot be written .*No space left"):
            network.save(tmp_path)
    assert content(tmp_path) == before
    network.save(tmp_path)
    assert set(content(tmp_path)) == set(before)
    assert content(tmp_path) != before


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    for folder in ("taken", "taken/below"):
        with pytest.raises(StateError, match=f"{folder}: cannot be made a folder"):
            a_network().save(tmp_path / folder)
    (tmp_path / "saved" / "network.npz.part").mkdir(parents=True)
    with pytest.raises(StateError, match=r"network\.npz: cannot be written"):
        a_network().save(tmp_path / "saved")


@pytest.mark.parametrize("folder", [None, 5, b"saved", "sa\0ved"], ids=repr)
def test_what_is_no_folder_is_refused_by_save_and_load(folder: Any) -> None:
    for method in (a_network().save, a_network().load):
        with pytest.raises(SettingError, match="folder must be the path of a file or folder"):
            method(folder)


def test_what_was_saved_wins_over_what_the_sites_were_built_with(tmp_path: Path) -> None:
    a_network(policy=CoS(slices=3), seed=5, costs={"one": 0.5}).save(tmp_path)
    network = a_network()
    network.load(tmp_path)
    learner = network.sites["a"].learner
    assert (learner.policy, learner.seed, learner.arms.own) == (CoS(slices=3), 5, {"one": 0.5})
