"""Views of a running site: summaries, arms, cells, decisions and events. Nothing here changes anything."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from cosend.algorithm import layout as col
from cosend.algorithm.layout import TAUGHT
from cosend.algorithm.readout import look_at, look_inside
from cosend.algorithm.values import Cell
from cosend.engine.events import Event, decode
from cosend.engine.money import amount
from cosend.engine.scoring import as_score
from cosend.errors import DecisionError
from cosend.runtime.client_requests import id_text
from cosend.runtime.past_decisions import Past, recall, recall_all
from cosend.site import learnt_by, weighted_views
from cosend.store.log_index import LogIndex
from cosend.version import VERSION

if TYPE_CHECKING:
    from cosend.runtime.running_site import RunningSite

Facts = dict[str, Any]
ENOUGH_BYTES: Final = 2**18  # of events that are read at once
MOST_TRUSTED: Final = 10  # parts of the context that are named
MOST_LOOKS: Final = 20  # for one page of decisions, where most numbers are answers for peers
LONG_MEMORY: Final = 1  # of mixed views, the one of no context that forgets nothing


class Inspection:
    """Looks at a running site."""

    def __init__(self, site: RunningSite) -> None:
        self.site = site

    def summary(self) -> Facts:
        """Return how the site fares, in a few numbers."""
        site, learner, counts = self.site, self.site.state.learner, self.site.counts
        return {
            "site": site.setup.name,
            "version": VERSION,
            "ready": site.is_ready,
            "mode": "observe" if site.observer else "apply",
            "answered_by": site.observer,
            "policy": learner.policy.facts(),
            "context": [axis.description for axis in site.setup.axes],
            "weights": self._weights(),
            "took_over": site.took_over,
            "up_s": time.time() - site.started_at,
            "items": learner.arrivals,
            "in_flight": site.running.in_flight,
            "pending": learner.pending_count,
            "decisions": sum(counts.decisions.values()),
            "labels": {kind: counts.labels[kind] for kind in ("learnt", "duplicate", "unknown", "expired", "missing")},
            "unanswered": counts.unanswered,
            "answered_for_peers": sum(counts.served.values()),
            "outbox": len(site.running.posting),
            "recent_error": counts.error,
            "recent_score": self.as_score(counts.score),
            "score_range": site.engine.units,
            "recent_gain": counts.gain,
            "unit": None if site.setup.money is None else site.setup.money.unit,
            "currency": None if site.setup.money is None else site.setup.money.currency,
            "recent_reward": counts.reward,
            "spent": amount(site.setup.money, site.state.spent.total()),
            "budget": self.spending(),
            "scores": counts.scored_by_hand,
            "cells": int(learner.ledger.site[col.ROWS]),
            "events": site.commits.position,
            "oldest_event": site.store.log.oldest,
        }

    def as_score(self, gain: float | None) -> float | None:
        """Return a gain as a score in the units of the site."""
        return None if gain is None else as_score(gain, self.site.engine.units)

    def spending(self) -> list[Facts]:
        """Return the state of each limit of the budget."""
        accounts = self.site.state.accounts
        return [] if accounts is None else [each._asdict() for each in accounts.spending(self.site.setup.money)]

    def _weights(self) -> dict[str, float]:
        """Return the parts of the context that carry the most weight, where several are mixed."""
        learner = self.site.state.learner
        if not learner.policy.mixes:
            return {}
        shares = {
            name: view.share
            for name, view in weighted_views(learner.views(), self.site.state.encoder.axis_names).items()
        }
        return {name: shares[name] for name in sorted(shares, key=lambda name: -shares[name])[:MOST_TRUSTED]}

    def arms(self) -> list[Facts]:
        """Return every arm: its cost, what is known about it, and whether it is used now."""
        site, arms = self.site, self.site.state.learner.arms
        rewards, counts = self._overall()
        money, learnt = site.setup.money, learnt_by(site.state)
        found = []
        for number, (name, cost) in enumerate(self._costs().items()):
            mean = float(rewards[number]) if counts[number] else None
            by_phase = {phase: count for (arm, phase), count in site.counts.decisions.items() if arm == name}
            found.append(
                {
                    "name": name,
                    "kind": "local" if name in arms.own else "peer",
                    "learnt": learnt[name]._asdict() if name in learnt else None,
                    "cost": cost,
                    "price": None if money is None else money.price(cost),
                    "spent": amount(money, site.state.spent.of(name)),
                    "paused": name in arms.paused,
                    "present": name not in site.peers.offline,
                    "refused": site.peers.refused.get(name),
                    "breaker": site.breakers.position(name, site.engine.now),
                    "failures": site.counts.failures_of(name),
                    "last_failure": site.counts.last_failures.get(name),
                    "decisions": by_phase,
                    "labels": learnt[name].labels if name in learnt else math.ceil(counts[number]),
                    "mean_over": math.ceil(counts[number]),
                    "mean_gain": mean,
                    "mean_score": self.as_score(mean),
                    "seconds_per_item": self._seconds_per_item(name),
                }
            )
        return found

    def _seconds_per_item(self, arm: str) -> float | None:
        workers = self.site.workers
        return workers[arm].seconds_per_item if arm in workers else self.site.running.calls.seconds_per_item(arm)

    def _overall(self) -> tuple[Any, Any]:
        """Return the mean gain and the number of labels of every arm, over the cells of one view that has them all.

        Of arms that the site learns itself, old labels count for less, in both; there are never more than 50 of them.
        """
        learner = self.site.state.learner
        ledger, view = learner.ledger, LONG_MEMORY if learner.policy.mixes else 0
        cells = ledger.cells[: int(ledger.site[col.ROWS])]
        is_here = cells[:, col.CELL_KEY] % len(ledger.views) == view
        rewards = ledger.rewards[: len(cells)][is_here]
        total = rewards[:, :, col.REWARD_COUNT].sum(axis=0)
        return rewards[:, :, col.REWARD_SUM].sum(axis=0) / np.maximum(total, 1), total

    def _costs(self) -> Mapping[str, float]:
        arms = self.site.state.learner.arms
        return {**arms.own, **arms.peers}

    def cells(self, start: int, count: int) -> list[Facts]:
        """Return some of the cells, in the order in which they were first visited."""
        ledger = self.site.state.learner.ledger
        found = look_inside(ledger, self._costs(), range(start, start + count))
        return [_cell_facts(key, cell) for key, cell in found.items()]

    async def decision(self, name: str) -> Facts:
        """Return a decision by its id, and what its cell knows now."""
        site, owner = self.site, self.site.setup.name
        number = site.labelling.find([name]).get(name, 0)
        past = await site.store.look(recall, number, site.setup.most_flights)
        if past is None:
            raise DecisionError(owner, name, f"site {owner!r} does not know decision {name!r:.100}, or no longer does")
        cell = look_at(site.state.learner.ledger, self._costs(), past.cell)
        record = self._record(number, past, site.store.index.names_of([number]).get(number, name))
        return {**record, "cell_now": None if cell is None else _cell_facts(past.cell, cell)}

    def _record(self, number: int, past: Past, name: str) -> Facts:
        """Return what is known about a decision whose client knows it by this id."""
        site, money = self.site, self.site.setup.money
        return {
            **msgspec.structs.asdict(past.decided(name)),
            "price": None if money is None else money.price(past.cost),
            "cost_paid": past.cost_paid,
            "price_paid": None if money is None or past.cost_paid is None else money.price(past.cost_paid),
            "number": number,
            "at": past.at,
            "context": list(past.context),
            "label_of_arm": past.label,
            "labelled": past.labelled,
            "truth": past.truth,
            "score": self.as_score(past.score),
            "pending": number in site.state.learner.registry,
        }

    async def decisions(self, count: int, newest: int | None) -> tuple[list[Facts], int | None]:
        """Return answered decisions, newest first, up to a number, and the number of the next page; None: no more.

        They may be fewer than `count`, because answers for peers, and choices that have failed, have numbers too.
        """
        records, following = list[Facts](), newest
        for _ in range(MOST_LOOKS):
            more, following = await self._look(count, count - len(records), following)
            records += more
            if following is None or len(records) == count:
                break
        return records, following

    async def _look(self, count: int, most: int, newest: int | None) -> tuple[list[Facts], int | None]:
        """Return some of the decisions among the next numbers, and the number after these."""
        site = self.site
        some = self._newest(count, newest)
        found = await site.store.look(recall_all, some, site.setup.most_flights)
        past = sorted(found.items(), reverse=True)[:most]
        names = site.store.index.names_of([number for number, _ in past])
        records = [self._record(number, each, names.get(number, id_text(number))) for number, each in past]
        following = past[-1][0] - 1 if len(past) == most else some.start - 1
        oldest = site.store.index.oldest_decision()
        return records, following if oldest is not None and following >= oldest else None

    def last_decisions(self, count: int, newest: int | None = None) -> list[tuple[int, Past]]:
        """Return answered decisions with their numbers, newest first, up to a number."""
        found = recall_all(self.site.store.index, self._newest(count, newest), self.site.setup.most_flights)
        return sorted(found.items(), reverse=True)[:count]

    def _newest(self, count: int, newest: int | None) -> range:
        """Return numbers among which there are mostly this many decisions: answers for peers have numbers too."""
        last = self.site.state.learner.last_id
        newest = last if newest is None else min(newest, last)
        return range(max(0, newest - 4 * count) + 1, newest + 1)

    def waiting(self) -> Facts:
        """Return how many decisions, and answers for peers, wait for their label, and for how many seconds."""
        site = self.site
        entries = site.state.learner.registry.table.entries
        is_own = (entries[:, col.PENDING_ID] > 0) & (entries[:, col.PENDING_KIND] != TAUGHT)
        own, now = entries[is_own, col.PENDING_ID], time.time()
        middle = len(own) // 2
        return {
            "decisions": len(own),
            "for_peers": site.state.learner.pending_count - len(own),
            "oldest_s": self._age(int(own.min()), now) if len(own) else None,
            "middle_s": self._age(int(np.partition(own, middle)[middle]), now) if len(own) else None,
        }

    def _age(self, number: int, now: float) -> float | None:
        """Return how old a decision is; it may just be on its way to the disk."""
        past = recall(self.site.store.index, number, self.site.setup.most_flights)
        return None if past is None else max(0.0, now - past.at)

    def forecasts(self, context: Sequence[Any]) -> dict[str, float] | None:
        """Return what every arm would gain in a context by all views together; None if the policy mixes no views."""
        state = self.site.state
        if not state.learner.policy.mixes:
            return None
        found: dict[str, float] = dict.fromkeys(state.learner.arms.names, 0.0)
        for each in state.learner.explain(state.point(context)):
            for arm, forecast in each.forecasts.items():
                found[arm] += each.view.share * forecast
        return found

    def events(self, start: int, count: int) -> tuple[list[bytes], int]:
        """Return events from a number on as lines of JSON, and the number to continue with; any thread may call this.

        At most `count`, and limited by size: an event may contain thousands of items.
        """
        index, lines, size = LogIndex(self.site.store.log.reader()), list[bytes](), 0
        try:
            while len(lines) < count and size < ENOUGH_BYTES and (rows := index.events(start, 1)):
                lines.append(event_line(rows[0].number, rows[0].at, decode(rows[0].event)))
                start, size = rows[0].number + 1, size + len(lines[-1])
        finally:
            index.close()
        return lines, start


def event_line(number: int, at: float, event: Event) -> bytes:
    """Return an event as a line of JSON."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return msgspec.json.encode({"number": number, "at": at, "event": type(event).__name__, **fields})


def _cell_facts(key: int, cell: Cell) -> Facts:
    return {
        "key": key,
        "axes": list(cell.axes),
        "slices": cell.slices,
        "view": cell.view,
        "arrivals": cell.labelled.arrivals,
        "taught": cell.labelled.taught,
        "arms": {name: estimate._asdict() for name, estimate in cell.estimates.items()},
    }
