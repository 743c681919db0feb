"""The states of several sites in a folder are one whole save, whoever else writes there or has written before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cosend.algorithm.state import State
from cosend.errors import StateError
from cosend.store.state_file import BUNDLE, load_states, save_states, write_state


def a_state(number: int) -> State:
    return State({"number": number}, {"numbers": np.full(500, number), "more/numbers": np.zeros(3)})


@pytest.mark.parametrize("names", [("a",), ("north", "south"), ("0", "1/0", "a b/..", "\N{SNOWMAN}", "network")])
def test_states_come_back_as_they_were_whatever_the_sites_are_called(names: tuple[str, ...], tmp_path: Path) -> None:
    save_states({name: a_state(n) for n, name in enumerate(names)}, tmp_path / "new" / "folder")
    loaded = load_states(names, tmp_path / "new" / "folder")
    assert list(loaded) == list(names)
    for n, state in enumerate(loaded.values()):
        assert state.facts == {"number": n}
        assert {name: array.tolist() for name, array in state.arrays.items()} == {
            "numbers": [n] * 500,
            "more/numbers": [0.0] * 3,
        }
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [BUNDLE]


def test_many_that_save_at_once_leave_the_whole_save_of_one_of_them(tmp_path: Path) -> None:
    def save(number: int) -> None:
        for _ in range(4):
            save_states({"a": a_state(number), "b": a_state(number)}, tmp_path)
            loaded = load_states(["a", "b"], tmp_path)
            assert loaded["a"].facts == loaded["b"].facts
            assert set(loaded["a"].arrays["numbers"].tolist()) == {loaded["b"].facts["number"]}

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(8)))
    assert [path.name for path in tmp_path.iterdir()] == [BUNDLE]


def test_a_site_that_was_not_saved_is_named_and_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    save_states({"north": a_state(1), "south": a_state(1)}, tmp_path)
    with pytest.raises(StateError, match=r"no state of site 'west'; it has 'north', 'south'"):
        load_states(["north", "west"], tmp_path)
    for facts, arrays in (({}, {}), ({"sites": [["a"]]}, {}), ({"sites": [["a", {}]]}, {"1/numbers": np.zeros(1)})):
        write_state(State(facts, arrays), tmp_path / BUNDLE)
        with pytest.raises(StateError, match=r"network\.npz: not the saved states of a network"):
            load_states(["a"], tmp_path)
