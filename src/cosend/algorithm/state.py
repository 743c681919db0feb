"""The whole state of a learner as plain data: JSON values and number arrays, nothing that runs code when it is read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm import layout as col
from cosend.algorithm.cells import LARGEST_KEY, bits_of
from cosend.algorithm.layout import grown, reindex
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import policy_from
from cosend.errors import CosendError, StateError

if TYPE_CHECKING:
    from cosend.algorithm.learner import Learner

VERSION: Final = 8

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
    col.PAID_EXPLORED,
    col.SCORES,
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
        "improving": sorted(arms.improving),
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
        improving=facts["improving"],
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
    columns = [col.VIEW_SLICES, col.VIEW_WEIGHT]  # the others are laid out by now
    ledger.views[:, columns] = arrays["views"][:, columns]
    ledger.cells[:rows] = arrays["cells"]
    ledger.rewards[:rows] = arrays["rewards"]
    ledger.counts[:rows] = arrays["counts"]
    reindex(ledger)
    learner.registry.fill(arrays["pending"], arrays["pending_contexts"])
    learner.memory.use(ledger)
    return learner


def _same_scores(saved: int, fresh: int) -> bool:
    """Tell whether a learner with this setting can have saved this value."""
    return saved in ((col.ALL_FREE, col.SOME_FREE) if fresh else (col.ONLY_USED,))


def _check_arrays(arrays: dict[str, npt.NDArray[Any]], learner: Learner, last_id: int) -> None:
    """Raise unless the arrays fit the learner and each other: compiled code does not check its indices.

    What a file says is not looked at beyond that, because it has checksums.
    """
    ledger, site, pending, slices = (
        learner.ledger,
        arrays["site"],
        arrays["pending"],
        arrays["views"][:, col.VIEW_SLICES],
    )
    rows, arms = len(arrays["cells"]), pending[:, col.PENDING_ARM]
    forms: dict[str, tuple[type, tuple[int, ...]]] = {
        "site": (np.int64, (col.SITE_COLUMNS,)),
        "cells": (np.int64, (rows, col.CELL_COLUMNS)),
        "rewards": (np.float64, (rows, *ledger.rewards.shape[1:])),
        "counts": (np.int32, (rows, *ledger.counts.shape[1:])),
        "views": (np.float64, ledger.views.shape),
        "pending": (np.int64, (len(pending), col.PENDING_FACTS)),
        "pending_contexts": (np.float64, (len(pending), learner.memory.late_width)),
    }
    sound = (
        all(arrays[name].dtype == kind and arrays[name].shape == shape for name, (kind, shape) in forms.items())
        and np.array_equal(np.delete(site, COUNTED), np.delete(ledger.site[: col.SITE_COLUMNS], COUNTED))
        and (site[col.ROWS], site[col.LAST_ID]) == (rows, last_id)
        and site[col.PATTERN] >= 0
        and _same_scores(int(site[col.SCORES]), int(ledger.site[col.SCORES]))
        and ((arrays["cells"][:, col.CELL_KEY] >= 0).all() and ((slices >= 1) & (slices <= LARGEST_KEY)).all())
        and ((arms >= 0) & (arms < len(ledger.costs))).all()
        and learner.memory.fits(pending[:, col.PENDING_ROW], arrays["pending_contexts"], rows)
    )
    if not sound:
        raise StateError("the saved state of a learner is damaged: its arrays do not fit each other")
