"""A whole network over a whole stream in one compiled loop, through the same rules that a single item goes through.

Every site gets one item in every slot. At the start of a slot the labels that are due are delivered, then the sites
choose one after the other. `gains[item, function]` says in advance how right every model is about every item.

Where sites watch every feature, which features get axes when, and the places of all items on them, follow from the
items of a site alone, so both are computed before the loop starts. It stops where new axes come, and decisions that are
pending there get more views, as they do in a site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.algorithm.api import EPOCH_OVER, NO_ROOM
from cosend.algorithm.layout import Floats, Ints, Ledger
from cosend.algorithm.learner import Learner
from cosend.algorithm.memory import next_epoch
from cosend.algorithm.mixture import memo_width
from cosend.algorithm.mixture_views import NewAxes, plans_for_features, with_more_views
from cosend.algorithm.pending import Patience
from cosend.checks import check_kind
from cosend.engine.encoding import FeatureAxes
from cosend.errors import ContextError, NetworkError, RewardError, SettingError
from cosend.simulation.loop import (
    ARM,
    DONE,
    NEVER,
    NEW_AXES,
    PAUSED,
    PENDING_COLUMNS,
    PROGRESS_COLUMNS,
    SLOT,
    Gains,
    Labels,
    Trace,
    combine,
    enlarge,
    run,
    split,
    wiring_of,
)

LOOKS: Final = 100  # how often `watch` is called
AFTER_THE_END: Final = 2**62  # slots: a label with this delay comes after the end of any stream
NO_LABEL: Final = -1  # instead of a delay: the label never comes
Steps = list[tuple[int, NewAxes]]  # (arrivals before, axes), in order


def simulate(
    learners: Sequence[Learner],
    contexts: npt.ArrayLike,
    gains: npt.ArrayLike,
    *,
    items: npt.ArrayLike | None = None,
    delay: npt.ArrayLike = 1,
    features: Sequence[Mapping[str, Any]] | None = None,
    watch: Callable[[int, Trace], None] | None = None,
) -> Trace:
    """Run all sites over their streams; afterwards the learners are as if they had seen every item one by one.

    contexts  [item, axis]
    gains     [item, function]: the models of the first learner, then of the second, ...
    items     [slot, site]: which item arrives where, -1 for none; by default every item, in order, at every site
    delay     slots until a label is known: 0 is at once, before the next site chooses; 1 before the next slot; an array
              [slot, site] gives every label its own delay, and -1 where it never comes
    features  the items themselves, by name: learners then get an axis for each feature, after those of `contexts`, once
              they have seen enough of it, as sites do; all of them must be new and have the policy MixedViews
    watch     called up to 100 times with the number of slots that are done and the trace so far

    >>> from cosend import Learner
    >>> learner = Learner("edge", own={"wrong": 0.0, "right": 0.0})
    >>> trace = simulate([learner], contexts=[[0.5]] * 100, gains=[[0.0, 1.0]] * 100)
    >>> int((trace.functions == 1).sum()) > 90
    True
    """
    contexts, gains, items = read_arrays(learners, contexts, gains, items)
    delays = read_delays(delay, items.shape)
    check_inputs(learners, contexts, gains, items, delays)
    if features is None:
        axes = [AxisSchedule(learner) for learner in learners]
    else:
        check_features(features, len(contexts))
        axes = precompute(learners, features, items)
    points = contexts_by_site(contexts, axes)
    labels = labels_in_order(delays, items, max(each.memo_width for each in axes))
    items = np.ascontiguousarray(items, np.int32)
    ledgers, wiring = [learner.ledger for learner in learners], wiring_of(learners)
    wiring.axes_at[:] = [each.next_at for each in axes]
    trace = Trace(np.zeros(items.shape, np.int8), np.zeros(items.shape, np.int16), np.zeros(items.shape, np.int16))
    asked = np.zeros(max(len(learner.arms) for learner in learners), np.bool_)
    progress = np.zeros(PROGRESS_COLUMNS, np.int64)
    pause = max(1, len(items) // LOOKS) if watch else len(items) + 1
    status = PAUSED
    while status != DONE:
        all_sites, status = combine(ledgers), PAUSED
        while status in (PAUSED, NO_ROOM):
            all_sites = enlarge(all_sites) if status == NO_ROOM else all_sites
            stop = (int(progress[SLOT]) // pause + 1) * pause
            status, site = run(all_sites, wiring, points, gains, items, labels, trace, asked, progress, stop)
            if watch is not None:
                watch(int(progress[SLOT]), trace)
        ledgers = split(all_sites, ledgers)
        if status == EPOCH_OVER:
            ledgers[site] = next_epoch(ledgers[site], learners[site].policy)
        if status == NEW_AXES:
            ledgers[site] = axes[site].apply_next(ledgers[site], labels, wiring.peer_sites, site)
            wiring.axes_at[site] = axes[site].next_at
    for learner, ledger in zip(learners, ledgers, strict=True):
        learner.memory.use(ledger)
    return trace


def labels_in_order(delays: Ints, items: Ints, width: int) -> Labels:
    """Return when labels arrive: in one slot in the order of their items, then of their sites."""
    longest = min(int(delays.max(initial=0)), len(items))  # those after the end have a place each
    ring = 1 << longest.bit_length()  # a power of two above the longest delay
    pending = np.zeros((ring, items.shape[1], PENDING_COLUMNS), np.int64)
    kept = np.zeros((ring, items.shape[1], 2, width))
    if delays.shape == (1, 1):
        return Labels(delays, np.empty(0, np.int64), pending, kept)
    due = (np.arange(len(delays))[:, None] + delays).ravel()
    return Labels(delays, np.argsort(due, kind="stable"), pending, kept)


def read_arrays(learners: Sequence[Learner], contexts: Any, gains: Any, items: Any) -> tuple[Floats, Gains, Ints]:
    """Return the arguments as arrays of the right kinds; without `items`, every site gets every item."""
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
            raise NetworkError(f"site {learner.name!r} has the peer {strangers[0]!r}, which is not in the simulation")
    functions = sum(len(learner.arms.own) for learner in learners)
    _check_arrays(learners, functions, contexts, gains, items)
    longest, missing = int(delays.max(initial=0)), (delays == NO_LABEL).sum(axis=0)
    for site, learner in enumerate(learners):
        _check_patience(learner, len(items), longest + int(missing[site % len(missing)]))


def _check_patience(learner: Learner, slots: int, pending: int) -> None:
    """Raise if labels could expire: a simulation has no patience."""
    patience = learner.patience
    if learner.pending_count or patience.wait_limit is not None:
        raise NetworkError(
            f"site {learner.name!r} waits for labels or has a wait limit, which a simulation does not support"
        )
    # The default limit matters only if that many labels are pending; a limit of the user must allow for the stream.
    most = min(slots, pending) if patience == Patience() else slots
    if patience.max_pending < most:
        raise NetworkError(
            f"site {learner.name!r} has max_pending {patience.max_pending}, and {most} labels may be pending "
            f"in this simulation"
        )


def _check_arrays(learners: Sequence[Learner], functions: int, contexts: Floats, gains: Gains, items: Ints) -> None:
    dimensions = {learner.dimensions for learner in learners}
    if contexts.ndim != 2 or dimensions != {contexts.shape[1]}:
        raise ContextError(
            f"contexts must be [item, {sorted(dimensions)} axes], got an array of shape {contexts.shape}"
        )
    if contexts.size and not (contexts.min() >= 0.0 and contexts.max() <= 1.0):  # also where one is not a number
        _check_points(contexts, all(learner.policy.mixes for learner in learners))
    if gains.shape != (len(contexts), functions):
        raise NetworkError(f"gains must be [{len(contexts)} items, {functions} functions], got shape {gains.shape}")
    if gains.size and not (gains.min() >= 0 and gains.max() <= 1):
        raise RewardError("gain", float(gains.max() if gains.max() > 1 else gains.min()), "a simulation")
    if (
        items.ndim != 2
        or items.shape[1] != len(learners)
        or (items.size and not -1 <= items.min() <= items.max() < len(contexts))
    ):
        raise NetworkError(f"items must be [slot, {len(learners)} sites] with numbers of the {len(contexts)} items")


def _check_points(contexts: Floats, may_lack: bool) -> None:
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
        delays = np.minimum(delays.astype(np.uint64), AFTER_THE_END)
    delays = np.minimum(delays.astype(np.int64), AFTER_THE_END)
    if delays.ndim == 0:
        return delays.reshape(1, 1)
    if delays.shape != shape:
        raise SettingError("delay", f"an array of shape {delays.shape}", f"as many as items: {shape}")
    return delays


# Sites that watch every feature


@dataclass
class AxisSchedule:
    """The axes that a learner gets during the simulation."""

    learner: Learner
    steps: Steps = field(default_factory=list)
    points: Floats | None = None  # [item, axis]: the places of all items on them

    @property
    def next_at(self) -> int:
        """The number of arrivals after which the next axes come."""
        return self.steps[0][0] if self.steps else NEVER

    @property
    def memo_width(self) -> int:
        """How many numbers are kept for a pending item once all axes are there."""
        learner, views = self.learner, len(self.learner.ledger.views)
        if not learner.policy.mixes:
            return 0
        dimensions, same = learner.dimensions, learner.unchanged
        for _, new in self.steps:
            views += len(plans_for_features(dimensions, new, learner.categories, views, same))
            dimensions, same = dimensions + new.axes, same + new.same - len(new.places)
        return memo_width(views, len(learner.arms.own))

    def apply_next(self, ledger: Ledger, labels: Labels, peer_sites: Ints, site: int) -> Ledger:
        """Add the next axes, give pending items the new views, and return the new ledger."""
        learner, before = self.learner, len(ledger.views)
        _, new = self.steps.pop(0)
        learner.memory.use(ledger)
        handed = learner.add_axes(*new)
        views, own = len(learner.ledger.views), len(learner.arms.own)
        width = memo_width(views, own)
        labels.kept[:, site, 0, :width] = with_more_views(labels.kept[:, site, 0], before, views, own, handed)
        arms = labels.pending[:, :, ARM]
        asked = np.take_along_axis(peer_sites[None].repeat(len(arms), axis=0), arms[..., None], axis=2)[..., 0] == site
        kept = labels.kept[:, :, 1]
        kept[asked, :width] = with_more_views(kept[asked], before, views, own, handed)
        return learner.ledger


def check_features(features: object, count: int) -> None:
    """Raise unless these are the features of `count` items."""
    allowed = "a list of mappings from names to values, one for each item"
    if not isinstance(features, Sequence) or isinstance(features, str | bytes):
        raise SettingError("features", features, allowed)
    if len(features) != count:
        raise SettingError("features", f"those of {len(features)} items", f"{allowed} of contexts ({count})")
    for item in features:
        check_kind("the features of an item", item, Mapping, "a mapping from names to values")


def precompute(learners: Sequence[Learner], features: Sequence[Mapping[str, Any]], items: Ints) -> list[AxisSchedule]:
    """Return the axes that learners will get, from the items [slot, site] that arrive at each."""
    if not all(learner.policy.mixes for learner in learners):
        raise NetworkError("only learners that mix views can look at features: give them MixedViews()")
    for learner in learners:
        if learner.arrivals or learner.features:
            raise NetworkError(
                f"site {learner.name!r} has seen {learner.arrivals} items, and a learner does not keep what it saw of "
                f"their features: simulate all items at once with a new one, or use a Site, which can continue"
            )
    if len(items) and (items[0] < 0).any():
        raise NetworkError("every site must get an item in the first slot, to find out which features there are")
    found = dict[bytes, tuple[Steps, Floats]]()  # by stream: all sites often have the same
    schedules = []
    for site, learner in enumerate(learners):
        stream = items[items[:, site] >= 0, site]
        if stream.tobytes() not in found:
            watched, new_axes = _watch([features[item] for item in stream.tolist()])
            found[stream.tobytes()] = new_axes, watched.place(features)
        steps, points = found[stream.tobytes()]
        schedules.append(AxisSchedule(learner, [*steps], points))
    return schedules


def features_with_axes(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return by name the axes that features get when these items arrive, in the order of the axes."""
    return _watch(items)[0].axis_names


def _watch(items: Sequence[Mapping[str, Any]]) -> tuple[FeatureAxes, Steps]:
    watched, done, steps = FeatureAxes(), 0, Steps()
    while done < len(items):
        found = watched.found(items[done])
        if found is not None:
            places = tuple(watched.places_before(found))
            watched.enter(found)
            if found.axes or found.constant:
                steps.append((done, NewAxes(len(found.axes), len(found.constant), places)))
        done += watched.watch(items[done:])[0]
    return watched, steps


def contexts_by_site(contexts: Floats, schedules: Sequence[AxisSchedule]) -> Floats:
    """Return [site, item, axis]: where items lie for every site; one site stands for all if they share it."""
    if all(each.points is None for each in schedules):
        return contexts[None]
    found = [each.points for each in schedules if each.points is not None]
    widest = max(points.shape[1] for points in found)
    blank = [np.full((len(contexts), widest - points.shape[1]), np.nan) for points in found]
    sites = [np.hstack([contexts, points, rest]) for points, rest in zip(found, blank, strict=True)]
    return np.ascontiguousarray(np.stack(sites))
