"""Metrics for Prometheus. The site counts; its counts are read when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from cosend.engine.counts import Counts
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
        counts = self._site.counts
        decisions = CounterMetricFamily("cosend_decisions", "decisions that were answered", labels=["arm", "phase"])
        for (arm, phase), count in counts.decisions.items():
            decisions.add_metric([arm, phase], count)
        labels = CounterMetricFamily("cosend_labels", "true labels, by outcome", labels=["result"])
        for result in ("learnt", "duplicate", "unknown", "expired", "missing"):
            labels.add_metric([result], counts.labels[result])
        failures = CounterMetricFamily("cosend_failures", "items that an arm failed to label", labels=["arm", "kind"])
        for (arm, kind), count in counts.failures.items():
            failures.add_metric([arm, kind], count)
        yield from (decisions, labels, failures, *_by_arm(counts), *_by_peer(counts))
        yield CounterMetricFamily("cosend_unanswered", "items that no arm could label", counts.unanswered)
        yield CounterMetricFamily("cosend_rebuilds", "times the site was rebuilt from its log", counts.rebuilt)
        yield self._stalls()
        if self._site.is_ready:
            yield from self._gauges()

    def _stalls(self) -> Metric:
        pulse, limits = self._site.pulse, [*map(str, LIMITS_S), "+Inf"]
        buckets = [*zip(limits, accumulate(pulse.counts), strict=True)]
        about = "how long the event loop was blocked, sampled a hundred times a second"
        return HistogramMetricFamily("cosend_loop_stall_seconds", about, buckets, pulse.sum_s)

    def _gauges(self) -> Iterator[Metric]:
        site = self._site
        breakers = GaugeMetricFamily("cosend_breaker", "0 closed, 1 half open, 2 open", labels=["arm"])
        for arm in site.state.learner.arms.names:
            breakers.add_metric([arm], POSITIONS[site.breakers.position(arm, site.engine.now)])
        yield breakers
        waiting = site.state.learner.waiting_count
        yield GaugeMetricFamily("cosend_waiting", "decisions that wait for their true label", waiting)
        yield GaugeMetricFamily("cosend_in_flight", "items that wait for a model or a peer", site.running.in_flight)
        yield GaugeMetricFamily("cosend_events", "the position of the log", site.commits.position)
        for name, value in (("error", site.counts.error), ("reward", site.counts.reward)):
            if value is not None:
                yield GaugeMetricFamily(f"cosend_recent_{name}", f"{name} of about the last thousand labels", value)


def _by_arm(counts: Counts) -> Iterator[Metric]:
    accuracy = SummaryMetricFamily(
        "cosend_arm_accuracy", "labelled decisions of an arm that were right", labels=["arm"]
    )
    gain = SummaryMetricFamily("cosend_arm_gain", "gain of labelled decisions, before costs", labels=["arm"])
    cost = SummaryMetricFamily("cosend_arm_cost", "cost of labelled decisions", labels=["arm"])
    reward = GaugeMetricFamily("cosend_arm_reward", "mean reward (gain - cost) of labelled decisions", labels=["arm"])
    for arm, scores in counts.scores.items():
        for family, total in ((accuracy, scores.right), (gain, scores.gain), (cost, scores.cost)):
            family.add_metric([arm], scores.labels, total)
        reward.add_metric([arm], (scores.gain - scores.cost) / scores.labels)
    yield from (accuracy, gain, cost, reward)


def _by_peer(counts: Counts) -> Iterator[Metric]:
    answers = CounterMetricFamily("cosend_answers_for_peers", "items of peers that were answered", labels=["peer"])
    labels = CounterMetricFamily("cosend_labels_from_peers", "true labels that peers sent for these", labels=["peer"])
    for family, by_peer in ((answers, counts.served), (labels, counts.taught)):
        for peer, count in by_peer.items():
            family.add_metric([peer], count)
    yield from (answers, labels)
