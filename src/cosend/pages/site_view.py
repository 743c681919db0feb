"""What the pages show about a site at one moment, as plain data: read once, however many pages are open.

Nothing else here reads a running site.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Final, Literal, NamedTuple, TypeAlias

from cosend.axis_format import AnyAxis, name_of, ticks_of, value_at
from cosend.engine.encoding import FeatureAxis
from cosend.engine.scoring import right_or_wrong
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
MOST_POINTS: Final = 48  # of a curve
MOST_PAIRED: Final = 6  # axes: the pairs of more would be a long list
WINDOW_S: Final = 20.0  # of the traffic between sites
Choice: TypeAlias = tuple[int, ...]  # one or two axes; empty where there are none yet


class Means(NamedTuple):
    """What labels and scores said in a stretch of time; `local` is the reward of always using the best local model.

    The error is what the mean gain lacks of 1; where not every gain is right or wrong, the gain itself is shown.
    """

    at_s: float  # the end of the stretch, since the process started
    reward: float
    error: float
    local: float | None


Measure: TypeAlias = Literal["error", "score", "gain"]  # how well a site does: by labels, by scores, or by both


class Local(NamedTuple):
    """What always using one local model earns."""

    name: str
    reward: float
    is_exact: bool  # every label scores it; otherwise it is estimated from the cells


class Flow(NamedTuple):
    """The items that arrived at one site within the window."""

    site: str
    kept: int
    sent: dict[str, int]

    @property
    def items(self) -> int:
        return self.kept + sum(self.sent.values())


class AxisView(NamedTuple):
    """An axis of the context in its own units."""

    name: str
    ticks: Sequence[tuple[float, str]]  # places in [0, 1]
    values: Sequence[str] | None = None  # of a category: its values, by their codes
    value_at: Callable[[float], str] = "{:.3g}".format

    def words(self, low: float, high: float) -> str:
        """Return a span of values in words."""
        if self.values is not None:
            return f"{self.name} {self.values[int(low)]}"
        return f"{self.name} from {self.value_at(low)} to {self.value_at(high)}"


@dataclass(frozen=True)
class Snapshot:
    """One moment."""

    facts: Facts
    arms: Sequence[Facts]
    pending: Facts
    decisions: Sequence[tuple[int, Past]]  # the newest first, with their numbers
    labelled: Sequence[tuple[int, Past]]  # the newest whose label has arrived
    curve: Sequence[Means]
    local: Local | None
    traffic: Mapping[str, Traffic]  # by site
    flows: Sequence[Flow]
    window_s: float  # how long the time of the flows is
    why_not_ready: str = ""
    unreadable: Sequence[str] = ()  # peers whose news cannot be read
    measure: Measure = "error"

    @property
    def site(self) -> str:
        return str(self.facts["site"])

    @property
    def sites(self) -> list[str]:
        """All known sites, in an order that is the same on the pages of all of them."""
        peers = {arm["name"] for arm in self.arms if arm["kind"] == "peer"}
        return sorted({self.site, *peers, *self.traffic})

    @property
    def per_second(self) -> float | None:
        """The items that arrive here per second; None before it is known."""
        here = next((flow.items for flow in self.flows if flow.site == self.site), 0)
        return here / self.window_s if self.window_s >= 1.0 else None


class SiteView:
    """A running site, as the pages see it."""

    def __init__(self, site: RunningSite) -> None:
        self._site, self._inspection, self._window = site, Inspection(site), TrafficWindow()

    @property
    def name(self) -> str:
        return self._site.setup.name

    @property
    def currency(self) -> str:
        money = self._site.setup.money
        return "" if money is None else money.currency

    @property
    def is_started(self) -> bool:
        return self._site.driver is not None

    def snapshot(self, now: float) -> Snapshot:
        """Return everything that pages show; `now` is a time in seconds that only grows."""
        site, inspection = self._site, self._inspection
        history, arms, (traffic, unreadable) = site.counts.history, inspection.arms(), self._traffic()
        self._window.add(now, traffic)
        local = self._local(arms)
        newest = None if site.counts.scored_by_hand else site.state.encoder.newest_id  # scores do not move it
        return Snapshot(
            facts=inspection.summary(),
            arms=arms,
            pending=inspection.waiting(),
            decisions=inspection.last_decisions(LAST),
            labelled=[each for each in inspection.last_decisions(3 * LAST, newest) if each[1].is_known][:LAST],
            curve=curve_of(history.stretches, history.each_s, local.name if local and local.is_exact else None),
            local=local,
            traffic=traffic,
            flows=self._window.flows(),
            window_s=self._window.seconds,
            why_not_ready=site.why_not_ready,
            unreadable=unreadable,
            measure=self._measure(),
        )

    def _measure(self) -> Measure:
        """Return what the gains are: right or wrong, scores, or anything."""
        counts, engine = self._site.counts, self._site.engine
        if counts.only_scores:
            return "score"
        return "gain" if counts.scored_by_hand or engine.reward is not right_or_wrong else "error"

    def _local(self, arms: Sequence[Facts]) -> Local | None:
        """Return what always using the best local model would have earned recently, as far as labels tell."""
        found = best_model(self._site.counts.history.stretches)
        if found is not None:
            return found
        learner = self._site.state.learner
        return estimated_local(local_means(learner.ledger, len(learner.arms.own)), arms)

    def _traffic(self) -> tuple[dict[str, Traffic], list[str]]:
        """Return the traffic that every site announces, this one included, and the peers whose news are unreadable."""
        news = {} if self._site.link is None else self._site.link.news()
        found = {site: read(text) for site, text in news.items()}
        readable = {site: traffic for site, traffic in found.items() if traffic is not None}
        return {**readable, self.name: traffic_of(self._site)}, [site for site in found if site not in readable]

    async def decision(self, id: str) -> tuple[Facts, list[Facts], list[tuple[str, str]], Mapping[str, float] | None]:
        """Return a decision, the arms, its context in words, and the forecasts if the policy mixes views."""
        self._site.check_started()
        if id.isdecimal() and len(id) < 19:  # a row of the page: its client may know it by another id
            number = int(id)
            id = self._site.store.index.names_of([number]).get(number, id_text(number))
        facts = await self._inspection.decision(id)
        places = zip(self.axes(), facts["context"], strict=False)
        context = [(name_of(axis), value_at(axis, place)) for axis, place in places]
        return facts, self._inspection.arms(), context, self._inspection.forecasts(facts["context"])

    # The context

    def axes(self) -> list[AnyAxis]:
        """Return the axes that items have now: those that were given, and features that have become one."""
        if not self.is_started:
            return []
        features = self._site.state.encoder.features
        return [*self._site.state.encoder.given, *(features.axes if features is not None else ())]

    def choices(self) -> dict[Choice, str]:
        """Return the axes that can be looked at, in words, and before them the pairs of axes if these are few."""
        names = [name_of(axis) for axis in self.axes()]
        pairs = combinations(range(len(names)), 2) if len(names) <= MOST_PAIRED else ()
        return {choice: " and ".join(names[axis] for axis in choice) for choice in (*pairs, *zip(range(len(names))))}

    def axis(self, number: int) -> AxisView:
        axis, past = self.axes()[number], self._site.state.encoder
        if not isinstance(axis, FeatureAxis) and axis.is_category:
            known = past.codes[number].values if number in past.codes else []
            return AxisView(name_of(axis), [], [short_text(value) for value in known])
        recent = past.recent[number].values if number in past.recent else [0.0]
        return AxisView(name_of(axis), ticks_of(axis, lambda: list(recent)), value_at=partial(value_at, axis))

    def squares(self, choice: Choice, arms: Sequence[Facts]) -> list[Square] | None:
        """Return what is known along the chosen axes; None if an arm has joined or left since."""
        learner = self._site.state.learner
        if [arm["name"] for arm in arms] != list(learner.arms.names):
            return None
        return squares(learner.ledger, choice, len(arms))


# What labels have said


def best_model(stretches: Sequence[Stretch]) -> Local | None:
    """Return the model that gained most by labels that score all models, and what it gained on the last thousand."""
    total = Stretch()
    for stretch in stretches:
        total.add(0, 0.0, 0.0, stretch.local)
    means = {name: gain / count for name, (gain, count) in total.local.items() if count >= FEWEST_LABELS}
    if not means:
        return None
    name, gain, count = max(means, key=means.__getitem__), 0.0, 0
    for stretch in reversed(stretches):
        more, number = stretch.local.get(name, (0.0, 0))
        gain, count = gain + more, count + number
        if count >= RECENT_LABELS:
            break
    return Local(name, gain / count, True)


def estimated_local(means: Sequence[tuple[float, float]], arms: Sequence[Facts]) -> Local | None:
    """Return the best local model by what its labels say about the cells, if they say enough."""
    found = [
        Local(arm["name"], mean - arm["cost"], False)
        for (mean, covered), arm in zip(means, arms, strict=False)
        if covered >= COVERED and arm["labels"] >= FEWEST_LABELS
    ]
    return max(found, key=lambda each: each.reward, default=None)


def curve_of(stretches: Sequence[Stretch], each_s: float, local: str | None) -> list[Means]:
    """Return what labels said in few stretches of time, each of three or more of these; without labels, nothing."""
    found, step = [], max(3, -(-len(stretches) // MOST_POINTS))
    for start in range(0, len(stretches), step):
        some, total = stretches[start : start + step], Stretch()
        for each in some:
            total.add(each.labels, each.gain, each.cost, each.local)
        if total.labels:
            gain, cost = total.gain / total.labels, total.cost / total.labels
            known, count = total.local.get(local or "", (0.0, 0))
            end_s = (start + len(some)) * each_s
            found.append(Means(end_s, gain - cost, 1.0 - gain, known / count if count else None))
    return found


# Traffic


class TrafficWindow:
    """What sites announced in the last seconds, as totals since each of them started."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, Mapping[str, Traffic]]] = deque()

    def add(self, now: float, traffic: Mapping[str, Traffic]) -> None:
        self._seen.append((now, traffic))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window_s:
            self._seen.popleft()

    @property
    def seconds(self) -> float:
        return self._seen[-1][0] - self._seen[0][0]

    def flows(self) -> list[Flow]:
        """Return what every site kept and sent within that time."""
        return [
            _since(site, now, [traffic[site] for _, traffic in self._seen if site in traffic])
            for site, now in self._seen[-1][1].items()
        ]


def _since(site: str, now: Traffic, announced: Sequence[Traffic]) -> Flow:
    """Return what a site did since its first announcement; one that has restarted began with nothing."""
    first = next(each for each in announced if each.since == now.since)
    if first.kept > now.kept or first is now:
        return Flow(site, 0, dict.fromkeys(now.sent, 0))
    sent = {peer: max(0, count - first.sent.get(peer, 0)) for peer, count in now.sent.items()}
    return Flow(site, now.kept - first.kept, sent)
