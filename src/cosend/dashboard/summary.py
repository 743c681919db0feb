"""All that the pages show of a site at one moment, as plain data: found out once, however many pages there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cosend.dashboard.flows import Flow
from cosend.dashboard.where import local_means
from cosend.node.history import Stretch
from cosend.node.inspection import Facts, Inspection
from cosend.node.node import Node
from cosend.node.recall import Past
from cosend.node.traffic import Traffic, read, traffic_of

LAST: Final = 5  # decisions that are shown, and as many whose label has come
RECENT_LABELS: Final = 1_000
FEWEST_LABELS: Final = 50  # before anything is said of what a classifier would gain
COVERED: Final = 0.9  # of the items, in whose cells a classifier has labels


class Means(NamedTuple):
    """What labels said in a stretch of time; `local` is the reward of always using the best local classifier."""

    at_s: float  # the end of the stretch, since the process started
    reward: float
    error: float
    cost: float
    local: float | None


class Local(NamedTuple):
    """What always using one local classifier earns."""

    name: str
    reward: float
    is_exact: bool  # every label scores it; else it is what its labels say of the cells


@dataclass(frozen=True)
class Summary:
    """One moment."""

    facts: Facts
    arms: Sequence[Facts]
    waiting: Facts
    decisions: Sequence[tuple[int, Past]]
    labelled: Sequence[tuple[int, Past]]  # the newest whose label has come
    curve: Sequence[Means]
    local: Local | None
    told: Mapping[str, Traffic]  # by site
    flows: Sequence[Flow]
    window_s: float  # how long the time of the flows is
    why_not_ready: str = ""

    @property
    def site(self) -> str:
        """The site that is looked at."""
        return str(self.facts["site"])

    @property
    def sites(self) -> list[str]:
        """All sites that are known here, in an order that is the same on the pages of all of them."""
        peers = {arm["name"] for arm in self.arms if arm["kind"] == "peer"}
        return sorted({self.site, *peers, *self.told})


def best_local(stretches: Sequence[Stretch]) -> str | None:
    """Return the classifier that gained most by labels that score all of them; None if none did."""
    sums: dict[str, list[float]] = {}
    for stretch in stretches:
        for name, (gain, count) in stretch.local.items():
            known = sums.setdefault(name, [0.0, 0.0])
            known[0], known[1] = known[0] + gain, known[1] + count
    means = {name: gain / count for name, (gain, count) in sums.items() if count >= FEWEST_LABELS}
    return max(means, key=means.__getitem__) if means else None


def curve_of(stretches: Sequence[Stretch], each_s: float, local: str | None) -> list[Means]:
    """Return the means of every stretch that has labels."""
    found = []
    for place, stretch in enumerate(stretches):
        if stretch.labels:
            gain, cost = stretch.gain / stretch.labels, stretch.cost / stretch.labels
            known, count = stretch.local.get(local or "", (0.0, 0))
            beside = known / count if count else None
            found.append(Means((place + 1) * each_s, gain - cost, 1.0 - gain, cost, beside))
    return found


def recently(stretches: Sequence[Stretch], local: str) -> float | None:
    """Return what a classifier gained on the last thousand labels or so."""
    gain = count = 0.0
    for stretch in reversed(stretches):
        more, of = stretch.local.get(local, (0.0, 0))
        gain, count = gain + more, count + of
        if count >= RECENT_LABELS:
            break
    return gain / count if count else None


def estimated_local(means: Sequence[tuple[float, float]], arms: Sequence[Facts]) -> Local | None:
    """Return the best local classifier by what its labels say of the cells, if they say enough."""
    found = [
        Local(arm["name"], mean - arm["cost"], False)
        for (mean, covered), arm in zip(means, arms, strict=False)
        if covered >= COVERED and arm["labels"] >= FEWEST_LABELS
    ]
    return max(found, key=lambda each: each.reward) if found else None


def network_of(node: Node) -> tuple[dict[str, Traffic], list[str]]:
    """Return what all sites that are there tell of their traffic, this one included; and who cannot be understood."""
    news = {} if node.link is None else node.link.news()
    read_news = {site: read(text) for site, text in news.items()}
    told = {site: traffic for site, traffic in read_news.items() if traffic is not None}
    return {**told, node.setup.name: traffic_of(node)}, [site for site in read_news if site not in told]


def local_of(node: Node, arms: Sequence[Facts]) -> Local | None:
    """Return what always using the best local classifier would have earned of late, as far as labels tell."""
    stretches = node.counts.history.stretches
    name = best_local(stretches)
    if name is not None:
        reward = recently(stretches, name)
        return None if reward is None else Local(name, reward, True)
    return estimated_local(local_means(node.rules.learner.ledger, len(node.rules.learner.arms.own)), arms)


def _labelled(inspection: Inspection, newest: int) -> list[tuple[int, Past]]:
    """Return the newest decisions whose label has come; the very newest may be on their way to the disk."""
    return [each for each in inspection.last_decisions(3 * LAST, newest) if each[1].labelled][:LAST]


def look(
    node: Node, told: Mapping[str, Any], flows: Sequence[Flow], window_s: float, before: Summary | None = None
) -> Summary:
    """Return all that pages show of a site now; what has to be read from the disk is that of `before`, if given."""
    inspection, history = Inspection(node), node.counts.history
    arms = inspection.arms()
    local = local_of(node, arms)
    exact = local.name if local is not None and local.is_exact else None
    return Summary(
        facts=inspection.summary(),
        arms=arms,
        waiting=inspection.waiting() if before is None else before.waiting,
        decisions=inspection.last_decisions(LAST) if before is None else before.decisions,
        labelled=_labelled(inspection, node.rules.past.newest_labelled) if before is None else before.labelled,
        curve=curve_of(history.stretches, history.each_s, exact),
        local=local,
        told=told,
        flows=flows,
        window_s=window_s,
        why_not_ready=node.why_not_ready,
    )
