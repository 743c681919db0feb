"""The compiled loop of a simulation, and the ledgers of all its sites in one value that compiled code can walk through.

In every slot, labels that are due are delivered first, then the sites choose one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm import layout as col
from cosend.algorithm.api import EPOCH_OVER, NO_ROOM, answer, learn, record_report, report
from cosend.algorithm.cell_rules import choose
from cosend.algorithm.cos import ASK, Asked
from cosend.algorithm.draws import caller_word
from cosend.algorithm.layout import (
    BY_MIXTURE,
    EMPTY,
    TAUGHT,
    TRAIN,
    Floats,
    Ints,
    Ledger,
    epoch_is_over,
    new_ledger,
    reindex,
)
from cosend.algorithm.learner import Learner
from cosend.algorithm.mixture import choose_mixed
from cosend.compiled import compiled, compiled_apart, entry_point

Gains = npt.NDArray[Any]  # [item, function], any number type
Ledgers = Ledger  # of several sites: every array has the site as one more axis in front

END: Final = 2**63 - 1  # the slot in which all labels are known
DONE: Final = 1
PAUSED: Final = 2
NEW_AXES: Final = 3

# Columns of a pending choice.
ROW: Final = 0
ARM: Final = 1
KIND: Final = 2
FUNCTION: Final = 3
ITEM: Final = 4
ID: Final = 5
PEER_ROW: Final = 6  # EMPTY unless the label is forwarded
PEER_ID: Final = 7
PENDING_COLUMNS: Final = 8

# Columns of the progress of a simulation.
SLOT: Final = 0  # slots done
DELIVERED: Final = 1  # labels delivered, in the order in which they are due
SITE: Final = 2  # sites done in this slot
PROGRESS_COLUMNS: Final = 3
NEVER: Final = -1  # instead of an arrival: no more axes come


class Trace(NamedTuple):
    """Decisions, slot by slot and site by site: arrays [slot, site]; 0 where nothing arrived."""

    phases: npt.NDArray[np.int8]  # TRAIN, EXPLORE or EXPLOIT
    arms: npt.NDArray[np.int16]
    functions: npt.NDArray[np.int16]  # the function that answered, as a column of `gains`


class Labels(NamedTuple):
    """When labels arrive."""

    delays: Ints  # [slot, site], or [[delay]] if it is always the same
    order: Ints  # the numbers slot * sites + site of the labels as they come; empty if that is 0, 1, 2, ...
    pending: Ints  # [slot modulo a power of two, site, column]: choices without a label yet
    kept: Floats  # [slot modulo a power of two, site, 2, number]: what mixed views keep for it, here and at the peer


class Wiring(NamedTuple):
    """Which site is behind which arm."""

    peer_sites: Ints  # [site, arm]: the site behind a peer
    first_functions: Ints  # [site]: the column of its first function in `gains`
    caller_words: Ints  # [site]
    forwards_all: Ints  # [site]: 1 if it forwards the label after every call
    scores: Floats  # [function]: scratch: gains of the local models of a site
    axes_at: Ints  # [site]: the arrival at which its next axes come, or NEVER


def combine(ledgers: Sequence[Ledger]) -> Ledgers:
    """Put the ledgers of all sites into one, with room for the cells of the next slot and a few more.

    In one slot a site may start cells for its own item and for one of every peer. Few do, and the operating system
    gives the zeros no memory before they are written to.
    """
    rows, views = max(int(each.site[col.ROWS]) for each in ledgers), max(len(each.views) for each in ledgers)
    capacity = rows + rows // 8 + views * (len(ledgers) + 16)
    arms, parameters = max(len(each.costs) for each in ledgers), max(len(each.parameters) for each in ledgers)
    one = new_ledger(arms, capacity, views, parameters)
    all_sites = Ledgers(*(np.zeros((len(ledgers), *array.shape), array.dtype) for array in one))
    all_sites.slots[:] = EMPTY
    for s, ledger in enumerate(ledgers):
        rows = int(ledger.site[col.ROWS])
        known = ledger._replace(
            slots=ledger.slots[:0],
            cells=ledger.cells[:rows],
            rewards=ledger.rewards[:rows],
            counts=ledger.counts[:rows],
        )
        pairs: list[Any] = [*zip(all_sites, known, strict=True)]
        for array, part in pairs:
            array[(s, *map(slice, part.shape))] = part
        reindex(_view(all_sites, s))
    return all_sites


def enlarge(all_sites: Ledgers) -> Ledgers:
    """Return the same ledgers with room for more cells."""
    return combine([_view(all_sites, s) for s in range(len(all_sites.site))])


def split(all_sites: Ledgers, like: Sequence[Ledger]) -> list[Ledger]:
    """Return the ledger of every site, each with room for a few more cells than it has visited."""
    ledgers = []
    for s, before in enumerate(like):
        view, arms = _view(all_sites, s), len(before.costs)
        rows, views = int(view.site[col.ROWS]), int(view.site[col.VIEWS])
        room = rows + max(16, rows // 8, views)
        part = Ledger(
            site=view.site,
            parameters=view.parameters[: len(before.parameters)],
            costs=view.costs[:arms],
            slots=view.slots,
            cells=view.cells[:room],
            rewards=view.rewards[:room, :arms],
            counts=view.counts[:room, :arms],
            views=view.views[:views],
        )
        arrays: list[Any] = [array.copy() for array in part]
        ledgers.append(Ledger(*arrays))
    return ledgers


def _view(all_sites: Ledgers, s: int) -> Ledger:
    return Ledger(*(array[s] for array in all_sites))


@compiled
def ledger_of(all_sites: Ledgers, s: int) -> Ledger:
    """Return the ledger of a site inside compiled code; nothing is copied."""
    return Ledger(
        all_sites.site[s],
        all_sites.parameters[s],
        all_sites.costs[s],
        all_sites.slots[s],
        all_sites.cells[s],
        all_sites.rewards[s],
        all_sites.counts[s],
        all_sites.views[s],
    )


def wiring_of(learners: Sequence[Learner]) -> Wiring:
    """Return which site is behind which arm."""
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
        np.zeros(max(own_counts)),
        np.full(len(learners), NEVER, np.int64),
    )


@entry_point
def run(
    ledgers: Ledgers,
    wiring: Wiring,
    contexts: Floats,
    gains: Gains,
    items: Any,
    labels: Labels,
    trace: Trace,
    asked: Asked,
    progress: Ints,
    stop: int,
) -> tuple[int, int]:
    """Run to the end, or until Python has something to do; return why it stopped, and at which site."""
    slots, sites = items.shape
    last = labels.pending.shape[0] - 1
    for slot in range(progress[SLOT], slots + 1):  # after the last, all labels are known
        if stop <= slot < slots:
            return PAUSED, 0
        deliver(ledgers, wiring, contexts, gains, labels, slots, slot if slot < slots else END, progress)
        if slot == slots:
            break
        if may_run_out_of_room(ledgers, sites):
            return NO_ROOM, 0
        for s in range(progress[SITE], sites):
            item, entry = items[slot, s], labels.pending[slot & last, s]
            entry[ITEM] = item
            if item == EMPTY:
                continue
            if epoch_is_over(ledgers.site[s]):
                progress[SITE] = s
                return EPOCH_OVER, s
            if ledgers.site[s, col.ARRIVALS] == wiring.axes_at[s]:
                progress[SITE] = s
                return NEW_AXES, s
            kept = labels.kept[slot & last, s]
            arrive(ledgers, wiring, s, contexts, item, asked, entry, kept)
            record(trace, slot, s, entry)
            if delay_of(labels, slot, s) == 0:
                label(ledgers, wiring, s, contexts, gains, entry, kept)
        progress[SLOT], progress[SITE] = slot + 1, 0
    return DONE, 0


@compiled
def record(trace: Trace, slot: int, s: int, entry: Ints) -> None:
    """Write a choice into the trace."""
    trace.phases[slot, s] = entry[KIND]
    trace.arms[slot, s] = entry[ARM]
    trace.functions[slot, s] = entry[FUNCTION]


@compiled
def description_of(contexts: Floats, s: int) -> int:
    """Return which description of the items a site has: its own, or the one that all sites share."""
    return s if contexts.shape[0] > 1 else 0


@compiled
def delay_of(labels: Labels, slot: int, s: int) -> int:
    """Return how many slots later a label is known."""
    if labels.order.shape[0] == 0:
        return int(labels.delays[0, 0])
    return int(labels.delays[slot, s])


@compiled
def may_run_out_of_room(ledgers: Ledgers, sites: int) -> bool:
    """Tell whether a site could need more cells in this slot than it has: for its item and one of every peer."""
    most = 0
    for s in range(sites):
        most = max(most, ledgers.site[s, col.ROWS])
    return bool(most + ledgers.views.shape[1] * (sites + 1) > ledgers.cells.shape[1])


@compiled
def arrive(
    ledgers: Ledgers,
    wiring: Wiring,
    s: int,
    contexts: Floats,
    item: int,
    asked: Asked,
    entry: Ints,
    kept: Floats,
) -> None:
    """Route an item, let the arm answer, and make the choice pending."""
    if ledgers.site[s, col.RULE] == BY_MIXTURE:
        arrive_mixed(ledgers, wiring, s, contexts, item, entry, kept)
        return
    ledger, context = ledger_of(ledgers, s), contexts[description_of(contexts, s), item]
    outcome, arm, row, asked_any = ASK, 0, 0, False
    while outcome == ASK:
        outcome, arm, row, _ = choose(ledger, context, asked)
        if outcome == ASK:
            there = wiring.peer_sites[s, arm]
            arrivals, taught = report(ledger_of(ledgers, there), contexts[description_of(contexts, there), item])
            record_report(ledger, context, arm, arrivals, taught)
            asked[arm] = True
            asked_any = True
    if asked_any:
        asked[:] = False
    answer_and_wait(ledgers, wiring, s, contexts, item, outcome, arm, row, entry, kept)


@compiled_apart
def arrive_mixed(
    ledgers: Ledgers, wiring: Wiring, s: int, contexts: Floats, item: int, entry: Ints, kept: Floats
) -> None:
    """Do the same at a site that mixes views, which needs no reports of peers.

    In a separate function: with both in one body, all other policies were 10% slower.
    """
    ledger = ledger_of(ledgers, s)
    outcome, arm, row, _ = choose_mixed(ledger, contexts[description_of(contexts, s), item], 1, kept[0])
    answer_and_wait(ledgers, wiring, s, contexts, item, outcome, arm, row, entry, kept)


@compiled
def answer_and_wait(
    ledgers: Ledgers,
    wiring: Wiring,
    s: int,
    contexts: Floats,
    item: int,
    outcome: int,
    arm: int,
    row: int,
    entry: Ints,
    kept: Floats,
) -> None:
    """Let the arm answer, and make the choice pending."""
    site = ledgers.site[s]
    entry[ROW], entry[ARM], entry[KIND], entry[ITEM], entry[PEER_ROW] = row, arm, outcome, item, EMPTY
    entry[ID] = site[col.LAST_ID]
    if arm < site[col.OWN_COUNT]:
        entry[FUNCTION] = wiring.first_functions[s] + arm
        return
    peer, context = (
        ledger_of(ledgers, wiring.peer_sites[s, arm]),
        contexts[description_of(contexts, wiring.peer_sites[s, arm]), item],
    )
    training = outcome == TRAIN
    labelled = training or wiring.forwards_all[s] > 0
    caller, request = wiring.caller_words[s], entry[ID]
    function, peer_row = answer(peer, context, caller, request, training, labelled, kept[1])
    entry[FUNCTION] = wiring.first_functions[wiring.peer_sites[s, arm]] + function
    if labelled:
        entry[PEER_ROW] = peer_row
        entry[PEER_ID] = peer.site[col.LAST_ID]


@compiled
def deliver(
    ledgers: Ledgers,
    wiring: Wiring,
    contexts: Floats,
    gains: Gains,
    labels: Labels,
    slots: int,
    now: int,
    progress: Ints,
) -> None:
    """Deliver all labels that are due, in order; those without a delay were delivered at once."""
    sites, last = labels.pending.shape[1], labels.pending.shape[0] - 1
    while progress[DELIVERED] < slots * sites:
        number = progress[DELIVERED]
        if labels.order.shape[0] > 0:
            number = labels.order[number]
        slot, s = slot_and_site(number, sites)
        delay = delay_of(labels, slot, s)
        if slot + delay > now or (delay == 0 and slot == now):
            return
        if delay > 0 and labels.pending[slot & last, s, ITEM] != EMPTY:
            label(ledgers, wiring, s, contexts, gains, labels.pending[slot & last, s], labels.kept[slot & last, s])
        progress[DELIVERED] += 1


@compiled
def slot_and_site(number: int, sites: int) -> tuple[int, int]:
    """Return slot and site of a label; with one site, without a division, which is slow."""
    return (number, 0) if sites == 1 else (number // sites, number % sites)


@compiled
def label(ledgers: Ledgers, wiring: Wiring, s: int, contexts: Floats, gains: Gains, entry: Ints, kept: Floats) -> None:
    """Deliver one label: to the site where the item arrived, which forwards it to the peer that answered."""
    item, function, arm = entry[ITEM], entry[FUNCTION], entry[ARM]
    gain, context = float(gains[item, function]), contexts[description_of(contexts, s), item]
    ledger, scores = ledger_of(ledgers, s), wiring.scores[: score(ledgers, wiring, s, gains, item)]
    if ledger.site[col.RULE] == BY_MIXTURE:
        context = kept[0]
    learn(ledger, context, entry[ROW], entry[ID], arm, entry[KIND], gain, scores)
    if entry[PEER_ROW] != EMPTY:
        peer = wiring.peer_sites[s, arm]
        own, request = function - wiring.first_functions[peer], entry[PEER_ID]
        scores = wiring.scores[: score(ledgers, wiring, peer, gains, item)]
        context = (
            kept[1] if ledgers.site[peer, col.RULE] == BY_MIXTURE else contexts[description_of(contexts, peer), item]
        )
        learn(ledger_of(ledgers, peer), context, entry[PEER_ROW], request, own, TAUGHT, gain, scores)


@compiled
def score(ledgers: Ledgers, wiring: Wiring, s: int, gains: Gains, item: int) -> int:
    """Write the gains of the local models of a site into `scores` and return their number: 0 if they are not scored."""
    return score_all(ledgers, wiring, s, gains, item) if ledgers.site[s, col.SCORES] else 0


@compiled_apart
def score_all(ledgers: Ledgers, wiring: Wiring, s: int, gains: Gains, item: int) -> int:
    """Write the gains of the local models of a site into `scores`: NaN for models that cost something."""
    own = ledgers.site[s, col.OWN_COUNT]
    for function in range(own):
        is_free = ledgers.costs[s, function] == 0.0
        wiring.scores[function] = gains[item, wiring.first_functions[s] + function] if is_free else math.nan
    return int(own)
