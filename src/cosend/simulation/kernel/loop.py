"""The compiled loop of a replay: labels that are due are handed out, then the sites choose one after the other."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.compiled import compiled, compiled_apart, entry_point
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import BY_MIXTURE, EXPLOIT, TAUGHT, TRAIN
from cosend.core.kernel.cos import ASK, Asked
from cosend.core.kernel.entry_points import EPOCH_OVER, NO_ROOM
from cosend.core.kernel.labels import learn
from cosend.core.kernel.ledger import EMPTY, Floats, Ints
from cosend.core.kernel.mixed_steps import choose_mixed
from cosend.core.kernel.partition import epoch_is_over
from cosend.core.kernel.steps import answer, choose, hear, report
from cosend.reports.small_tables import SmallTable
from cosend.simulation.kernel.ledgers import Ledgers, Wiring, at

Gains = npt.NDArray[Any]  # [item, function], any number type

END: Final = 2**63 - 1  # the slot in which all labels are known
DONE: Final = 1
PAUSED: Final = 2
AXES_COME: Final = 3

# Columns of a waiting choice.
ROW: Final = 0
ARM: Final = 1
KIND: Final = 2
FUNCTION: Final = 3
ITEM: Final = 4
TICKET: Final = 5
ARRIVAL: Final = 6
PEER_ROW: Final = 7  # EMPTY unless the label is passed on
PEER_TICKET: Final = 8
PEER_ARRIVAL: Final = 9
WAITING_COLUMNS: Final = 10

# Columns of how far a replay came.
SLOT: Final = 0  # slots done
HANDED_OUT: Final = 1  # labels handed out, in the order they are due
SITE: Final = 2  # sites done in this slot
PROGRESS_COLUMNS: Final = 3


class Trace(NamedTuple):
    """What was decided, slot by slot and site by site: arrays [slot, site]; 0 where nothing arrived."""

    phases: npt.NDArray[np.int8]  # TRAIN, EXPLORE or EXPLOIT
    arms: npt.NDArray[np.int16]
    functions: npt.NDArray[np.int16]  # the function that answered, as a column of `gains`

    def _repr_html_(self) -> str:
        rows = []
        for site, phases in enumerate(self.phases.T):
            items = int(np.count_nonzero(phases))
            of = [np.count_nonzero(phases == TRAIN), np.count_nonzero(phases == EXPLOIT)]
            shares = [of[0], items - sum(of), of[1]]
            rows.append([str(site), f"{items:,}", *(f"{100 * share / max(1, items):.1f} %" for share in shares)])
        return SmallTable("replay", ["site", "items", "train", "explore", "exploit"], rows).html()


class Labels(NamedTuple):
    """When labels come."""

    delays: Ints  # [slot, site], or [[delay]] if it is always the same
    order: Ints  # the numbers slot * sites + site of the labels as they come; empty if that is 0, 1, 2, ...
    waiting: Ints  # [slot modulo a power of two, site, column]: what waits
    kept: Floats  # [slot modulo a power of two, site, 2, number]: what mixed views keep of it, here and at the peer


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
    """Run to the end, or until something stops it; `progress` is how far it came."""
    slots, sites = items.shape
    last = labels.waiting.shape[0] - 1
    for slot in range(progress[SLOT], slots + 1):  # after the last, all labels are known
        if stop <= slot < slots:
            return PAUSED, 0
        hand_out(ledgers, wiring, contexts, gains, labels, slots, slot if slot < slots else END, progress)
        if slot == slots:
            break
        if rooms_needed(ledgers, sites):
            return NO_ROOM, 0
        for s in range(progress[SITE], sites):
            item, entry = items[slot, s], labels.waiting[slot & last, s]
            entry[ITEM] = item
            if item == EMPTY:
                continue
            if epoch_is_over(ledgers.site[s]):
                progress[SITE] = s
                return EPOCH_OVER, s
            if ledgers.site[s, col.ARRIVALS] == wiring.axes_at[s]:
                progress[SITE] = s
                return AXES_COME, s
            kept = labels.kept[slot & last, s]
            arrive(ledgers, wiring, s, contexts, item, asked, entry, kept)
            leave_trace(trace, slot, s, entry)
            if delay_of(labels, slot, s) == 0:
                label(ledgers, wiring, s, contexts, gains, entry, kept)
        progress[SLOT], progress[SITE] = slot + 1, 0
    return DONE, 0


@compiled
def leave_trace(trace: Trace, slot: int, s: int, entry: Ints) -> None:
    """Write down for whoever looks at the replay what was chosen."""
    trace.phases[slot, s] = entry[KIND]
    trace.arms[slot, s] = entry[ARM]
    trace.functions[slot, s] = entry[FUNCTION]


@compiled
def whose(contexts: Floats, s: int) -> int:
    """Return whose contexts a site has: its own, but most replays have one description of an item for all."""
    return s if contexts.shape[0] > 1 else 0


@compiled
def delay_of(labels: Labels, slot: int, s: int) -> int:
    """Return how many slots later a label is known."""
    if labels.order.shape[0] == 0:
        return int(labels.delays[0, 0])
    return int(labels.delays[slot, s])


@compiled
def rooms_needed(ledgers: Ledgers, sites: int) -> bool:
    """Tell whether a site could run out of room for new cells in this slot: for an item and all peers' trainings."""
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
    """Choose for an item, let the arm answer, and write down what waits for the label."""
    if ledgers.site[s, col.RULE] == BY_MIXTURE:
        arrive_mixed(ledgers, wiring, s, contexts, item, entry, kept)
        return
    ledger, context = at(ledgers, s), contexts[whose(contexts, s), item]
    outcome, arm, row, asked_any = ASK, 0, 0, False
    while outcome == ASK:
        outcome, arm, row, _ = choose(ledger, context, asked)
        if outcome == ASK:
            there = wiring.peer_sites[s, arm]
            arrivals, taught = report(at(ledgers, there), contexts[whose(contexts, there), item])
            hear(ledger, context, arm, arrivals, taught, ledger.site[col.ARRIVALS] + 1)
            asked[arm] = True
            asked_any = True
    if asked_any:
        asked[:] = False
    write_down(ledgers, wiring, s, contexts, item, outcome, arm, row, entry, kept)


@compiled_apart
def arrive_mixed(
    ledgers: Ledgers, wiring: Wiring, s: int, contexts: Floats, item: int, entry: Ints, kept: Floats
) -> None:
    """Do the same at a site that mixes views, which asks nobody.

    Apart, because it is long: with both in one body, all other policies were a tenth slower.
    """
    ledger = at(ledgers, s)
    arrival = ledger.site[col.ARRIVALS] + 1
    outcome, arm, row, _ = choose_mixed(ledger, contexts[whose(contexts, s), item], arrival, 1, kept[0])
    write_down(ledgers, wiring, s, contexts, item, outcome, arm, row, entry, kept)


@compiled
def write_down(
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
    """Let the arm answer, and write down what waits for the label."""
    site = ledgers.site[s]
    entry[ROW], entry[ARM], entry[KIND], entry[ITEM], entry[PEER_ROW] = row, arm, outcome, item, EMPTY
    entry[TICKET], entry[ARRIVAL] = site[col.TICKETS], site[col.ARRIVALS]
    if arm < site[col.OWN_COUNT]:
        entry[FUNCTION] = wiring.first_functions[s] + arm
        return
    peer, context = at(ledgers, wiring.peer_sites[s, arm]), contexts[whose(contexts, wiring.peer_sites[s, arm]), item]
    training = outcome == TRAIN
    labelled = training or wiring.shares_all[s] > 0
    caller, request = wiring.caller_words[s], entry[TICKET]
    function, peer_row = answer(peer, context, caller, request, training, labelled, kept[1])
    entry[FUNCTION] = wiring.first_functions[wiring.peer_sites[s, arm]] + function
    if labelled:
        entry[PEER_ROW] = peer_row
        entry[PEER_TICKET], entry[PEER_ARRIVAL] = peer.site[col.TICKETS], peer.site[col.ARRIVALS]


@compiled
def hand_out(
    ledgers: Ledgers,
    wiring: Wiring,
    contexts: Floats,
    gains: Gains,
    labels: Labels,
    slots: int,
    now: int,
    progress: Ints,
) -> None:
    """Hand out all labels that are due, in their order; those without a delay have been."""
    sites, last = labels.waiting.shape[1], labels.waiting.shape[0] - 1
    while progress[HANDED_OUT] < slots * sites:
        number = progress[HANDED_OUT]
        if labels.order.shape[0] > 0:
            number = labels.order[number]
        slot, s = divided(number, sites)
        delay = delay_of(labels, slot, s)
        if slot + delay > now or (delay == 0 and slot == now):
            return
        if delay > 0 and labels.waiting[slot & last, s, ITEM] != EMPTY:
            label(ledgers, wiring, s, contexts, gains, labels.waiting[slot & last, s], labels.kept[slot & last, s])
        progress[HANDED_OUT] += 1


@compiled
def divided(number: int, sites: int) -> tuple[int, int]:
    """Return slot and site; most replays that are in a hurry have one site, and a division takes its time."""
    return (number, 0) if sites == 1 else (number // sites, number % sites)


@compiled
def label(ledgers: Ledgers, wiring: Wiring, s: int, contexts: Floats, gains: Gains, entry: Ints, kept: Floats) -> None:
    """Hand out one label: to the site where the item arrived, and by it to the peer that it taught."""
    item, function, arm = entry[ITEM], entry[FUNCTION], entry[ARM]
    gain, context = float(gains[item, function]), contexts[whose(contexts, s), item]
    ledger, scores = at(ledgers, s), wiring.scores[: score(ledgers, wiring, s, gains, item)]
    if ledger.site[col.RULE] == BY_MIXTURE:
        context = kept[0]
    learn(ledger, context, entry[ROW], entry[TICKET], entry[ARRIVAL], arm, entry[KIND], gain, scores)
    if entry[PEER_ROW] != EMPTY:
        peer = wiring.peer_sites[s, arm]
        own, ticket, arrival = function - wiring.first_functions[peer], entry[PEER_TICKET], entry[PEER_ARRIVAL]
        scores = wiring.scores[: score(ledgers, wiring, peer, gains, item)]
        context = kept[1] if ledgers.site[peer, col.RULE] == BY_MIXTURE else contexts[whose(contexts, peer), item]
        learn(at(ledgers, peer), context, entry[PEER_ROW], ticket, arrival, own, TAUGHT, gain, scores)


@compiled
def score(ledgers: Ledgers, wiring: Wiring, s: int, gains: Gains, item: int) -> int:
    """Write down what a label says of the local classifiers of a site, and return how many these are: 0 if not run."""
    return score_all(ledgers, wiring, s, gains, item) if ledgers.site[s, col.SCORES] else 0


@compiled_apart
def score_all(ledgers: Ledgers, wiring: Wiring, s: int, gains: Gains, item: int) -> int:
    """Write down the gains of the local classifiers of a site; not a number for those that would cost something."""
    own = ledgers.site[s, col.OWN_COUNT]
    for function in range(own):
        is_free = ledgers.costs[s, function] == 0.0
        wiring.scores[function] = gains[item, wiring.first_functions[s] + function] if is_free else math.nan
    return int(own)
