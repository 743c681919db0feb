"""Metrics for Prometheus. The site counts; its counts are read on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from cosend.engine.money import amount
from cosend.engine.scoring import as_score
from cosend.runtime.running_site import RunningSite

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
POSITIONS: Final = {"closed": 0, "half open": 1, "open": 2}


class Metrics:
    """The metrics of one site."""

    def __init__(self, site: RunningSite) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Counts(site))
        latency = Histogram(
            "cosend_request_seconds", "Time to answer a request.", ["route"], buckets=SECONDS, registry=self._registry
        )
        self.classify, self.labels = latency.labels("classify"), latency.labels("labels")

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Counts(Collector):
    def __init__(self, site: RunningSite) -> None:
        self._site = site

    def collect(self) -> Iterator[Metric]:
        counts, arms = self._site.counts, self._site.counts.scores.items()
        outcomes = {kind: counts.labels[kind] for kind in ("learnt", "duplicate", "unknown", "expired", "missing")}
        for name, about, labels, values in (
            ("decisions", "Decisions that were answered.", ["arm", "phase"], counts.decisions),
            ("labels", "Labels and scores that arrived, by outcome.", ["result"], outcomes),
            ("failures", "Items on which an arm failed.", ["arm", "kind"], counts.failures),
            ("answers_for_peers", "Items answered for a peer.", ["peer"], counts.served),
            (
                "labels_from_peers",
                "Labels and scores that a peer forwarded for these.",
                ["peer"],
                counts.taught,
            ),
        ):
            yield _family(CounterMetricFamily, name, about, labels, values)
        right = {arm: (each.labels - each.scores, each.right) for arm, each in arms if each.labels > each.scores}
        about = "Correct predictions (_sum) of the labelled decisions of an arm (_count)."
        if not counts.only_scores:
            yield _family(SummaryMetricFamily, "arm_accuracy", about, ["arm"], right)
        for name, about, totals in (
            (
                "arm_gain",
                "Total gain (_sum) of the labelled or scored decisions of an arm (_count).",
                {arm: each.gain for arm, each in arms},
            ),
            ("arm_cost", "Total cost (_sum) of the same decisions (_count).", {arm: each.cost for arm, each in arms}),
        ):
            summed = {arm: (counts.scores[arm].labels, total) for arm, total in totals.items()}
            yield _family(SummaryMetricFamily, name, about, ["arm"], summed)
        money = self._site.setup.money
        if money is not None:
            spent = {(arm, money.currency): (each.labels, money.price(each.cost)) for arm, each in arms}
            about = "Total cost in money (_sum) of the same decisions (_count)."
            yield _family(SummaryMetricFamily, "arm_price", about, ["arm", "currency"], spent)
        rewards = {arm: (each.gain - each.cost) / each.labels for arm, each in arms}
        about = "Mean reward, gain minus cost, of the same decisions."
        yield _family(GaugeMetricFamily, "arm_reward", about, ["arm"], rewards)
        about = "Scores that were learnt; cosend_labels_total counts them too."
        yield CounterMetricFamily("cosend_scores", about, counts.scored_by_hand)
        yield CounterMetricFamily("cosend_unanswered", "Items that no arm could answer.", counts.unanswered)
        yield CounterMetricFamily("cosend_rebuilds", "Rebuilds from the event log.", counts.rebuilt)
        late = self._site.pulse.late
        about = "How long the event loop was blocked, sampled 100 times a second."
        yield HistogramMetricFamily("cosend_loop_stall_seconds", about, late.buckets(), late.sum_s)
        if self._site.is_ready:
            yield from self._gauges()

    def _gauges(self) -> Iterator[Metric]:
        site, learner = self._site, self._site.state.learner
        score = None if site.counts.score is None else as_score(site.counts.score, site.engine.units)
        positions = {arm: POSITIONS[site.breakers.position(arm, site.engine.now)] for arm in learner.arms.names}
        yield _family(
            GaugeMetricFamily,
            "breaker",
            "Circuit breaker of an arm: 0 closed, 1 half open, 2 open (backing off).",
            ["arm"],
            positions,
        )
        yield from self._calls_and_peers()
        yield from self._spending()
        for name, about, value in (
            ("pending", "Decisions whose true label has not arrived.", learner.pending_count),
            ("in_flight", "Items that wait for a model or a peer.", site.running.in_flight),
            ("events", "Events logged so far.", site.commits.position),
            ("recent_error", "Error rate over about the last thousand labels.", site.counts.error),
            ("recent_score", "Mean of about the last thousand scores, in their units.", score),
            ("recent_reward", "Mean reward over about the last thousand labels and scores.", site.counts.reward),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"cosend_{name}", about, value)

    def _calls_and_peers(self) -> Iterator[Metric]:
        """Yield how long arms take, which peers can be asked, and the labels that wait for them."""
        site, peers = self._site, self._site.state.learner.arms.peers
        took = {arm: worker.took for arm, worker in site.workers.items()} | site.running.calls.took()
        values = {arm: (each.buckets(), each.sum_s) for arm, each in took.items()}
        about = "Time of a call to a model or peer."
        yield _family(HistogramMetricFamily, "call_seconds", about, ["arm"], values)
        about = "Whether a peer can be asked: 1, or 0."
        present = {peer: int(peer not in site.peers.offline) for peer in peers}
        yield _family(GaugeMetricFamily, "peer_present", about, ["peer"], present)
        about = "Labels and scores that wait for a peer."
        waiting = {peer: len(site.state.outbox.get(peer, ())) for peer in peers}
        yield _family(GaugeMetricFamily, "outbox", about, ["peer"], waiting)

    def _spending(self) -> Iterator[Metric]:
        """Yield what arms have spent, and how the limits of the budget stand, if there is one."""
        money = self._site.setup.money
        unit = "costs" if money is None else money.currency
        spent = {(arm, unit): amount(money, cost) for arm, cost in self._site.state.spent.by_arm().items()}
        about = "Total cost of all decisions of an arm."
        yield _family(GaugeMetricFamily, "arm_spent", about, ["arm", "unit"], spent)
        accounts = self._site.state.accounts
        limits = [] if accounts is None else accounts.spending(self._site.setup.money)
        for name, about in (
            ("amount", "Allowance of a limit: each item, hour or day, or in total."),
            ("allowed", "Total allowance of the limit so far."),
            ("spent", "Total spending so far; unknown costs are estimated."),
            ("factor", "Factor on costs that keeps the limit; of calls: the cost added to one."),
        ):
            values = {(each.limit, each.arm, each.unit): getattr(each, name) for each in limits}
            if values:
                yield _family(GaugeMetricFamily, f"budget_{name}", about, ["limit", "arm", "unit"], values)


def _family(kind: Any, name: str, about: str, labels: list[str], values: Mapping[Any, Any]) -> Metric:
    family = kind(f"cosend_{name}", about, labels=labels)
    for key, value in values.items():
        family.add_metric(key if isinstance(key, tuple) else [key], *(value if isinstance(value, tuple) else [value]))
    found: Metric = family
    return found
