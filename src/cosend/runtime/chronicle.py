"""Notes once a second what a running site does, and what has happened to it, for the charts of its dashboard.

Costs, pauses, peers that come and go and the like are compared with the second before, so that nothing else has
to tell. A change that is undone within the second leaves no mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cosend.engine.budget import in_words
from cosend.site import learnt_by
from cosend.text import plain_number

if TYPE_CHECKING:
    from cosend.runtime.running_site import RunningSite


class ArmState(NamedTuple):
    """Changes of an arm."""

    cost: float
    paused: bool
    offline: bool
    openings: int  # of its circuit breaker
    backs_off: bool
    fitted: int  # labels to which a learnt arm was fitted


class State(NamedTuple):
    """Changes of a site."""

    arms: dict[str, ArmState]
    observer: str | None
    budget: str  # in words
    rebuilt: int


class Chronicle:
    """Compares a site with itself, a second before."""

    def __init__(self, site: RunningSite) -> None:
        self._site = site
        self._before: State | None = None
        self._counts = (0, 0, 0)
        self._met = set[str]()  # arms that could be reached at least once

    def look(self) -> None:
        """Note what has happened since the last look."""
        now = self._state()
        if self._before is not None:
            self._compare(self._before, now)
        self._before = now
        self._met = {arm for arm, state in now.arms.items() if arm in self._met or not state.offline}
        counts = self._totals()
        items, sent, explored = (new - old for new, old in zip(counts, self._counts, strict=True))
        self._counts = counts
        if items:  # of an arm that has changed sides, all decisions would be new
            self._site.counts.history.decided(items, min(items, max(0, sent)), min(items, max(0, explored)))

    def _totals(self) -> tuple[int, int, int]:
        """Return how many items were decided, and how many of them were sent, and explored."""
        own, items, sent, explored = self._site.state.learner.arms.own, 0, 0, 0
        for (arm, phase), count in self._site.counts.decisions.items():
            items += count
            sent += 0 if arm in own else count
            explored += 0 if phase == "exploit" else count
        return items, sent, explored

    def _state(self) -> State:
        site, learner = self._site, self._site.state.learner
        learnt, accounts = learnt_by(site.state), site.state.accounts
        arms = {
            arm: ArmState(
                cost,
                arm in learner.arms.paused,
                arm in site.peers.offline,
                site.counts.openings[arm],
                site.breakers.position(arm, site.engine.now) != "closed",
                int(learnt[arm].fitted) if arm in learnt and learnt[arm].kind == "grown" else 0,
            )
            for arm, cost in {**learner.arms.own, **learner.arms.peers}.items()
        }
        budget = in_words(None if accounts is None else accounts.budget, site.setup.money)
        return State(arms, site.observer, budget, site.counts.rebuilt)

    def _compare(self, before: State, now: State) -> None:
        mark = self._site.counts.history.mark
        for arm in now.arms.keys() - before.arms.keys():
            mark("joined", arm)
        for arm in before.arms.keys() - now.arms.keys():
            mark("left", arm)
        for arm, state in now.arms.items():
            if arm in before.arms and before.arms[arm] != state:
                self._compare_arm(arm, before.arms[arm], state)
        if before.observer != now.observer:
            mark("mode", now.observer or "")
        if before.budget != now.budget:
            mark("budget", before=before.budget, after=now.budget)
        if before.rebuilt != now.rebuilt:
            mark("rebuilt")

    def _compare_arm(self, arm: str, before: ArmState, now: ArmState) -> None:
        mark = self._site.counts.history.mark
        if before.cost != now.cost:
            mark("cost", arm, plain_number(before.cost, 3), plain_number(now.cost, 3))
        if before.paused != now.paused:
            mark("paused" if now.paused else "resumed", arm)
        if before.offline != now.offline and (now.offline or arm in self._met):
            mark("offline" if now.offline else "back", arm)
        if before.openings < now.openings:
            mark("backing off", arm)
        if before.backs_off and not now.backs_off:
            mark("works", arm)
        if before.fitted < now.fitted:
            mark("fitted", arm, after=f"{now.fitted:,}")
