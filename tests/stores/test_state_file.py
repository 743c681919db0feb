"""A saved state as a file: it comes back as it was, or an error says what is wrong with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import CellKLUCB, CoS, Learner, Patience
from cosend.algorithm.state import State
from cosend.algorithm.values import AskPeer, Choice, LabelledData
from cosend.errors import SettingError, StateError
from cosend.store.state_file import read_state, write_state

ROOT = Path(__file__).parents[2]
POLICIES = {
    "doubling": CoS(),
    "keep": CellKLUCB(),
    "random": CoS(horizon=100, order="random"),
    "cells": CoS(slices=5, exploration_exponent=0.1, share_labels="always"),
}


def choice_for(learner: Learner, context: tuple[float, ...]) -> Choice:
    """Choose; a peer that must be asked has as much labelled data as this site has arrivals."""
    told: dict[str, LabelledData] = {}
    made = learner.choose(context, told)
    while isinstance(made, AskPeer):
        told[made.peer] = LabelledData(learner.arrivals // 2, learner.arrivals // 3)
        made = learner.choose(context, told)
    return made


def go_on(learner: Learner, count: int) -> list[list[Any]]:
    """Choose for so many items, answer a peer now and then, learn most labels late; returns all that was decided."""
    decided: list[list[Any]] = []
    for _ in range(count):
        n = learner.arrivals + 1
        context = (n * 0.37 % 1, n * 0.61 % 1)
        made = choice_for(learner, context)
        decided.append([made.id, made.phase.name, made.arm, made.cell, made.propensity])
        if n % 4 == 0:
            decided.append(list(learner.answer(context, caller="hq", request=n, training=True)))
        for late in (made.id - 3, made.id - 7):
            if late % 5 and late in learner.registry:
                learner.learn(late, float(made.arm == "forest"))
    return decided


def a_learner(policy: str = "cells", count: int = 40) -> Learner:
    learner = Learner(
        "lab",
        own={"tree": 0.0, "forest": 0.1},
        peers={"hq": 0.05, "far": 0.2},
        dimensions=2,
        policy=POLICIES[policy],
        patience=Patience(wait_limit=30, overdue=0.25),
        seed=11,
    )
    go_on(learner, count)
    return learner


def same(one: State, other: State) -> bool:
    arrays = one.arrays.keys() == other.arrays.keys() and all(
        one.arrays[name].dtype == other.arrays[name].dtype and np.array_equal(one.arrays[name], other.arrays[name])
        for name in one.arrays
    )
    return arrays and json.dumps(one.facts) == json.dumps(other.facts)


@cache
def saved_bytes(folder: Path) -> bytes:
    write_state(a_learner().state(), folder / "whole.npz")
    return (folder / "whole.npz").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return saved_bytes(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_comes_back_as_it_was(policy: str, count: int, tmp_path: Path) -> None:
    state = a_learner(policy, count).state()
    write_state(state, tmp_path / "lab.npz")
    assert same(read_state(tmp_path / "lab.npz"), state)
    assert same(Learner.from_state(read_state(str(tmp_path / "lab.npz"))).state(), state)


@given(
    facts=st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans())),
    numbers=st.lists(st.floats(allow_nan=False)),
)
def test_any_facts_and_numbers_come_back_as_they_were(
    facts: dict[str, Any], numbers: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.npz"
    state = State(facts, {"numbers": np.array(numbers, np.float64)})
    write_state(state, path)
    assert same(read_state(path), state)


@pytest.mark.compiled
def test_states_load_in_a_new_process_and_go_on_with_identical_decisions(tmp_path: Path) -> None:
    learners = [a_learner(policy) for policy in POLICIES]
    files = [tmp_path / f"{policy}.npz" for policy in POLICIES]
    for learner, file in zip(learners, files, strict=True):
        write_state(learner.state(), file)
    program = (
        "import json, sys\n"
        "from cosend import Learner, read_state\n"
        "from tests.stores.test_state_file import go_on\n"
        "print(json.dumps([go_on(Learner.from_state(read_state(file)), 80) for file in sys.argv[1:]]))\n"
    )
    command = [sys.executable, "-c", program, *map(str, files)]
    done = subprocess.run(  # noqa: S603 - our own
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == json.loads(json.dumps([go_on(learner, 80) for learner in learners]))


def test_a_state_is_a_snapshot_that_later_events_do_not_touch() -> None:
    learner = a_learner()
    state = learner.state()
    before = json.dumps(state.facts), {name: array.copy() for name, array in state.arrays.items()}
    learner.set_cost("tree", 0.9)
    learner.add_own("new")
    learner.remove("far")
    go_on(learner, 5)
    assert json.dumps(state.facts) == before[0]
    assert all(np.array_equal(state.arrays[name], array) for name, array in before[1].items())


def test_a_learner_does_not_touch_the_state_it_came_from() -> None:
    state = a_learner().state()
    before = json.dumps(state.facts), {name: array.copy() for name, array in state.arrays.items()}
    learner = Learner.from_state(state)
    learner.set_cost("tree", 0.9)
    go_on(learner, 20)
    assert json.dumps(state.facts) == before[0]
    assert all(np.array_equal(state.arrays[name], array) for name, array in before[1].items())


def test_writing_replaces_what_was_there_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "lab.npz"
    target.write_text("old")
    write_state(a_learner().state(), target)
    write_state(a_learner("keep").state(), target)
    assert read_state(target).facts["policy"]["name"] == "CellKLUCB"
    assert [path.name for path in tmp_path.iterdir()] == ["lab.npz"]


def test_a_file_cut_short_anywhere_is_found_out(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.npz"
    lengths = sorted({*range(0, len(whole), 97), *range(100), *range(len(whole) - 100, len(whole))})
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(StateError, match=r"cut\.npz: not a whole saved state"):
            read_state(path)


def test_a_flipped_bit_is_found_out_or_does_no_harm(whole: bytes, tmp_path: Path) -> None:
    """Some bytes of an archive say nothing that is read, such as dates. All others must be found out, as our error."""
    path = tmp_path / "flipped.npz"
    path.write_bytes(whole)
    original = read_state(path)
    raw: dict[str, list[str]] = {}
    harm: list[str] = []
    found = 0
    places = [place for place in range(len(whole)) if place % 13 == 0 or not 400 < place < len(whole) - 700]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            state = read_state(path)
            Learner.from_state(state)
        except StateError:
            found += 1
        except Exception as error:  # collected, to show them all at once
            raw.setdefault(type(error).__name__, []).append(f"byte {place}, bit {place % 8}: {error}")
        else:
            harm += [] if same(state, original) else [f"byte {place}, bit {place % 8}"]
    assert not harm
    assert found > len(places) // 2
    assert not raw


FLAGS, METHOD = 6, 8  # where the header of an archive's member has them


@pytest.mark.parametrize(
    ("offset", "value"), [(FLAGS, 1), (FLAGS, 32), (FLAGS, 64), (METHOD, 9), (METHOD, 12), (METHOD, 14)]
)
def test_an_archive_that_claims_to_be_encrypted_or_compressed_is_found_out(
    offset: int, value: int, whole: bytes, tmp_path: Path
) -> None:
    """It is changed for the first member, both in its header and in the directory of the archive."""
    damaged = bytearray(whole)
    damaged[offset] = damaged[whole.index(b"PK\x01\x02") + offset + 2] = value
    (tmp_path / "flags.npz").write_bytes(damaged)
    with pytest.raises(StateError, match=r"flags\.npz: not a whole saved state"):
        read_state(tmp_path / "flags.npz")


def write_npy(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.arange(3))


def write_npz(**arrays: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, **arrays)

    return write


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("facts_json", "{}")


def claiming(shape: tuple[int, ...], dtype: str = "<f8", data: bytes = b"12345678", **zipped: Any) -> Any:
    """Write an archive whose array claims a shape, whatever it holds."""

    def write(path: Path) -> None:
        header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data
        with zipfile.ZipFile(path, "w", **zipped) as archive:
            archive.writestr("facts_json.npy", array)

    return write


def bytes_of(text: str) -> Any:
    return np.frombuffer(text.encode(), np.uint8)


NOT_A_STATE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello"),
    "pickle": lambda path: path.write_bytes(b"\x80\x04K\x05."),
    "folder": lambda path: path.mkdir(),
    "npy": write_npy,
    "zip of other things": write_zip,
    "npz of other things": write_npz(a=np.arange(3)),
    "facts that are no JSON": write_npz(facts_json=bytes_of("{")),
    "facts that are no text": write_npz(facts_json=np.array([0xFF, 0xFE], np.uint8)),
    "facts that are a list": write_npz(facts_json=bytes_of("[1]")),
    "facts that are a number": write_npz(facts_json=bytes_of("7")),
    "an array of 8 exabytes": claiming((10**18,)),
    "an array of no end": claiming((10**30, 10**30)),
    "an array of less than nothing": claiming((-1,)),
    "two wrongs": claiming((-1, -1)),
    "a row less than it claims": claiming((2,)),
    "a row more than it claims": claiming((0,)),
    "nothing, very often": claiming((10**18,), "|V0", b""),
    "gigabytes, compressed": claiming((2**27,), data=bytes(2**24), compression=zipfile.ZIP_DEFLATED),
    "pickled objects": write_npz(facts_json=bytes_of("{}"), a=np.array([{"a": 1}], object)),
}


@pytest.mark.parametrize("kind", NOT_A_STATE)
def test_a_file_that_is_no_state_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    NOT_A_STATE[kind](path)
    with pytest.raises(StateError, match=r"other\.npz: not a (whole )?saved state"):
        read_state(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"nothing\.npz: no such file"):
        read_state(tmp_path / "nothing.npz")


@pytest.mark.parametrize("version", [0, 6, 8, "7", None])
def test_another_version_is_refused_with_both_versions_named(version: Any, tmp_path: Path) -> None:
    state = a_learner().state()
    state.facts["version"] = version
    write_state(state, tmp_path / "lab.npz")
    with pytest.raises(StateError, match=f"version {version!r}; this cosend reads version 7"):
        Learner.from_state(read_state(tmp_path / "lab.npz"))


@pytest.mark.parametrize("part", ["name", "own", "peers", "policy", "patience", "functions", "last_id", "seed"])
def test_a_missing_fact_is_found_out(part: str) -> None:
    state = a_learner().state()
    del state.facts[part]
    with pytest.raises(StateError, match=f"damaged.*{part}"):
        Learner.from_state(state)


@pytest.mark.parametrize("part", ["site", "cells", "rewards", "counts", "pending", "pending_contexts"])
def test_a_missing_or_misshapen_array_is_found_out(part: str) -> None:
    state = a_learner().state()
    with pytest.raises(StateError, match="damaged"):
        Learner.from_state(State(state.facts, {**state.arrays, part: state.arrays[part][:-1]}))
    del state.arrays[part]
    with pytest.raises(StateError, match=f"damaged.*{part}"):
        Learner.from_state(state)


@pytest.mark.parametrize("target", ["missing/lab.npz", "file/lab.npz", "folder"])
def test_a_state_that_cannot_be_written_raises_and_leaves_nothing_behind(target: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("a file")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StateError, match="cannot be written"):
        write_state(a_learner().state(), tmp_path / target)
    assert sorted(tmp_path.rglob("*")) == before


def test_facts_that_cannot_be_written_leave_the_old_file_whole(tmp_path: Path) -> None:
    target = tmp_path / "lab.npz"
    state = a_learner().state()
    write_state(state, target)
    with pytest.raises(StateError, match="not plain data"):
        write_state(State({**state.facts, "extra": object()}, state.arrays), target)
    with pytest.raises(StateError, match="not plain data"):
        write_state(State(state.facts, {"extra": np.array([object()])}), target)
    assert same(read_state(target), state)
    assert [path.name for path in tmp_path.iterdir()] == ["lab.npz"]


@pytest.mark.parametrize("path", [None, 5, b"lab.npz", ["lab.npz"], "la\0b.npz"], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(SettingError, match="path must be the path of a file"):
        read_state(path)
    with pytest.raises(SettingError, match="path must be the path of a file"):
        write_state(a_learner().state(), path)


def test_what_is_no_state_is_not_written(tmp_path: Path) -> None:
    nothing: Any = None
    with pytest.raises(SettingError, match=r"state must be a State, .*got None"):
        write_state(nothing, tmp_path / "lab.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3).T, np.array(7.5), np.zeros((0, 4)), np.array(["a"])])
def test_every_shape_and_order_comes_back_as_it_was_and_can_be_changed(array: Any, tmp_path: Path) -> None:
    write_state(State({}, {"it": array}), tmp_path / "a.npz")
    back = read_state(tmp_path / "a.npz").arrays["it"]
    assert back.tolist() == array.tolist()
    assert (back.shape, back.dtype, back.flags.writeable) == (array.shape, array.dtype, True)


def test_numbers_of_numpy_are_saved_like_all_others(tmp_path: Path) -> None:
    patience: Any = {"wait_limit": np.int64(3), "overdue": np.float32(0.1)}
    small: Any = np.float32(0.1)
    learner = Learner("lab", own={"tree": small}, policy=CoS(alpha=small), patience=Patience(**patience))
    write_state(learner.state(), tmp_path / "lab.npz")
    assert same(Learner.from_state(read_state(tmp_path / "lab.npz")).state(), learner.state())
