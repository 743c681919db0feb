"""What a network file says of its stream that is not so, and what is known of the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cosend.config.scenario import Scenario
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.errors import listed, shown
from cosend.streams.table import Table


def labels_of(scenario: Scenario, table: Table | None) -> list[Any]:
    """Return the labels there are: those that the file names, or else those of the stream, sorted."""
    if scenario.labels is not None:
        return scenario.labels
    return [] if table is None else np.unique(table.labels).tolist()


def busiest(scenario: Scenario, table: Table | None) -> int | None:
    """Return how many items arrive at the busiest site, or None if that is not known."""
    if table is None or scenario.stream is None:
        return None
    items = len(table) - scenario.stream.training
    if table.sites is not None:
        arriving = table.sites[scenario.stream.training :]
        return max(1, *(int((arriving == site.name).sum()) for site in scenario.sites))
    return -(-items // len(scenario.sites)) if scenario.stream.arrivals == "deal" else items


def mistakes_about(scenario: Scenario, table: Table) -> Iterator[str]:
    """Yield what the file says of the stream that is not so, each with its key."""
    labels, columns = labels_of(scenario, table), [*table.features, *table.contexts]
    strange = sorted(set(table.labels.tolist()).difference(labels), key=str)
    if strange:
        yield f"labels: the stream has {listed(strange)} too; the file names {listed(labels)}"
    for n, axis in enumerate(scenario.context, start=1):
        if axis.feature is not None and axis.feature not in columns:
            there = f"it has {listed(sorted(columns))}"
            yield f"context.{n}.feature: the stream has no column {shown(axis.feature)}; {there}"
        if axis.kind == "previous_label" and len(labels) < 2:
            yield f"context.{n}.kind: the previous label tells nothing, all are {shown(labels[0])}"
    names = [site.name for site in scenario.sites]
    training = 0 if scenario.stream is None else scenario.stream.training
    arriving_at = [] if table.sites is None else table.sites[training:].tolist()
    for stranger in sorted(set(arriving_at).difference(names)):
        yield f"stream.site: the stream has rows for site {shown(stranger)}; the sites are {listed(names)}"
    for key, site, classifier in scenario.classifiers():
        for wrong in _mistakes_about_one(classifier, site, table, labels, training):
            yield f"{key}.{wrong}"


def _mistakes_about_one(
    classifier: ClassifierSetting, site: SiteSetting, table: Table, labels: Sequence[Any], training: int
) -> Iterator[str]:
    for name in classifier.features or []:
        if name not in table.features:
            there = f"it has {listed(sorted(table.features))}"
            yield f"features: the stream has no feature {shown(name)}; {there}"
    if classifier.model == "always" and classifier.label not in labels:
        yield f"label: no label of the stream is {shown(classifier.label)}; they are {listed(labels)}"
    column = classifier.column
    if column is not None and column not in table.features and column not in table.contexts:
        there = listed(sorted([*table.features, *table.contexts]))
        yield f"model: the stream has no column {shown(column)}; it has {there}"
    first, last = classifier.train or (0, training)
    if classifier.train_on == "own" and table.sites is None:
        yield "train_on: 'own' needs a column of the stream that says where a row arrives: stream.site"
    elif classifier.is_trained and last > first and not table.known[first:last].any():
        yield f"train: none of the rows {first:,} to {last:,} for training has a label"
    elif classifier.train_on == "own" and not len(training_rows(classifier, site, table, training)):
        labelled = " and has a label" if table.unlabelled else ""
        yield f"train_on: none of the rows {first:,} to {last:,} for training is of site {site.name!r}{labelled}"


def training_rows(classifier: ClassifierSetting, site: SiteSetting, table: Table, training: int) -> Any:
    """Return the numbers of the rows that a classifier is trained on, which all have a label."""
    rows = np.arange(*(classifier.train or (0, training)))
    rows = rows[table.known[rows]]
    if classifier.train_on == "stream" or table.sites is None:
        return rows
    return rows[table.sites[rows] == site.name]
