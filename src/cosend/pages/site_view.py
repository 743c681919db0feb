"""The state of a site at one moment, as plain data for the pages: read once, however many pages are open.

Nothing else here reads a running site.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from cosend.algorithm.readout import look_at
from cosend.algorithm.values import View
from cosend.axes import Feature
from cosend.axis_format import AnyAxis, name_of, ticks_of, value_at
from cosend.engine.encoding import FeatureAxis
from cosend.engine.scoring import right_or_wrong
from cosend.pages.over_time import RANGES, Recent, Series, recent_of, series_of, step_of
from cosend.pages.winning_arms import Square, squares
from cosend.runtime.client_requests import id_text
from cosend.runtime.gossip import Traffic, read, traffic_of
from cosend.runtime.inspection import Facts, Inspection
from cosend.runtime.label_history import Stretch
from cosend.runtime.past_decisions import Past, recall_all
from cosend.runtime.running_site import RunningSite
from cosend.text import short_text

LAST: Final = 5  # decisions that are shown
LOOKED_AT: Final = 15  # newest decisions, for some whose label has arrived
MOST_REASONS: Final = 100  # that are remembered
KINDS: Final = ("labelled", "wrong", "explored", "sent")  # of decisions that a page may show, the first unless chosen
RECENT_LABELS: Final = 1_000
FEWEST_LABELS: Final = 50  # before anything is said about what a model would gain
MOST_VALUES: Final = 2  # of the context, for a decision
LOOKS_AT_A_POINT: Final = 6  # of a chart, while its stretch of time lasts
CHARTS_S: Final = 4.0  # between two drawings of a chart, or longer
YOUNG: Final = 0.05  # of its age a site is given between two drawings of a figure, while it is young
MOST_PAIRED: Final = 6  # axes: the pairs of more would be a long list
WINDOW_S: Final = 60.0  # of the traffic between sites
SHORTEST_S: Final = 5.0  # of that window: until then, all traffic is shown
Choice: TypeAlias = tuple[int, ...]  # one or two axes; empty where there are none yet


Measure: TypeAlias = Literal["error", "score", "gain"]  # how well a site does: by labels, by scores, or by both


class Local(NamedTuple):
    """The reward of always using one local model."""

    name: str
    reward: float


class Flow(NamedTuple):
    """The items that arrived at one site within the window."""

    site: str
    kept: int
    sent: dict[str, int]

    @property
    def items(self) -> int:
        return self.kept + sum(self.sent.values())


class Reason(NamedTuple):
    """Why an arm was chosen, as far as it is known soon after: the values that spoke for it, and by how much it led."""

    values: Sequence[tuple[str, str]] = ()  # of the context, with the names of their axes
    margin: float | None = None  # in reward; below 0 if another was forecast to earn more
    other: str = ""  # the best other arm


class Row(NamedTuple):
    """A decision on the page."""

    number: int
    past: Past
    reason: Reason
    score: float | None = None  # in the units of the site, if there is one


class AxisView(NamedTuple):
    """An axis of the context in its own units."""

    name: str
    ticks: Sequence[tuple[float, str]]  # places in [0, 1]
    values: Sequence[str] | None = None  # of a category: its values, by their codes
    value_at: Callable[[float], str] = "{:.3g}".format
    scale: str = ""  # as it is written after the name

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
    recent: Recent
    local: Local | None
    traffic: Mapping[str, Traffic]  # by site
    flows: Sequence[Flow]
    window_s: float  # how long the time of the flows is; 0: since each site started
    why_not_ready: str = ""
    unreadable: Sequence[str] = ()  # peers whose news cannot be read
    measure: Measure = "error"
    addresses: Mapping[str, str] = field(default_factory=dict)  # of other sites, as far as they are known

    @property
    def site(self) -> str:
        return str(self.facts["site"])

    @property
    def sites(self) -> list[str]:
        """All known sites, in an order that is the same on the pages of all of them."""
        peers = {arm["name"] for arm in self.arms if arm["kind"] == "peer"}
        return sorted({self.site, *peers, *self.traffic})


class SiteView:
    """A running site, as the pages see it."""

    def __init__(self, site: RunningSite, addresses: Mapping[str, str] | None = None) -> None:
        self._site, self._inspection, self._window = site, Inspection(site), TrafficWindow()
        self._addresses = addresses or {}
        self._began_at = time.time() - site.counts.history.up_s
        self._reasons: dict[int, Reason] = {}  # by decision, the newest last
        self._series: dict[str, tuple[float, Any, Series]] = {}  # by range: for how long it holds, what of, points

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
        is_known = self._window.seconds >= SHORTEST_S
        return Snapshot(
            facts=inspection.summary(),
            arms=arms,
            pending=inspection.waiting(),
            recent=recent_of(history),
            local=self._local(arms),
            traffic=traffic,
            flows=self._window.flows()
            if is_known
            else [Flow(site, each.kept, each.sent) for site, each in traffic.items()],
            window_s=self._window.seconds if is_known else 0.0,
            why_not_ready=site.why_not_ready,
            unreadable=unreadable,
            measure=self._measure(),
            addresses=self._addresses,
        )

    def series(self, name: str, local: Local | None) -> Series:
        """Return what charts show of a time range; it changes a few times while a point is made."""
        history = self._site.counts.history
        until_s, before, found = self._series.get(name, (0.0, None, None))
        best, range_s = None if local is None else local.name, RANGES[name]
        state = best, [*history.marks][-1:], [*history.fits][-1:]
        if found is None or history.up_s >= until_s or state != before:
            found = series_of(history, range_s, best)
            longest_s = max(CHARTS_S, step_of(history, range_s) / LOOKS_AT_A_POINT)
            self._series[name] = history.up_s + rest_s(history.up_s, longest_s), state, found
        return found

    def moment(self, at_s: float) -> float:
        """Return a time since the process started as one since 1970."""
        return self._began_at + at_s

    def rows(self, kind: str) -> list[Row]:
        """Return the newest decisions of a kind."""
        notable = self._site.counts.notable
        numbers = {"wrong": notable.wrong, "explored": notable.explored, "sent": notable.sent}.get(kind)
        if numbers is None:
            found = self._labelled() or self._inspection.last_decisions(LAST)
        else:
            newest = sorted({*numbers}, reverse=True)[: 2 * LAST]  # some may have been withdrawn
            site = self._site
            known = recall_all(site.store.index, newest, site.setup.most_flights)
            found = sorted(known.items(), reverse=True)[:LAST]
        return [
            Row(number, past, self._reason(number, past), self._inspection.as_score(past.score))
            for number, past in found
        ]

    def _labelled(self) -> list[tuple[int, Past]]:
        """Return the newest decisions whose label has arrived."""
        site = self._site
        newest = None if site.counts.scored_by_hand else site.state.encoder.newest_id  # scores do not move it
        return [each for each in self._inspection.last_decisions(LOOKED_AT, newest) if each[1].is_known][:LAST]

    def _reason(self, number: int, past: Past) -> Reason:
        """Return why an arm was chosen; it is looked up once, as what is known changes."""
        if number not in self._reasons:
            self._reasons[number] = self._reason_now(past)
            while len(self._reasons) > MOST_REASONS:
                del self._reasons[next(iter(self._reasons))]
        return self._reasons[number]

    def _reason_now(self, past: Past) -> Reason:
        state, axes = self._site.state, self.axes()
        arms = state.learner.arms
        costs = {**arms.own, **arms.peers}
        if past.arm not in costs:
            return Reason()
        values = [(name_of(axis), value_at(axis, place)) for axis, place in zip(axes, past.context, strict=False)]
        if not state.learner.policy.mixes:
            cell = look_at(state.learner.ledger, costs, past.cell)
            known = {} if cell is None else cell.estimates
            worth = {arm: each.mean_reward for arm, each in known.items() if each.reward_count}
            return Reason(values[:MOST_VALUES], *_lead(worth, past.arm))
        parts = state.learner.explain(state.point(past.context))
        worth = {arm: sum(e.view.share * e.forecasts[arm] for e in parts) - cost for arm, cost in costs.items()}
        margin, other = _lead(worth, past.arm)
        return Reason([values[n] for n in _heaviest(parts) if n < len(values)], margin, other)

    def _measure(self) -> Measure:
        """Return what the gains are: right or wrong, scores, or anything."""
        counts, engine = self._site.counts, self._site.engine
        if counts.only_scores:
            return "score"
        return "gain" if counts.scored_by_hand or engine.reward is not right_or_wrong else "error"

    def _local(self, arms: Sequence[Facts]) -> Local | None:
        """Return what always using the best local model would have earned recently; None if labels do not tell.

        They do not where they score only the arm that was used: its items are those that it was expected to be best on.
        """
        given = {arm["name"] for arm in arms if arm["kind"] == "local" and not arm["learnt"]}
        return best_model(self._site.counts.history.stretches, given)

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
        scale = " (log)" if isinstance(axis, Feature) and axis.scale == "log" else ""
        ticks = ticks_of(axis, lambda: list(recent))
        return AxisView(name_of(axis), ticks, value_at=partial(value_at, axis), scale=scale)

    def squares(self, choice: Choice, arms: Sequence[Facts]) -> list[Square] | None:
        """Return what is known along the chosen axes; None if an arm has joined or left since."""
        learner = self._site.state.learner
        if [arm["name"] for arm in arms] != list(learner.arms.names):
            return None
        return squares(learner.ledger, choice, len(arms))


def rest_s(up_s: float, longest_s: float) -> float:
    """Return how long a figure is shown before it is drawn again: as a site has just started, much changes."""
    return min(longest_s, YOUNG * up_s)


# Results of labels


def _lead(worth: Mapping[str, float], arm: str) -> tuple[float | None, str]:
    """Return by how much an arm leads the best other one, and which that is."""
    others = {other: value for other, value in worth.items() if other != arm}
    if arm not in worth or not others:
        return None, ""
    other = max(others, key=others.__getitem__)
    return worth[arm] - others[other], other


def _heaviest(parts: Sequence[tuple[View, dict[str, float]]]) -> Sequence[int]:
    """Return the axes of the part of the context that tells the arms apart most, by its weight in the decision.

    A view that adds up others has the weight of these.
    """
    summed = sum(view.share for view, _ in parts if view.is_sum)
    weights: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for view, forecasts in parts:
        if view.axes and not view.is_sum and not view.is_pattern:
            apart = max(forecasts.values()) - min(forecasts.values())
            weights[view.axes[:MOST_VALUES]] += (view.share + summed * view.added) * apart
    return max(weights, key=weights.__getitem__, default=())


def best_model(stretches: Sequence[Stretch], given: Collection[str] = ()) -> Local | None:
    """Return the model that gained most by labels that score all models, and what it gained on the last thousand.

    given  the models that the site did not learn itself: one of these, if there are labels for any
    """
    total = Stretch()
    for stretch in stretches:
        total.add(0, 0.0, 0.0, stretch.local)
    means = {name: gain / count for name, (gain, count) in total.local.items() if count >= FEWEST_LABELS}
    means = {name: mean for name, mean in means.items() if name in given} or means
    if not means:
        return None
    name, gain, count = max(means, key=means.__getitem__), 0.0, 0
    for stretch in reversed(stretches):
        more, number = stretch.local.get(name, (0.0, 0))
        gain, count = gain + more, count + number
        if count >= RECENT_LABELS:
            break
    return Local(name, gain / count)


# Traffic


class TrafficWindow:
    """The announcements of sites in the last seconds, as totals since each of them started."""

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
