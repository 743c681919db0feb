"""What the pages show about a site at one moment, as plain data: read once, however many pages are open.

This is the only module that reads a running site. `SiteView` uses of a node: `setup.name`, `why_not_ready`,
`driver`, `check_started`, `link.news`, `counts.history`, `state.learner` (`arms`, `ledger`), `state.encoder` (`given`,
`features`, `codes`, `recent`, `newest_id`) and `store.index.names_of`; besides, `traffic_of`, and of
`Inspection`: `summary`, `arms`, `waiting`, `last_decisions`, `decision` and `forecasts`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeAlias

from cosend.axis_format import AnyAxis, name_of, ticks_of, value_at
from cosend.engine.counts import PHASE_NAMES
from cosend.engine.features import FeatureAxis
from cosend.pages.winning_arms import Square, local_means, squares
from cosend.runtime.client_requests import id_text
from cosend.runtime.gossip import Traffic, read, traffic_of
from cosend.runtime.inspection import Facts, Inspection
from cosend.runtime.label_history import Stretch
from cosend.runtime.past_decisions import Past
from cosend.runtime.running_site import RunningSite
from cosend.text import short_text

LAST: Final = 5  # decisions that are shown, and as many whose label has arrived
RECENT_LABELS: Final = 1_000
FEWEST_LABELS: Final = 50  # before anything is said about what a model would gain
COVERED: Final = 0.9  # share of the items in whose cells a model has labels
MOST_PAIRED: Final = 6  # axes: the pairs of more would be a long list
WINDOW_S: Final = 20.0  # of the traffic between sites
Choice: TypeAlias = tuple[int, ...]  # one or two axes; empty where there are none yet


class Means(NamedTuple):
    """What labels said in a stretch of time; `local` is the reward of always using the best local model."""

    at_s: float  # the end of the stretch, since the process started
    reward: float
    error: float
    cost: float
    local: float | None


class Local(NamedTuple):
    """What always using one local model earns."""

    name: str
    reward: float
    is_exact: bool  # every label scores it; otherwise it is estimated from the cells


class Decision(NamedTuple):
    """A row of the last decisions."""

    id: int
    at: float
    arm: str
    phase: str
    prediction: Any
    has_truth: bool
    truth: Any


class Flow(NamedTuple):
    """The items that arrived at one site within the window."""

    site: str
    kept: int
    sent: dict[str, int]

    @property
    def items(self) -> int:
        """All that arrived."""
        return self.kept + sum(self.sent.values())


class AxisView(NamedTuple):
    """An axis of the context in its own units."""

    name: str
    ticks: Sequence[tuple[float, str]]  # places in [0, 1]
    values: Sequence[str] | None = None  # of a category: its values, by their codes
    value_at: Callable[[float], str] = "{:.3g}".format


@dataclass(frozen=True)
class Snapshot:
    """One moment."""

    facts: Facts
    arms: Sequence[Facts]
    pending: Facts
    decisions: Sequence[Decision]
    labelled: Sequence[Decision]  # the newest whose label has arrived
    curve: Sequence[Means]
    local: Local | None
    traffic: Mapping[str, Traffic]  # by site
    flows: Sequence[Flow]
    window_s: float  # how long the time of the flows is
    why_not_ready: str = ""

    @property
    def site(self) -> str:
        """The site that is looked at."""
        return str(self.facts["site"])

    @property
    def sites(self) -> list[str]:
        """All known sites, in an order that is the same on the pages of all of them."""
        peers = {arm["name"] for arm in self.arms if arm["kind"] == "peer"}
        return sorted({self.site, *peers, *self.traffic})


class SiteView:
    """A running site, as the pages see it."""

    def __init__(self, node: RunningSite) -> None:
        self._node, self._inspection = node, Inspection(node)

    @property
    def name(self) -> str:
        """What the site is called."""
        return self._node.setup.name

    @property
    def is_started(self) -> bool:
        """Whether there is anything to look at."""
        return self._node.driver is not None

    def snapshot(
        self, traffic: Mapping[str, Traffic], flows: Sequence[Flow], window_s: float, before: Snapshot | None = None
    ) -> Snapshot:
        """Return everything that pages show now; what would have to be read from disk is that of `before`, if given."""
        node, inspection = self._node, self._inspection
        history, arms = node.counts.history, inspection.arms()
        local = self._local(arms)
        exact = local.name if local is not None and local.is_exact else None
        newest = node.state.encoder.newest_id
        return Snapshot(
            facts=inspection.summary(),
            arms=arms,
            pending=inspection.waiting() if before is None else before.pending,
            decisions=self._decisions(LAST) if before is None else before.decisions,
            labelled=[each for each in self._decisions(3 * LAST, newest) if each.has_truth][:LAST]
            if before is None
            else before.labelled,
            curve=curve_of(history.stretches, history.each_s, exact),
            local=local,
            traffic=traffic,
            flows=flows,
            window_s=window_s,
            why_not_ready=node.why_not_ready,
        )

    def _decisions(self, count: int, newest: int | None = None) -> list[Decision]:
        return [_decision(*each) for each in self._inspection.last_decisions(count, newest)]

    def _local(self, arms: Sequence[Facts]) -> Local | None:
        """Return what always using the best local model would have earned recently, as far as labels tell."""
        stretches = self._node.counts.history.stretches
        name = best_local(stretches)
        if name is not None:
            reward = recent_gain(stretches, name)
            return None if reward is None else Local(name, reward, True)
        learner = self._node.state.learner
        return estimated_local(local_means(learner.ledger, len(learner.arms.own)), arms)

    def traffic(self) -> tuple[dict[str, Traffic], list[str]]:
        """Return the traffic that every site announces, this one included, and the peers whose news are unreadable."""
        news = {} if self._node.link is None else self._node.link.news()
        found = {site: read(text) for site, text in news.items()}
        readable = {site: traffic for site, traffic in found.items() if traffic is not None}
        return {**readable, self.name: traffic_of(self._node)}, [site for site in found if site not in readable]

    async def decision(self, id: str) -> tuple[Facts, list[Facts], list[tuple[str, str]], Mapping[str, float] | None]:
        """Return a decision, the arms, its context in words, and the forecasts if the policy mixes views."""
        self._node.check_started()
        if id.isdecimal() and len(id) < 19:  # a row of the page: its client may know it by another id
            number = int(id)
            id = self._node.store.index.names_of([number]).get(number, id_text(number))
        facts = await self._inspection.decision(id)
        places = zip(self.axes(), facts["context"], strict=False)
        context = [(name_of(axis), value_at(axis, place)) for axis, place in places]
        return facts, self._inspection.arms(), context, self._inspection.forecasts(facts["context"])

    # The context

    def axes(self) -> list[AnyAxis]:
        """Return the axes that items have now: those that were given, and features that have become one."""
        if not self.is_started:
            return []
        features = self._node.state.encoder.features
        return [*self._node.state.encoder.given, *(features.axes if features is not None else ())]

    def choices(self) -> list[Choice]:
        """Return the axes that can be looked at, and before them the pairs of axes if these are few."""
        axes = range(len(self.axes()))
        pairs = combinations(axes, 2) if len(axes) <= MOST_PAIRED else ()
        return [*pairs, *((axis,) for axis in axes)]

    def axis(self, number: int) -> AxisView:
        """Return an axis as people read it."""
        axis, past = self.axes()[number], self._node.state.encoder
        if not isinstance(axis, FeatureAxis) and axis.is_category:
            known = past.codes[number].values if number in past.codes else []
            return AxisView(name_of(axis), [], [short_text(value) for value in known])
        recent = past.recent[number].values if number in past.recent else [0.0]
        return AxisView(name_of(axis), ticks_of(axis, lambda: list(recent)), value_at=partial(value_at, axis))

    def squares(self, choice: Choice, arms: Sequence[Facts]) -> list[Square] | None:
        """Return what is known along the chosen axes; None if an arm has joined or left since."""
        learner = self._node.state.learner
        if [arm["name"] for arm in arms] != list(learner.arms.names):
            return None
        return squares(learner.ledger, choice, len(arms))


def _decision(id: int, past: Past) -> Decision:
    return Decision(id, past.at, past.arm, PHASE_NAMES[past.kind], past.shown, past.labelled, past.truth)


# What labels have said


def best_local(stretches: Sequence[Stretch]) -> str | None:
    """Return the model that gained most by labels that score all of them; None if there are not enough."""
    sums: dict[str, list[float]] = {}
    for stretch in stretches:
        for name, (gain, count) in stretch.local.items():
            known = sums.setdefault(name, [0.0, 0.0])
            known[0], known[1] = known[0] + gain, known[1] + count
    means = {name: gain / count for name, (gain, count) in sums.items() if count >= FEWEST_LABELS}
    return max(means, key=means.__getitem__) if means else None


def recent_gain(stretches: Sequence[Stretch], local: str) -> float | None:
    """Return what a model gained on about the last thousand labels."""
    gain = count = 0.0
    for stretch in reversed(stretches):
        more, number = stretch.local.get(local, (0.0, 0))
        gain, count = gain + more, count + number
        if count >= RECENT_LABELS:
            break
    return gain / count if count else None


def estimated_local(means: Sequence[tuple[float, float]], arms: Sequence[Facts]) -> Local | None:
    """Return the best local model by what its labels say about the cells, if they say enough."""
    found = [
        Local(arm["name"], mean - arm["cost"], False)
        for (mean, covered), arm in zip(means, arms, strict=False)
        if covered >= COVERED and arm["labels"] >= FEWEST_LABELS
    ]
    return max(found, key=lambda each: each.reward) if found else None


def curve_of(stretches: Sequence[Stretch], each_s: float, local: str | None) -> list[Means]:
    """Return the means of every stretch that has labels."""
    found = []
    for place, stretch in enumerate(stretches):
        if stretch.labels:
            gain, cost = stretch.gain / stretch.labels, stretch.cost / stretch.labels
            known, count = stretch.local.get(local or "", (0.0, 0))
            alone = known / count if count else None
            found.append(Means((place + 1) * each_s, gain - cost, 1.0 - gain, cost, alone))
    return found


# Traffic and speed


class TrafficWindow:
    """What sites announced in the last seconds, as totals since each of them started."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, Mapping[str, Traffic]]] = deque()

    def add(self, now: float, traffic: Mapping[str, Traffic]) -> None:
        """Take what sites announce now."""
        self._seen.append((now, traffic))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window_s:
            self._seen.popleft()

    @property
    def seconds(self) -> float:
        """How long the observed time is."""
        return self._seen[-1][0] - self._seen[0][0] if self._seen else 0.0

    def flows(self) -> list[Flow]:
        """Return what every site kept and sent within that time."""
        newest = self._seen[-1][1] if self._seen else {}
        return [
            _since(site, now, [traffic[site] for _, traffic in self._seen if site in traffic])
            for site, now in newest.items()
        ]


def _since(site: str, now: Traffic, announced: Sequence[Traffic]) -> Flow:
    """Return what a site did since its first announcement; one that has restarted began with nothing."""
    first = next(each for each in announced if each.since == now.since)
    if first.kept > now.kept or first is now:
        return Flow(site, 0, dict.fromkeys(now.sent, 0))
    sent = {peer: max(0, count - first.sent.get(peer, 0)) for peer, count in now.sent.items()}
    return Flow(site, now.kept - first.kept, sent)


class Speed:
    """How many items arrive per second, over the last few seconds."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._seen: list[tuple[float, int]] = []

    def per_second(self, now: float, count: int) -> float | None:
        """Return the speed by a count that only grows; None before it is known."""
        self._seen = [each for each in self._seen if each[0] >= now - self._window_s and each[1] <= count]
        self._seen.append((now, count))
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last - first >= 1.0 else None
