"""The whole state of a learner as plain data: JSON values and number arrays, nothing that runs code when it is read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.core import columns as col
from cosend.core.learner import Learner
from cosend.core.ledger import Ledger, grown, reindex
from cosend.core.policy import policy_from
from cosend.core.waiting import CONTEXT, Patience
from cosend.errors import CosendError, StateError

VERSION: Final = 2


class State(NamedTuple):
    """A saved state: `facts` are JSON values, `arrays` numbers."""

    facts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def learner_state(learner: Learner) -> State:
    """Return everything a learner needs to go on as if it had never stopped."""
    ledger, room, arms = learner.ledger, learner.room, learner.arms
    rows = int(ledger.site[col.ROWS])
    entries = list(room.entries.items())
    facts = {
        "version": VERSION,
        "name": learner.name,
        "seed": learner.seed,
        "dimensions": learner.dimensions,
        "policy": learner.policy.facts(),
        "patience": asdict(room.patience),
        "own": dict(arms.own),
        "peers": dict(arms.peers),
        "functions": dict(arms.functions),
        "last_id": room.last,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "site": ledger.site,
        "cells": ledger.cells[:rows],
        "rewards": ledger.rewards[:rows],
        "counts": ledger.counts[:rows],
        "views": ledger.views,
        "waiting": np.array([(id_, *entry[:CONTEXT]) for id_, entry in entries], np.int64).reshape(-1, 5),
        "waiting_contexts": np.array([entry[CONTEXT] for _, entry in entries], np.float64),
    }
    return State(facts, {name: array.copy() for name, array in arrays.items()})


def learner_from(state: State) -> Learner:
    """Return the learner that a state was taken from."""
    check_version(state.facts)
    try:
        return _rebuilt(state.facts, state.arrays)
    except StateError:
        raise
    except (CosendError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StateError(f"the saved state of a learner is damaged: {error!r}") from error


def check_version(facts: dict[str, Any]) -> None:
    """Raise unless the facts were written by a version that this one can read."""
    if facts.get("version") != VERSION:
        raise StateError(f"the saved state has version {facts.get('version')!r}; this cosend reads version {VERSION}")


def _rebuilt(facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Learner:
    learner = Learner(
        facts["name"],
        own=facts["own"],
        peers=facts["peers"],
        dimensions=facts["dimensions"],
        policy=policy_from(facts["policy"]),
        patience=Patience(**facts["patience"]),
        seed=facts["seed"],
    )
    learner.arms.functions.update(facts["functions"])
    rows = len(arrays["cells"])
    ledger = learner.ledger
    if rows > ledger.cells.shape[0]:
        ledger = grown(ledger, rows)
    _check_arrays(arrays, rows, ledger, facts["last_id"])
    ledger.site[:] = arrays["site"]
    ledger.views[:] = arrays["views"]
    ledger.cells[:rows] = arrays["cells"]
    ledger.rewards[:rows] = arrays["rewards"]
    ledger.counts[:rows] = arrays["counts"]
    reindex(ledger)
    learner.replace_ledger(ledger)
    learner.room.last = facts["last_id"]
    contexts = [tuple(point) for point in arrays["waiting_contexts"].tolist()]
    for entry, context in zip(arrays["waiting"].tolist(), contexts, strict=True):
        id_, row, arm, kind, arrival = entry
        learner.room.entries[id_] = (row, arm, kind, arrival, context)
    return learner


def _check_arrays(arrays: dict[str, npt.NDArray[Any]], rows: int, ledger: Ledger, last_id: int) -> None:
    """Raise unless the arrays fit each other: compiled code does not look where it reads."""
    site, waiting, arms = arrays["site"], arrays["waiting"], len(ledger.costs)
    sound = (
        site.shape == (col.SITE_COLUMNS,)
        and site[col.ROWS] == rows
        and site[col.ARM_COUNT] == arms
        and site[col.TICKETS] == last_id
        and site[col.VIEWS] == len(ledger.views)
        and 0 <= site[col.TRUSTED] < site[col.CANDIDATES] <= site[col.VIEWS]
        and arrays["views"].shape == ledger.views.shape
        and bool((arrays["views"][:, col.VIEW_SLICES] >= 1).all())
        and arrays["rewards"].shape == (rows, *ledger.rewards.shape[1:])
        and arrays["counts"].shape == (rows, arms, col.COUNT_COLUMNS)
        and len(np.unique(arrays["cells"][:, col.CELL_KEY])) == rows
        and waiting.shape[1:] == (5,)
        and bool(((waiting[:, 0] >= 1) & (waiting[:, 0] <= last_id)).all())
        and bool(((waiting[:, 1] >= 0) & (waiting[:, 2] >= 0) & (waiting[:, 2] < arms)).all())
        and (not site[col.STEADY] or bool((waiting[:, 1] < rows).all()))
        and arrays["waiting_contexts"].size == (0 if site[col.STEADY] else len(waiting) * site[col.DIMENSIONS])
    )
    if not sound:
        raise StateError("the saved state of a learner is damaged: its arrays do not fit each other")
