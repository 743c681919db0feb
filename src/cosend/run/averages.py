"""Means over several streams, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from cosend.errors import CosendError, install

CONFIDENCE: Final = 0.95
KEYS: Final = ("error", "mean_reward", "sent", "cost", "training", "exploration", "regret")

Rows = Sequence[Mapping[str, Any]]


def averaged(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one result for all streams: means of numbers, and the first stream where a figure shows a single one."""
    first = {key: value for key, value in results[0].items() if key not in ("seed", "data")}
    policies = list(dict.fromkeys(row["policy"] for row in first["rows"]))
    return {
        **first,
        "seeds": [each["seed"] for each in results],
        "data": [each["data"] for each in results],
        "models": _mean([each["models"] for each in results]),
        "rows": _mean_rows([each["rows"] for each in results]),
        "overall": [_overall(policy, [each["rows"] for each in results], first["policy"]) for policy in policies],
        "error_curves": _mean([each["error_curves"] for each in results]),
        "curves": _mean([each["curves"] for each in results]),
        "change": _mean([each["change"] for each in results]) if first["change"] else None,
        "flows": _mean([each["flows"] for each in results]),
        "others": {
            name: {**view, "flows": _mean([each["others"][name]["flows"] for each in results])}
            for name, view in first["others"].items()
        },
    }


def _mean_rows(streams: Sequence[Rows]) -> list[dict[str, Any]]:
    return [
        {**row, **{key: _mean([rows[number][key] for rows in streams]) for key in KEYS}}
        for number, row in enumerate(streams[0])
    ]


def _overall(policy: str, streams: Sequence[Rows], subject: str) -> dict[str, Any]:
    """Return a policy in one row: means over sites and streams, and how far it is behind the policy of the run."""
    own = [[row for row in rows if row["policy"] == policy] for rows in streams]
    earned = [_over_sites(rows, policy) for rows in streams]
    behind = [_over_sites(rows, subject) - mine for rows, mine in zip(streams, earned, strict=True)]
    return {
        "policy": policy,
        **{key: _mean([_mean([row[key] for row in rows]) for rows in own]) for key in ("error", "mean_reward", "sent")},
        "reward_interval": half_interval(earned),
        "behind": _mean(behind),
        "behind_interval": half_interval(behind),
        "behind_in": sum(each > 0 for each in behind),  # streams
        "hindsight": own[0][0]["hindsight"],
        "learns": own[0][0]["exploration"] is not None,
    }


def _over_sites(rows: Rows, policy: str) -> float:
    return float(np.mean([row["mean_reward"] for row in rows if row["policy"] == policy]))


def _mean(values: Sequence[Any]) -> Any:
    """Return the mean of plain data of the same shape, number by number; other values are those of the first.

    None stands for "does not apply" and is left out.
    """
    values = [each for each in values if each is not None] or values[:1]
    first = values[0]
    if isinstance(first, Mapping):
        return {key: _mean([each[key] for each in values]) for key in first}
    if isinstance(first, list):
        return [_mean(list(each)) for each in zip(*values, strict=True)]
    if isinstance(first, int | float) and not isinstance(first, bool):
        return first if all(each == first for each in values) else float(np.mean(values))
    return first


def half_interval(values: Sequence[float]) -> float | None:
    """Return half the width of the 95% interval (Student's t) of the mean of values; None if there is only one."""
    if len(values) < 2:
        return None
    try:
        special = import_module("scipy.special")
    except ImportError as error:
        raise CosendError(f"confidence intervals need SciPy: {install('reports')}") from error
    student = float(special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    return student * float(np.std(values, ddof=1)) / math.sqrt(len(values))
