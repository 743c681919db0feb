"""The whole state of a learner as plain data: JSON values and number arrays, nothing that runs code when it is read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm import layout as col
from cosend.algorithm.cells import DEEPEST, NEVER, ROOTS, bits_of
from cosend.algorithm.layout import Ledger, grown, reindex
from cosend.algorithm.mixture_views import fits_pattern
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import policy_from
from cosend.errors import CosendError, StateError

if TYPE_CHECKING:
    from cosend.algorithm.learner import Learner

VERSION: Final = 7
LEDGER_ARRAYS: Final = ("site", "cells", "rewards", "counts", "views")

# Columns of `Ledger.site` that move with what happens; the others are settings.
COUNTED: Final = (
    col.ARRIVALS,
    col.LAST_ID,
    col.ROWS,
    col.MAX_PEER_FUNCTIONS,
    col.EPOCH,
    col.EPOCH_START,
    col.EPOCH_LENGTH,
    col.QUOTA_START,
    col.PATTERN,
    col.NEWEST,
)


class Json(tuple[bytes, ...]):
    """A fact that is JSON already, in pieces, because it is too long to be made with the others."""


class State(NamedTuple):
    """A saved state: `facts` are JSON values, `arrays` numbers."""

    facts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def state_of(learner: Learner) -> State:
    """Return everything a learner needs to go on as if it had never stopped."""
    state = state_but_pending(learner)
    state.arrays["pending"], state.arrays["pending_contexts"] = learner.registry.arrays()
    return state


def state_but_pending(learner: Learner) -> State:
    """Return all of a state but what is pending, which can be larger than all the rest."""
    ledger, arms = learner.ledger, learner.arms
    rows = int(ledger.site[col.ROWS])
    facts = {
        "version": VERSION,
        "name": learner.name,
        "seed": learner.seed,
        "dimensions": learner.given,
        "features": [list(each) for each in learner.features],
        "categories": bits_of(learner.categories),
        "policy": learner.policy.facts(),
        "patience": asdict(learner.patience),
        "own": dict(arms.own),
        "peers": dict(arms.peers),
        "functions": dict(arms.functions),
        "paused": sorted(arms.paused),
        "score_local": learner.score_local,
        "last_id": learner.last_id,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "site": ledger.site[: col.SITE_COLUMNS],
        "cells": ledger.cells[:rows],
        "rewards": ledger.rewards[:rows],
        "counts": ledger.counts[:rows],
        "views": ledger.views,
    }
    return State(facts, {name: array.copy() for name, array in arrays.items()})


def restored(kind: type[Learner], state: State) -> Learner:
    """Return the learner that a state was taken from."""
    check_version(state.facts)
    try:
        return _rebuilt(kind, state.facts, state.arrays)
    except StateError:
        raise
    except (CosendError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StateError(f"the saved state of a learner is damaged: {error!r}") from error


def check_version(facts: dict[str, Any]) -> None:
    """Raise unless the facts were written by a version that this one can read."""
    if facts.get("version") != VERSION:
        raise StateError(f"the saved state has version {facts.get('version')!r}; this cosend reads version {VERSION}")


def _rebuilt(kind: type[Learner], facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Learner:
    learner = kind(
        facts["name"],
        own=facts["own"],
        peers=facts["peers"],
        dimensions=facts["dimensions"],
        categories=facts["categories"],
        policy=policy_from(facts["policy"]),
        patience=Patience(**facts["patience"]),
        seed=facts["seed"],
        score_local=facts["score_local"],
    )
    for count, same, changed in facts["features"]:
        learner.add_axes(count, same, [0.0] * min(changed, count + 1))
    learner.arms.functions.update(facts["functions"])
    for name in facts["paused"]:
        learner.pause(name)
    _check_arrays(arrays, learner, facts["last_id"])
    rows = len(arrays["cells"])
    ledger = learner.ledger
    if rows > ledger.cells.shape[0]:
        ledger = grown(ledger, rows)
    ledger.site[: col.SITE_COLUMNS] = arrays["site"]
    ledger.views[:] = arrays["views"]
    ledger.cells[:rows] = arrays["cells"]
    ledger.rewards[:rows] = arrays["rewards"]
    ledger.counts[:rows] = arrays["counts"]
    reindex(ledger)
    learner.registry.fill(arrays["pending"], arrays["pending_contexts"])
    learner.memory.use(ledger)
    return learner


def _check_arrays(arrays: dict[str, npt.NDArray[Any]], learner: Learner, last_id: int) -> None:
    """Raise unless the arrays fit the learner and each other: compiled code does not check its indices."""
    ledger, site, cells, waiting = learner.ledger, arrays["site"], arrays["cells"], arrays["pending"]
    contexts, rows = arrays["pending_contexts"], len(cells)
    sound = (
        all(arrays[name].dtype == getattr(ledger, name).dtype for name in LEDGER_ARRAYS)
        and site.shape == (col.SITE_COLUMNS,)
        and np.array_equal(np.delete(site, COUNTED), np.delete(ledger.site[: col.SITE_COLUMNS], COUNTED))
        and site[col.ROWS] == rows
        and site[col.LAST_ID] == last_id
        and site[col.EPOCH_LENGTH] >= ledger.site[col.EPOCH_LENGTH]
        and cells.shape == (rows, col.CELL_COLUMNS)
        and _fits_cells(cells, ledger)
        and arrays["rewards"].shape == (rows, *ledger.rewards.shape[1:])
        and _fits_rewards(arrays["rewards"])
        and arrays["counts"].shape == (rows, *ledger.counts.shape[1:])
        and _fits_counts(arrays["counts"], cells, bool(site[col.ZOOMS]))
        and waiting.dtype == np.int64
        and waiting.shape[1:] == (5,)
        and bool(((waiting[:, 0] >= 1) & (waiting[:, 0] <= last_id) & (np.diff(waiting[:, 0], prepend=0) > 0)).all())
        and bool(((waiting[:, 1] >= 0) & (waiting[:, 2] >= 0) & (waiting[:, 2] < len(ledger.costs))).all())
        and (not site[col.STEADY] or bool((waiting[:, 1] < rows).all()))
        and contexts.dtype == np.float64
        and contexts.shape == (len(waiting), learner.memory.late_width)
        and learner.memory.fits(arrays)
        and fits_pattern(site[col.PATTERN], len(ledger.costs))
        and 0 <= site[col.NEWEST] <= last_id
    )
    if not sound:
        raise StateError("the saved state of a learner is damaged: its arrays do not fit each other")


def _fits_cells(cells: npt.NDArray[Any], ledger: Ledger) -> bool:
    """Tell whether every cell has one row, and the parent of a cube a smaller one."""
    keys, levels = cells[:, col.CELL_KEY], cells[:, col.CELL_LEVEL]
    numbers, views = np.divmod(keys, len(ledger.views))
    parents = (numbers - 1) >> ledger.views[views, col.VIEW_AXIS_COUNT].astype(np.int64)
    if ledger.site[col.CATEGORIES]:
        parents = np.where(numbers >= ROOTS, -1, parents)  # the roots of categories have no parents
    return (
        len(np.unique(keys)) == len(keys)
        and bool((keys >= 0).all())
        and bool((cells[:, col.CELL_LABELS] >= 0).all())
        and bool(((levels >= -1 - DEEPEST) & (levels <= DEEPEST)).all())
        and (ledger.site[col.ZOOMS] == NEVER or bool((parents < np.arange(len(keys))).all()))
    )


def _fits_counts(counts: npt.NDArray[Any], cells: npt.NDArray[Any], splits: bool) -> bool:
    """Tell whether pending counts are >= 0 and answers <= pending; splitting a cube resets them."""
    waiting, answering = counts[..., col.PENDING], cells[:, col.CELL_ANSWERING]
    return bool(
        (waiting >= 0).all()
        and (counts[..., col.TRAINING_PENDING] >= 0).all()
        and (splits or ((answering >= 0) & (answering <= waiting.sum(axis=1))).all())
    )


def _fits_rewards(rewards: npt.NDArray[Any]) -> bool:
    """Tell whether rewards are numbers, and counts of them not negative."""
    return bool(np.isfinite(rewards).all() and (rewards[..., col.REWARD_COUNT] >= 0.0).all())
