"""What a replay is given, checked: contexts, gains, who gets which item, and when labels come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.errors import ContextError, NetworkError, RewardError, SettingError
from cosend.simulation.kernel.loop import Gains

NEVER: Final = 2**62  # slots: a label that is as late comes after the end of any stream
NO_LABEL: Final = -1  # in place of a delay: the label does not come at all


def read_arrays(learners: Sequence[Learner], contexts: Any, gains: Any, items: Any) -> tuple[Floats, Gains, Ints]:
    """Return what was given as arrays of the right kinds; without items, every site gets every one."""
    try:
        contexts = np.ascontiguousarray(contexts, np.float64)
    except (TypeError, ValueError) as error:
        raise ContextError(f"contexts must be numbers [item, axis]: {error}") from error
    if items is None:
        items = np.arange(len(contexts), dtype=np.int32)[:, None]
        items = items if len(learners) == 1 else np.repeat(items, len(learners), axis=1)
    return contexts, _numbers("gains", gains, "biuf", "numbers"), _numbers("items", items, "iu", "whole numbers")


def _numbers(what: str, given: Any, kinds: str, allowed: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(given)
    except ValueError as error:  # rows of different length
        raise NetworkError(f"{what} must be {allowed} in rows of equal length: {error}") from error
    if array.dtype.kind not in kinds:
        raise NetworkError(f"{what} must be {allowed}, got an array of {array.dtype}")
    return array


def check_inputs(learners: Sequence[Learner], contexts: Floats, gains: Gains, items: Ints, delays: Ints) -> None:
    """Raise unless the arrays fit the learners and each other."""
    names = [learner.name for learner in learners]
    if len(set(names)) != len(names):
        raise NetworkError(f"two sites have the same name: {', '.join(sorted(names))}")
    for learner in learners:
        strangers = [peer for peer in learner.arms.peers if peer not in names]
        if strangers:
            raise NetworkError(f"site {learner.name!r} has the peer {strangers[0]!r}, which is not in the replay")
    functions = sum(len(learner.arms.own) for learner in learners)
    _check_arrays(learners, functions, contexts, gains, items)
    longest, without = int(delays.max(initial=0)), (delays == NO_LABEL).sum(axis=0)
    for site, learner in enumerate(learners):
        _check_waits_for_all(learner, len(items), longest + int(without[site % len(without)]))


def _check_waits_for_all(learner: Learner, slots: int, waiting: int) -> None:
    """Raise if a learner would not wait for as many labels as a replay lets wait."""
    patience = learner.patience
    if learner.waiting_count or patience.wait_limit is not None:
        raise NetworkError(f"site {learner.name!r} waits for labels or has a wait limit: replay cannot keep it")
    # The patience that nobody asked for is no limit for a long stream unless that many labels do wait.
    most = min(slots, waiting) if patience == Patience() else slots
    if patience.max_waiting < most:
        raise NetworkError(
            f"site {learner.name!r} has max_waiting {patience.max_waiting}: replay cannot keep it, "
            f"{most} must have room to wait"
        )


def _check_arrays(learners: Sequence[Learner], functions: int, contexts: Floats, gains: Gains, items: Ints) -> None:
    dimensions = {learner.dimensions for learner in learners}
    if contexts.ndim != 2 or dimensions != {contexts.shape[1]}:
        raise ContextError(
            f"contexts must be [item, {sorted(dimensions)} axes], got an array of shape {contexts.shape}"
        )
    if contexts.size and not (contexts.min() >= 0.0 and contexts.max() <= 1.0):  # also where one is not a number
        _check_places(contexts, all(learner.policy.mixes for learner in learners))
    if gains.shape != (len(contexts), functions):
        raise NetworkError(f"gains must be [{len(contexts)} items, {functions} functions], got shape {gains.shape}")
    if gains.size and not (gains.min() >= 0 and gains.max() <= 1):
        raise RewardError("gain", float(gains.max() if gains.max() > 1 else gains.min()), "a replay")
    if (
        items.ndim != 2
        or items.shape[1] != len(learners)
        or (items.size and not -1 <= items.min() <= items.max() < len(contexts))
    ):
        raise NetworkError(f"items must be [slot, {len(learners)} sites] with numbers of the {len(contexts)} items")


def _check_places(contexts: Floats, may_lack: bool) -> None:
    wrong = ~((contexts >= 0.0) & (contexts <= 1.0) | np.isnan(contexts) & may_lack)
    if wrong.any():
        item, axis = np.argwhere(wrong)[0].tolist()
        raise ContextError(f"item {item}, axis {axis} of the context must be in [0, 1], got {contexts[item, axis]}")


def read_delays(delay: Any, shape: tuple[int, ...]) -> Ints:
    """Return the slots until each label is known: [slot, site], or [[delay]] if it is always the same.

    In an array, -1 is a label that never comes.
    """
    try:
        delays = np.asarray(delay)
    except ValueError:  # rows of different length
        delays = np.empty(0, object)
    if delays.dtype.kind not in "iu" or (delays.size and delays.min() < (0 if delays.ndim == 0 else NO_LABEL)):
        allowed = (
            "a whole number of slots, 0 or more, or an array of them [slot, site], with -1 for a label that never comes"
        )
        raise SettingError("delay", delay, allowed)
    if delays.dtype.kind == "u":
        delays = np.minimum(delays.astype(np.uint64), NEVER)
    delays = np.minimum(delays.astype(np.int64), NEVER)
    if delays.ndim == 0:
        return delays.reshape(1, 1)
    if delays.shape != shape:
        raise SettingError("delay", f"an array of shape {delays.shape}", f"as many as items: {shape}")
    return delays
