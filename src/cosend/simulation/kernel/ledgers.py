"""The ledgers of several sites in one, and who is behind which arm: what compiled code can walk through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.draws import caller_word
from cosend.core.kernel.ledger import EMPTY, Floats, Ints, Ledger, Words, new_ledger, reindex
from cosend.core.learner.learner import Learner

NEVER: Final = -1


class Ledgers(NamedTuple):
    """The ledgers of several sites: the arrays of `Ledger` with the site as one more axis in front."""

    site: Ints
    parameters: Floats
    costs: Floats
    slots: Words
    cells: Ints
    rewards: Floats
    counts: Words
    views: Floats


class Wiring(NamedTuple):
    """Who is behind which arm."""

    peer_sites: Ints  # [site, arm]: the site behind a peer
    first_functions: Ints  # [site]: the column of its first function in `gains`
    caller_words: Ints  # [site]
    shares_all: Ints  # [site]: 1 if it passes the label on after every call
    scores: Floats  # [function]: what a label says of the local classifiers of a site
    axes_at: Ints  # [site]: with which arrival some of its features get axes; NEVER if no more do


def put_together(ledgers: Sequence[Ledger]) -> Ledgers:
    """Put the ledgers of all sites into one, with room for the cells of the next slot and for a few more.

    In one slot a site may begin cells for an item of its own and for one of every peer. Hardly any does, and these
    zeros take no memory before somebody writes to them.
    """
    rows, views = max(int(each.site[col.ROWS]) for each in ledgers), max(len(each.views) for each in ledgers)
    capacity = rows + rows // 8 + views * (len(ledgers) + 16)
    arms, parameters = max(len(each.costs) for each in ledgers), max(len(each.parameters) for each in ledgers)
    one = new_ledger(arms, capacity, views, parameters)
    arrays: list[Any] = [np.zeros((len(ledgers), *array.shape), array.dtype) for array in one]
    together = Ledgers(*arrays)
    together.slots[:] = EMPTY
    for s, ledger in enumerate(ledgers):
        _, arms, columns = ledger.rewards.shape
        rows = int(ledger.site[col.ROWS])
        together.site[s], together.costs[s, :arms] = ledger.site, ledger.costs
        together.parameters[s, : len(ledger.parameters)] = ledger.parameters
        together.views[s, : len(ledger.views)] = ledger.views
        together.cells[s, :rows] = ledger.cells[:rows]
        together.rewards[s, :rows, :arms, :columns] = ledger.rewards[:rows]
        together.counts[s, :rows, :arms] = ledger.counts[:rows]
        reindex(_view(together, s))
    return together


def with_more_room(together: Ledgers) -> Ledgers:
    """Return the same ledgers with room for more cells."""
    return put_together([_view(together, s) for s in range(len(together.site))])


def taken_apart(together: Ledgers, like: Sequence[Ledger]) -> list[Ledger]:
    """Take the ledgers of all sites out of one, each with room for a few more cells than it has visited."""
    ledgers = []
    for s, before in enumerate(like):
        _, arms, columns = before.rewards.shape
        view = _view(together, s)
        rows, views = int(view.site[col.ROWS]), int(view.site[col.VIEWS])
        room = rows + max(16, rows // 8, views)
        ledgers.append(
            Ledger(
                site=view.site.copy(),
                parameters=view.parameters[: len(before.parameters)].copy(),
                costs=view.costs[:arms].copy(),
                slots=view.slots.copy(),
                cells=view.cells[:room].copy(),
                rewards=view.rewards[:room, :arms, :columns].copy(),
                counts=view.counts[:room, :arms].copy(),
                views=view.views[:views].copy(),
            )
        )
    return ledgers


def _view(together: Ledgers, s: int) -> Ledger:
    arrays: list[Any] = [array[s] for array in together]
    return Ledger(*arrays)


@compiled
def at(together: Ledgers, s: int) -> Ledger:
    """Return the ledger of a site among them, inside compiled code; nothing is copied."""
    return Ledger(
        together.site[s],
        together.parameters[s],
        together.costs[s],
        together.slots[s],
        together.cells[s],
        together.rewards[s],
        together.counts[s],
        together.views[s],
    )


def wire(learners: Sequence[Learner]) -> Wiring:
    """Return who is behind which arm."""
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
