"""Metrics for Prometheus. The site counts; its counts are read when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
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

from cosend.runtime.running_site import RunningSite
from cosend.runtime.watchdog import LIMITS_S

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
POSITIONS: Final = {"closed": 0, "half open": 1, "open": 2}


class Metrics:
    """The metrics of one site."""

    def __init__(self, site: RunningSite) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Counts(site))
        latency = Histogram(
            "cosend_request_seconds", "time to answer a request", ["route"], buckets=SECONDS, registry=self._registry
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
            ("decisions", "decisions that were answered", ["arm", "phase"], counts.decisions),
            ("labels", "true labels and scores, by outcome", ["result"], outcomes),
            ("failures", "items that an arm failed to label", ["arm", "kind"], counts.failures),
            ("answers_for_peers", "items of peers that were answered", ["peer"], counts.served),
            ("labels_from_peers", "true labels that peers sent for these", ["peer"], counts.taught),
        ):
            yield _family(CounterMetricFamily, name, about, labels, values)
        right = {arm: (each.labels - each.scores, each.right) for arm, each in arms if each.labels > each.scores}
        about = "labelled decisions of an arm that were right"
        if not counts.only_scores:
            yield _family(SummaryMetricFamily, "arm_accuracy", about, ["arm"], right)
        for name, about, totals in (
            ("arm_gain", "gain of labelled or scored decisions, before costs", {arm: each.gain for arm, each in arms}),
            ("arm_cost", "cost of the same decisions", {arm: each.cost for arm, each in arms}),
        ):
            summed = {arm: (counts.scores[arm].labels, total) for arm, total in totals.items()}
            yield _family(SummaryMetricFamily, name, about, ["arm"], summed)
        money = self._site.setup.money
        if money is not None:
            spent = {(arm, money.currency): (each.labels, money.price(each.cost)) for arm, each in arms}
            about = "what the same decisions cost in money"
            yield _family(SummaryMetricFamily, "arm_price", about, ["arm", "currency"], spent)
        rewards = {arm: (each.gain - each.cost) / each.labels for arm, each in arms}
        about = "mean reward (gain - cost) of the same decisions"
        yield _family(GaugeMetricFamily, "arm_reward", about, ["arm"], rewards)
        about = "labels that were learnt and are scores"
        yield CounterMetricFamily("cosend_scores", about, counts.scored_by_hand)
        yield CounterMetricFamily("cosend_unanswered", "items that no arm could label", counts.unanswered)
        yield CounterMetricFamily("cosend_rebuilds", "times the site was rebuilt from its log", counts.rebuilt)
        pulse, limits = self._site.pulse, [*map(str, LIMITS_S), "+Inf"]
        buckets = [*zip(limits, accumulate(pulse.counts), strict=True)]
        about = "how long the event loop was blocked, sampled a hundred times a second"
        yield HistogramMetricFamily("cosend_loop_stall_seconds", about, buckets, pulse.sum_s)
        if self._site.is_ready:
            yield from self._gauges()

    def _gauges(self) -> Iterator[Metric]:
        site, learner = self._site, self._site.state.learner
        positions = {arm: POSITIONS[site.breakers.position(arm, site.engine.now)] for arm in learner.arms.names}
        yield _family(GaugeMetricFamily, "breaker", "0 closed, 1 half open, 2 open", ["arm"], positions)
        yield from self._spending()
        for name, about, value in (
            ("pending", "decisions that wait for their true label", learner.pending_count),
            ("in_flight", "items that wait for a model or a peer", site.running.in_flight),
            ("events", "the position of the log", site.commits.position),
            ("recent_error", "error of about the last thousand labels", site.counts.error),
            ("recent_score", "mean of about the last thousand scores", site.counts.score),
            ("recent_reward", "reward of about the last thousand labels and scores", site.counts.reward),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"cosend_{name}", about, value)

    def _spending(self) -> Iterator[Metric]:
        """Yield how the limits of the budget stand, if there is one."""
        accounts = self._site.state.accounts
        limits = [] if accounts is None else accounts.spending(self._site.setup.money)
        for name, about in (
            ("amount", "what a limit of the budget allows for an item, an hour or a day"),
            ("allowed", "what it has allowed so far"),
            ("spent", "what was spent of that; expected, where an answer did not say it yet"),
            ("factor", "by what costs count now because of it; for calls, the cost of a call on top"),
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
