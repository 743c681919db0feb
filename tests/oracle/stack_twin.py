"""The slow twin of the stack in `algorithm/stack.py` and `engine/learnt_arms.py`, written from exactness: Learnt arms.

One label at a time, weights in dictionaries, no arrays.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Input = tuple[Any, ...]


class Item(NamedTuple):
    """What is known of an item before it is decided."""

    newest: Any  # the newest true label
    slices: Sequence[int | None]  # by axis: which of 16
    said: Mapping[str, Any]  # by model: its label, None for nothing
    sure: Mapping[str, float]  # by model: how sure it is of that, where it says so


class StackTwin:
    """Learns one label at a time; `grown` are the models that the site has fitted itself, `stacks` others like this."""

    def __init__(self, grown: Sequence[str], stacks: Sequence[str], *, most_labels: int) -> None:
        """Begin with nothing learnt."""
        self.grown, self.stacks, self.most_labels = grown, stacks, most_labels
        self.labels: list[Any] = []
        self.models: list[str] = []  # in the order in which they were first heard
        self.weights: dict[tuple[Input, Any], float] = {}
        self.squares: dict[tuple[Input, Any], float] = {}

    def weight(self, given: Input, label: Any) -> float:
        speaks = given[0] in ("answer", "odds") and given[2] == label
        return self.weights.get((given, label), 0.5 if speaks else 0.0)

    def square(self, given: Input, label: Any) -> float:
        return self.squares.get((given, label), 0.01)

    def inputs(self, item: Item) -> Iterator[tuple[Input, float]]:
        yield ("always",), 1.0
        if item.newest in self.labels:
            yield ("newest", item.newest), 1.0
        for axis, place in enumerate(item.slices):
            if place is not None:
                yield ("quarter", axis, place // 4), 1.0
                yield ("slice", axis, place), 1.0
        for model in self.models:
            answer = item.said.get(model)
            if answer not in self.labels:
                continue
            yield ("answer", model, answer), 1.0
            sure = item.sure.get(model, math.nan)
            if not math.isnan(sure):
                yield ("odds", model, answer), self.log_odds(model, sure)

    def log_odds(self, model: str, sure: float) -> float:
        floor = 0.001 if model in self.grown else 0.01
        sure = min(max(sure, floor), 1.0 - floor)
        others = max(1, len(self.labels) - 1)
        return math.log(sure / max((1.0 - sure) / others, floor)) / 3.0

    def chances(self, item: Item) -> dict[Any, float]:
        scores = dict.fromkeys(self.labels, 0.0)
        for given, value in self.inputs(item):
            for label in self.labels:
                scores[label] += value * self.weight(given, label)
        highest = max(scores.values())
        powers = {label: math.exp(score - highest) for label, score in scores.items()}
        total = 0.0
        for power in powers.values():
            total += power
        return {label: power / total for label, power in powers.items()}

    def says(self, item: Item) -> tuple[Any, float]:
        """Return the most probable label, the first of equals, and its probability."""
        chances = self.chances(item)
        best = max(self.labels, key=lambda label: chances[label])
        return best, chances[best]

    def learn(self, item: Item, truth: Any) -> None:
        self.models += [model for model in item.said if model not in (*self.models, *self.stacks)]
        for label in (truth, *item.said.values()):
            known = label is None or isinstance(label, list) or label in self.labels
            if not known and len(self.labels) < self.most_labels:
                self.labels.append(label)
        if truth not in self.labels:
            return
        chances = self.chances(item)
        for given, value in self.inputs(item):
            for label in self.labels:
                gradient = (chances[label] - (label == truth)) * value
                square = self.square(given, label) + gradient * gradient
                self.weights[given, label] = self.weight(given, label) - 0.1 * gradient / math.sqrt(square)
                self.squares[given, label] = square
