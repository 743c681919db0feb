"""Random networks and random settings of every policy, for Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

sizes = st.lists(st.integers(1, 4), min_size=2, max_size=5)
seeds = st.integers(0, 2**32)
delays = st.sampled_from([0, 1, 5, 40])


@st.composite
def cos(draw: st.DrawFn) -> dict[str, Any]:
    """Any mixture of settings that `CoS` allows."""
    exponent = draw(st.sampled_from([None, 0.05, 0.125, 0.5]))
    return {**_any(draw), **_quotas(draw), **_equal_cells(draw), "exploration_exponent": exponent}


@st.composite
def index(draw: st.DrawFn) -> dict[str, Any]:
    """Any mixture of settings that `CellKLUCB` allows."""
    return {**_any(draw), **_equal_cells(draw)}


@st.composite
def keeping(draw: st.DrawFn) -> dict[str, Any]:
    """Phases of a guessed horizon, with cells that soon grow finer: some labels come to cells never visited."""
    return {
        "alpha": draw(st.sampled_from([0.25, 0.5, 1.0])),
        "share_labels": draw(st.sampled_from(["training", "always"])),
        "wait_limit": draw(st.sampled_from([None, 10])),
        "default_reward": draw(st.sampled_from([None, 0.5])),
    }


@st.composite
def zooming(draw: st.DrawFn) -> dict[str, Any]:
    """Any mixture of settings that `Zooming` allows."""
    contexts = draw(st.sampled_from(["uniform", "concentrated"]))
    return {**_any(draw), **_quotas(draw), **_cubes(draw), "contexts": contexts}


@st.composite
def zooming_index(draw: st.DrawFn) -> dict[str, Any]:
    """Any mixture of settings that `ZoomingKLUCB` allows."""
    steepness = {"lipschitz": draw(st.sampled_from([0.5, 1.0, 3.0, 20.0]))} if draw(st.booleans()) else {}
    return {**_any(draw), **_cubes(draw), **steepness}


@st.composite
def mixed(draw: st.DrawFn) -> dict[str, Any]:
    """Any mixture of settings that `MixedViews` allows."""
    chosen = {name: value for name, value in _any(draw).items() if name != "alpha"}
    chosen["max_cells"] = draw(st.sampled_from([None, None, 1, 7, 60]))
    return {
        **chosen,
        "share": draw(st.sampled_from([0.035, 0.3])),
        "bonus": draw(st.sampled_from([0.05, 0.0, 2.0])),
        "home_margin": draw(st.sampled_from([0.02, 0.0, 0.2])),
        "adds_up": draw(st.booleans()),
    }


def _any(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "alpha": draw(st.sampled_from([0.5, 1.0, 2.0])),
        "share_labels": draw(st.sampled_from(["training", "always"])),
        "max_cells": draw(st.sampled_from([None, None, 1, 5, 30])),
        "wait_limit": draw(st.sampled_from([None, None, 1, 3, 20])),
        "max_pending": draw(st.sampled_from([1_000_000, 2, 10])),
        "default_reward": draw(st.sampled_from([None, 0.0, 0.5])),
    }


def _quotas(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "order": draw(st.sampled_from(["pseudocode", "random", "train_first"])),
        "training_count": draw(st.sampled_from(["reported", "own_and_mine"])),
        "max_peer_functions": draw(st.sampled_from([None, 1, 2, 3, 4])),
    }


def _equal_cells(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["horizon", "slices", "doubling"]))
    most = {"horizon": 500, "slices": 4}
    return {kind: draw(st.integers(1, most[kind]))} if kind in most else {}


def _cubes(draw: st.DrawFn) -> dict[str, Any]:
    """Draw when cubes split and what their children inherit; a small alpha and an early split make deep cubes."""
    chosen: dict[str, Any] = {"alpha": draw(st.sampled_from([0.1, 0.3, 1.0, 2.0]))}
    if draw(st.booleans()):
        chosen["split_after"] = draw(st.sampled_from([0.5, 1.0, 3.0, 10.0, 30.0]))
    if draw(st.booleans()):
        chosen["inherit"] = draw(st.sampled_from([0.0, 0.7, 2.0, 20.0]))
    return chosen


lasting = st.sampled_from([None, 15, 40])  # slots until good arms become bad


def categories(dimensions: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(0, dimensions - 1), min_size=1)
