"""A whole network over a whole stream in one compiled loop, through the same rules that a single item goes through.

Every site gets one item in every slot. At the start of a slot the labels that are due are handed out, then the sites
choose one after the other. `gains[item, function]` says beforehand how right every function is about every item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.compiled import compiled
from cosend.core import columns as col
from cosend.core.bookkeeping import TAUGHT, TRAIN, enter_report, enter_reward
from cosend.core.checks import check_whole
from cosend.core.draws import caller_word
from cosend.core.learner import Learner
from cosend.core.ledger import EMPTY, Floats, Ints, Ledger, Words, new_ledger, reindex, row_for
from cosend.core.partition import cell_of, phase_is_over
from cosend.core.phases import next_phase
from cosend.core.rules import ASK, NO_ROOM, PHASE_OVER, Asked, answer, choose, report
from cosend.core.waiting import Patience
from cosend.errors import ContextError, NetworkError, RewardError

Gains = npt.NDArray[Any]  # [item, function], any number type

DONE: Final = 1
PAUSED: Final = 2
LOOKS: Final = 100  # how often a watched replay shows how far it is
# In a slot a site enters at most so many cells per site: its own item's and a training's, and those of late labels.
NEW_CELLS: Final = 4

# Columns of a waiting choice.
ROW: Final = 0
ARM: Final = 1
KIND: Final = 2
FUNCTION: Final = 3
ITEM: Final = 4
EPOCH: Final = 5
PEER_ROW: Final = 6
PEER_EPOCH: Final = 7
WAITING_COLUMNS: Final = 8


class Stack(NamedTuple):
    """The ledgers of several sites: the arrays of `Ledger` with the site as one more axis in front."""

    site: Ints
    parameters: Floats
    costs: Floats
    slots: Words
    cells: Ints
    rewards: Floats
    counts: Words


class Wiring(NamedTuple):
    """Who is behind which arm."""

    peer_sites: Ints  # [site, arm]: the site behind a peer
    first_functions: Ints  # [site]: the column of its first function in `gains`
    caller_words: Ints  # [site]
    shares_all: Ints  # [site]: 1 if it passes the label on after every call
    keeps: Ints  # [site]: 1 if late labels of an earlier phase still count


class Trace(NamedTuple):
    """What was decided, slot by slot and site by site: arrays [slot, site]; 0 where nothing arrived."""

    phases: npt.NDArray[np.int8]  # TRAIN, EXPLORE or EXPLOIT
    arms: npt.NDArray[np.int16]
    functions: npt.NDArray[np.int16]  # the function that answered, as a column of `gains`


def replay(
    learners: Sequence[Learner],
    contexts: npt.ArrayLike,
    gains: npt.ArrayLike,
    *,
    items: npt.ArrayLike | None = None,
    delay: int = 1,
    watch: Callable[[int, Trace], None] | None = None,
) -> Trace:
    """Run all sites over their streams and leave the learners as if they had seen every item one by one.

    contexts  [item, axis]
    gains     [item, function]: the functions of the first learner, then those of the second, ...
    items     [slot, site]: which item arrives where, -1 for none; by default every item, in order, at every site
    delay     slots until a label is known: 0 is at once, before the next site chooses; 1 before the next slot
    watch     called now and then with how many slots are done, and the trace so far
    """
    check_whole("delay", delay, least=0)
    contexts, gains, items = _arrays(learners, contexts, gains, items)
    _check(learners, contexts, gains, items, delay)
    items = np.ascontiguousarray(items, np.int32)
    ledgers, wiring = [learner.ledger for learner in learners], _wire(learners)
    trace = Trace(np.zeros(items.shape, np.int8), np.zeros(items.shape, np.int16), np.zeros(items.shape, np.int16))
    asked = np.zeros(max(len(learner.arms) for learner in learners), np.bool_)
    ring = 1 << delay.bit_length()  # a power of two above the delay
    waiting = np.zeros((ring, len(learners), WAITING_COLUMNS), np.int64)
    progress = np.zeros(3, np.int64)
    pause = max(1, len(items) // LOOKS) if watch else len(items) + 1
    status = NO_ROOM
    while status != DONE:
        stack, status = stacked(ledgers), PAUSED
        while status == PAUSED:
            stop = (int(progress[0]) // pause + 1) * pause
            status, site = run(stack, wiring, contexts, gains, items, delay, trace, asked, waiting, progress, stop)
            if watch is not None:
                watch(int(progress[0]), trace)
        ledgers = split(stack, [len(learner.arms) for learner in learners])
        if status == PHASE_OVER:
            ledgers[site] = next_phase(ledgers[site], learners[site].policy)
    for learner, ledger in zip(learners, ledgers, strict=True):
        learner.replace_ledger(ledger)
        learner.room.last = int(ledger.site[col.TICKETS])
    return trace


def stacked(ledgers: Sequence[Ledger]) -> Stack:
    """Put the ledgers of all sites into one, with room for more cells."""
    rows = max(int(ledger.site[col.ROWS]) for ledger in ledgers)
    capacity = rows + rows // 4 + 4 * NEW_CELLS * len(ledgers)
    blank = new_ledger(max(len(ledger.costs) for ledger in ledgers), capacity)
    arrays: list[Any] = [np.stack([array] * len(ledgers)) for array in blank]
    stack = Stack(*arrays)
    for s, ledger in enumerate(ledgers):
        arms, rows = len(ledger.costs), int(ledger.site[col.ROWS])
        stack.site[s], stack.parameters[s], stack.costs[s, :arms] = ledger.site, ledger.parameters, ledger.costs
        stack.cells[s, :rows] = ledger.cells[:rows]
        stack.rewards[s, :rows, :arms] = ledger.rewards[:rows]
        stack.counts[s, :rows, :arms] = ledger.counts[:rows]
        reindex(_view(stack, s))
    return stack


def split(stack: Stack, arm_counts: Sequence[int]) -> list[Ledger]:
    """Take the ledgers of all sites out of a stack."""
    ledgers = []
    for s, arms in enumerate(arm_counts):
        view = _view(stack, s)
        arrays: list[Any] = [array.copy() for array in view]
        ledger = Ledger(*arrays)
        ledgers.append(
            ledger._replace(
                costs=view.costs[:arms].copy(),
                rewards=view.rewards[:, :arms].copy(),
                counts=view.counts[:, :arms].copy(),
            )
        )
    return ledgers


def _view(stack: Stack, s: int) -> Ledger:
    arrays: list[Any] = [array[s] for array in stack]
    return Ledger(*arrays)


@compiled
def at(stack: Stack, s: int) -> Ledger:
    """Return the ledger of a site in a stack, inside compiled code; nothing is copied."""
    return Ledger(
        stack.site[s],
        stack.parameters[s],
        stack.costs[s],
        stack.slots[s],
        stack.cells[s],
        stack.rewards[s],
        stack.counts[s],
    )


@compiled
def run(
    stack: Stack,
    wiring: Wiring,
    contexts: Floats,
    gains: Gains,
    items: Any,
    delay: int,
    trace: Trace,
    asked: Asked,
    waiting: Ints,
    progress: Ints,
    stop: int,
) -> tuple[int, int]:
    """Run to the end, or until something stops it.

    `progress` is how far it came: slots done, slots whose labels were handed out, sites done in this slot.
    """
    slots, sites = items.shape
    last = waiting.shape[0] - 1
    for slot in range(progress[0], slots):
        if slot >= stop:
            return PAUSED, 0
        while delay > 0 and progress[1] <= slot - delay:
            hand_out(stack, wiring, contexts, gains, waiting[progress[1] & last])
            progress[1] += 1
        if rooms_needed(stack, sites):
            return NO_ROOM, 0
        for s in range(progress[2], sites):
            entry = waiting[slot & last, s]
            entry[ITEM] = items[slot, s]
            if entry[ITEM] == EMPTY:
                continue
            if phase_is_over(stack.site[s]):
                progress[2] = s
                return PHASE_OVER, s
            arrive(stack, wiring, s, contexts, items[slot, s], asked, entry)
            trace.phases[slot, s] = entry[KIND]
            trace.arms[slot, s] = entry[ARM]
            trace.functions[slot, s] = entry[FUNCTION]
            if delay == 0:
                label(stack, wiring, s, contexts, gains, entry)
        progress[0], progress[2] = slot + 1, 0
    while delay > 0 and progress[1] < slots:
        hand_out(stack, wiring, contexts, gains, waiting[progress[1] & last])
        progress[1] += 1
    return DONE, 0


@compiled
def rooms_needed(stack: Stack, sites: int) -> bool:
    """Tell whether a site could run out of room for new cells in this slot."""
    most = 0
    for s in range(sites):
        most = max(most, stack.site[s, col.ROWS])
    return bool(most + NEW_CELLS * sites > stack.cells.shape[1])


@compiled
def arrive(stack: Stack, wiring: Wiring, s: int, contexts: Floats, item: int, asked: Asked, entry: Ints) -> None:
    """Choose for an item, let the arm answer, and write down what waits for the label."""
    ledger, context = at(stack, s), contexts[item]
    outcome, arm, row, asked_any = ASK, 0, 0, False
    while outcome == ASK:
        outcome, arm, row, _ = choose(ledger, context, asked)
        if outcome == ASK:
            arrivals, taught = report(at(stack, wiring.peer_sites[s, arm]), context)
            enter_report(ledger, row, arm, arrivals, taught)
            asked[arm] = True
            asked_any = True
    if asked_any:
        asked[:] = False
    entry[ROW], entry[ARM], entry[KIND], entry[ITEM] = row, arm, outcome, item
    entry[EPOCH], entry[PEER_ROW] = ledger.site[col.EPOCH], EMPTY
    if arm < ledger.site[col.OWN_COUNT]:
        entry[FUNCTION] = wiring.first_functions[s] + arm
        return
    peer = at(stack, wiring.peer_sites[s, arm])
    training = outcome == TRAIN
    labelled = training or wiring.shares_all[s] > 0
    request = ledger.site[col.TICKETS]
    function, peer_row = answer(peer, context, wiring.caller_words[s], request, training, labelled)
    entry[FUNCTION] = wiring.first_functions[wiring.peer_sites[s, arm]] + function
    if labelled:
        entry[PEER_ROW], entry[PEER_EPOCH] = peer_row, peer.site[col.EPOCH]


@compiled
def hand_out(stack: Stack, wiring: Wiring, contexts: Floats, gains: Gains, entries: Ints) -> None:
    """Hand out the labels of one slot, site by site."""
    for s in range(entries.shape[0]):
        if entries[s, ITEM] != EMPTY:
            label(stack, wiring, s, contexts, gains, entries[s])


@compiled
def label(stack: Stack, wiring: Wiring, s: int, contexts: Floats, gains: Gains, entry: Ints) -> None:
    """Hand out one label: to the site where the item arrived, and by it to the peer that it taught."""
    item, function = entry[ITEM], entry[FUNCTION]
    gain, context = float(gains[item, function]), contexts[item]
    keeps = wiring.keeps[s] > 0
    learn(at(stack, s), keeps, context, entry[ROW], entry[ARM], entry[KIND], entry[EPOCH], gain)
    if entry[PEER_ROW] != EMPTY:
        peer = wiring.peer_sites[s, entry[ARM]]
        own, keeps = function - wiring.first_functions[peer], wiring.keeps[peer] > 0
        learn(at(stack, peer), keeps, context, entry[PEER_ROW], own, TAUGHT, entry[PEER_EPOCH], gain)


@compiled
def learn(ledger: Ledger, keeps: bool, context: Floats, row: int, arm: int, kind: int, epoch: int, gain: float) -> None:
    """Enter a reward where it belongs now; one of an earlier phase may belong nowhere."""
    now = epoch == ledger.site[col.EPOCH]
    if not now and keeps:
        row = row_for(ledger, cell_of(ledger, context, ledger.site[col.ARRIVALS]))
    if now or keeps:
        enter_reward(ledger, row, arm, kind, gain, now)


def _wire(learners: Sequence[Learner]) -> Wiring:
    names = [learner.name for learner in learners]
    widest = max(len(learner.arms) for learner in learners)
    peer_sites = np.full((len(learners), widest), EMPTY, np.int64)
    for s, learner in enumerate(learners):
        peer_sites[s, len(learner.arms.own) : len(learner.arms)] = [names.index(peer) for peer in learner.arms.peers]
    own_counts = [len(learner.arms.own) for learner in learners]
    return Wiring(
        peer_sites,
        np.cumsum([0, *own_counts[:-1]]).astype(np.int64),
        np.array([caller_word(name) for name in names], np.int64),
        np.array([learner.policy.share_labels == "always" for learner in learners], np.int64),
        np.array([learner.policy.doubling == "keep" for learner in learners], np.int64),
    )


def _arrays(learners: Sequence[Learner], contexts: Any, gains: Any, items: Any) -> tuple[Floats, Gains, Ints]:
    try:
        contexts = np.ascontiguousarray(contexts, np.float64)
    except (TypeError, ValueError) as error:
        raise ContextError(f"contexts must be numbers [item, axis]: {error}") from error
    if items is None:
        items = np.repeat(np.arange(len(contexts), dtype=np.int32)[:, None], len(learners), axis=1)
    return contexts, _numbers("gains", gains, "biuf", "numbers"), _numbers("items", items, "iu", "whole numbers")


def _numbers(what: str, given: Any, kinds: str, allowed: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(given)
    except ValueError as error:  # rows of different length
        raise NetworkError(f"{what} must be {allowed} in rows of equal length: {error}") from error
    if array.dtype.kind not in kinds:
        raise NetworkError(f"{what} must be {allowed}, got an array of {array.dtype}")
    return array


def _check(learners: Sequence[Learner], contexts: Floats, gains: Gains, items: Ints, delay: int) -> None:
    names = [learner.name for learner in learners]
    if len(set(names)) != len(names):
        raise NetworkError(f"two sites have the same name: {', '.join(sorted(names))}")
    for learner in learners:
        strangers = [peer for peer in learner.arms.peers if peer not in names]
        if strangers:
            raise NetworkError(f"site {learner.name!r} has the peer {strangers[0]!r}, which is not in the replay")
    functions = sum(len(learner.arms.own) for learner in learners)
    _check_arrays(learners, functions, contexts, gains, items)
    for learner in learners:
        _check_waits_for_all(learner, len(items), delay)


def _check_waits_for_all(learner: Learner, slots: int, delay: int) -> None:
    patience = learner.room.patience
    if learner.waiting_count or patience.wait_limit is not None:
        raise NetworkError(f"site {learner.name!r} waits for labels or has a wait limit: replay cannot keep it")
    # The patience that nobody asked for is no limit for a long stream unless that many labels do wait.
    most = min(slots, delay) if patience == Patience() else slots
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
    if contexts.size and not (contexts.min() >= 0.0 and contexts.max() <= 1.0):
        item, axis = np.argwhere(~((contexts >= 0.0) & (contexts <= 1.0)))[0].tolist()
        raise ContextError(f"item {item}, axis {axis} of the context must be in [0, 1], got {contexts[item, axis]}")
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
