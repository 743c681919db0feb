"""How a site has fared since it was built or loaded, as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cosend.alone import Alone, one_at_a_time
from cosend.core.learner.arms import Arms
from cosend.reports.small_tables import SmallTable
from cosend.reports.text import counted
from cosend.site.rules import Rules

HEADING: Final = ("arm", "kind", "cost", "decisions", "share", "labels", "mean reward", "state")


@dataclass(slots=True)
class Tally:
    """What the arms of a site have done in this process; a saved state does not have it."""

    decisions: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    rewards: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # net of costs

    def decided(self, uses: Iterable[tuple[str, int]]) -> None:
        """Count decisions by their arms."""
        for arm, count in uses:
            self.decisions[arm] += count

    def learnt(
        self, arms: Arms, found: Sequence[Sequence[int]], gains: Sequence[float], costs: Sequence[float | None] | None
    ) -> None:
        """Count labels by the arms that they are for; what a decision cost is told with its label, or known."""
        for n, ((number, _, _), gain) in enumerate(zip(found, gains, strict=True)):
            if gain != gain:  # nobody had an answer
                continue
            arm, cost = arms.names[number], None if costs is None else costs[n]
            self.labels[arm] += 1
            self.rewards[arm] += gain - (arms.costs[number] if cost is None else cost)

    def mean_reward(self, arms: Iterable[str]) -> float | None:
        """Return the mean reward of all labels of these arms; None without any."""
        names = list(arms)
        labels = sum(self.labels[arm] for arm in names)
        return sum(self.rewards[arm] for arm in names) / labels if labels else None


class ArmSummary(NamedTuple):
    """How one arm has fared."""

    name: str
    kind: str  # "local" or "peer"
    cost: float
    decisions: int
    labels: int
    mean_reward: float | None  # net of its cost; None before the first label
    state: str  # "" if it can be used, else "paused" or "resting"


class Summary(NamedTuple):
    """How a site has fared: print it, show it in a notebook, or read its fields."""

    site: str
    items: int
    waiting: int
    arms: Sequence[ArmSummary]

    def table(self) -> SmallTable:
        """Return it as a table."""
        decisions = sum(arm.decisions for arm in self.arms)
        title = f"{self.site}: {counted(self.items, 'item')}, {counted(self.waiting, 'label')} awaited"
        return SmallTable(title, HEADING, [_row(arm, decisions) for arm in self.arms])

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


class Tallied(ABC):
    """The part of a site that tells how its arms have fared."""

    alone: Alone
    name: str
    rules: Rules
    tally: Tally

    @abstractmethod
    def resting(self) -> dict[str, str]:
        """Return the arms that are left alone for a while, and why."""

    @one_at_a_time
    def summary(self) -> Summary:
        """Return how its arms have fared since it was built or loaded: a table to print, or to show in a notebook.

        >>> from cosend import Context, Site
        >>> site = Site("here", classifiers={"one": lambda item: 1}, context=Context("x", range=(0, 1)))
        >>> site.learn(site.classify({"x": 0.5}), 1)
        >>> print(site.summary())
        here: 1 item, 0 labels awaited
        arm   kind  cost  decisions  share  labels  mean reward  state
        one  local     0          1  100 %       1        1.000
        """
        learner, tally = self.rules.learner, self.tally
        states = dict.fromkeys(self.resting(), "resting") | dict.fromkeys(learner.arms.paused, "paused")
        arms = [
            ArmSummary(
                arm, kind, cost, tally.decisions[arm], tally.labels[arm], tally.mean_reward([arm]), states.get(arm, "")
            )
            for kind, of_kind in (("local", learner.arms.own), ("peer", learner.arms.peers))
            for arm, cost in of_kind.items()
        ]
        return Summary(self.name, learner.arrivals, learner.waiting_count, arms)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def _row(arm: ArmSummary, decisions: int) -> list[str]:
    share = f"{100 * arm.decisions / decisions:.0f} %" if decisions else ""
    reward = "" if arm.mean_reward is None else f"{arm.mean_reward:.3f}"
    return [
        arm.name, arm.kind, f"{arm.cost:g}", f"{arm.decisions:,}", share, f"{arm.labels:,}", reward, arm.state,
    ]  # fmt: skip


def network_table(sites: Iterable[Tallied]) -> SmallTable:
    """Return how sites have fared, a row each."""
    heading = ("site", "classifiers", "items", "sent to peers", "labels awaited", "mean reward")
    return SmallTable("network", heading, [_site_row(site) for site in sites])


def _site_row(site: Tallied) -> list[str]:
    arms, tally, learner = site.rules.learner.arms, site.tally, site.rules.learner
    sent, decisions = sum(tally.decisions[peer] for peer in arms.peers), tally.decisions.total()
    reward = tally.mean_reward(tally.labels)
    return [
        site.name,
        str(len(arms.own)),
        f"{learner.arrivals:,}",
        f"{100 * sent / decisions:.0f} %" if decisions else "",
        f"{learner.waiting_count:,}",
        "" if reward is None else f"{reward:.3f}",
    ]
