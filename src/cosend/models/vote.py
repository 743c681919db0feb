"""A vote: the answers of all local classifiers, combined into one more arm.

What it takes for an item is a ballot: what each of the others says of the item, by name, and the newest label that was
known then, as if a classifier had said it. Four forecasts of the label are mixed by how well each has done so far:

    naive Bayes     which answers go with which label, voter by voter; once with short and once with long memory
    a table         which labels came with the very same ballot, on top of naive Bayes; with short and with long memory

Before anything is learnt, the most frequent answer wins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from cosend.errors import SettingError, shown
from cosend.models.adapters import Classifier, Label, check_names

NEWEST: Final = ""  # among what was said of an item: the newest label that was known; no classifier has this name
MEMORIES: Final = (0.9, 1.0)  # what a label counts for when one more has come
SHARE: Final = 0.02  # of the weight that is spread over all forecasts at every label
LEAST: Final = 0.01  # forecasts are held to be no surer than this, or one surprise would rule them out
MOST_LABELS: Final = 100  # different ones; those that come later are never said
MOST_BALLOTS: Final = 10_000  # different ones in a table; for those that come later, naive Bayes is all there is
LARGEST_UNIT: Final = 1e100

Ballot: TypeAlias = Mapping[str, Label]
Key: TypeAlias = tuple[tuple[str, Label], ...]
Counts: TypeAlias = dict[Any, float]


class Vote:
    """Says what the other local classifiers say together, and learns from every label of its site whom to believe.

    over  the classifiers that it combines, which are then run on every item whatever they cost; unless given, all
          that cost nothing
    """

    learns = True

    def __init__(self, *, over: Sequence[str] | None = None) -> None:
        if over is not None:
            check_names("the classifiers that a vote combines", over)
        self.over = None if over is None else tuple(over)
        if self.over is not None and not (self.over and all(isinstance(name, str) for name in self.over)):
            raise SettingError("the classifiers that a vote combines", self.over, "a list of at least one name")
        self._labels: list[Label] = []
        self._bayes = [_Bayes(memory) for memory in MEMORIES]
        self._tables = [_Table(memory) for memory in MEMORIES]
        self._weights = [1.0 / (2 * len(MEMORIES))] * (2 * len(MEMORIES))

    def predict(self, items: Sequence[Ballot]) -> list[Label]:
        """Return a label for every ballot; None if nobody has answered."""
        return [self._say(ballot) for ballot in items]

    def learn(self, item: Ballot, label: Label) -> None:
        """Learn the true label of an item from its ballot; of one that cannot be counted, there is nothing to learn."""
        ballot = _counted(item)
        self._meet(filter(_can_be_counted, [*ballot.values(), label]))
        if not _can_be_counted(label) or label not in self._labels:
            return
        place = self._labels.index(label)
        heard = self._heard(ballot, self._labels)
        worth = [
            weight * min(max(forecast[place], LEAST), 1.0 - LEAST)
            for weight, forecast in zip(self._weights, self._forecasts(heard, self._labels), strict=True)
        ]
        total = math.fsum(worth)
        self._weights = [(1.0 - SHARE) * each / total + SHARE / len(worth) for each in worth]
        for bayes in self._bayes:
            bayes.learn(heard, label)
        for table in self._tables:
            table.learn(heard, label)

    def _say(self, item: Ballot) -> Label:
        ballot = _counted(item)
        if not ballot:  # none of the classifiers that it combines has answered
            return None
        labels = [*self._labels]
        labels += [label for label in dict.fromkeys(ballot.values()) if label not in labels]
        forecasts = self._forecasts(self._heard(ballot, labels), labels)
        mixed = [_dot(self._weights, column) for column in zip(*forecasts, strict=True)]
        return labels[mixed.index(max(mixed))]

    def _meet(self, labels: Iterable[Label]) -> None:
        for label in labels:
            if label not in self._labels and len(self._labels) < MOST_LABELS:
                self._labels.append(label)

    @staticmethod
    def _heard(ballot: Ballot, labels: Sequence[Label]) -> Key:
        """Return the answers that are labels, in the order of the ballot."""
        return tuple((name, answer) for name, answer in ballot.items() if answer in labels)

    def _forecasts(self, heard: Key, labels: Sequence[Label]) -> list[list[float]]:
        """Return how likely each label is by each part."""
        bayes = [part.forecast(heard, labels) for part in self._bayes]
        total = math.fsum(self._weights[: len(bayes)])
        prior = [_dot(self._weights, column) / total for column in zip(*bayes, strict=True)]
        return [*bayes, *(part.forecast(heard, labels, prior) for part in self._tables)]

    # What is kept

    def facts(self) -> dict[str, Any]:
        """Return all that it has learnt as plain data."""
        return {
            "labels": [*self._labels],
            "weights": [*self._weights],
            "bayes": [[part.unit, [[*key, count] for key, count in part.counts.items()]] for part in self._bayes],
            "tables": [
                [[[*map(list, key)], [[*pair] for pair in row.items()]] for key, row in part.rows.items()]
                for part in self._tables
            ],
        }

    def remember(self, facts: Mapping[str, Any]) -> None:
        """Go on from what was learnt before."""
        weights = [*map(float, facts["weights"])]
        if len(weights) != len(self._weights) or not all(0.0 < weight <= 1.0 for weight in weights):
            raise ValueError(
                f"a vote must have {len(self._weights)} weights above 0, up to 1, got {shown(facts['weights'])}"
            )
        self._labels, self._weights = [*facts["labels"]], weights
        for bayes, (unit, counts) in zip(self._bayes, facts["bayes"], strict=True):
            bayes.unit, bayes.counts = _count(unit, 1.0), {tuple(key): _count(count) for *key, count in counts}
        for table, rows in zip(self._tables, facts["tables"], strict=True):
            table.rows = {tuple(map(tuple, key)): {label: _count(n) for label, n in row} for key, row in rows}


class _Bayes:
    """Which answers go with which label, as if voters erred independently of each other."""

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.unit = 1.0  # what the newest label counts for: it grows, so that nothing else need shrink
        self.counts: Counts = {}  # by (label,), (label, voter) and (label, voter, answer)

    def forecast(self, heard: Key, labels: Sequence[Label]) -> list[float]:
        counts, unit, many = self.counts, self.unit, len(labels)
        logs = []
        for label in labels:
            log = math.log(counts.get((label,), 0.0) / unit + 1.0)
            for name, answer in heard:
                # A voter is held to be right a little more often than by chance before anything is known of it.
                said = counts.get((label, name, answer), 0.0) / unit + (2.0 if answer == label else 1.0)
                log += math.log(said / (counts.get((label, name), 0.0) / unit + many + 1.0))
            logs.append(log)
        highest = max(logs)
        chances = [math.exp(log - highest) for log in logs]
        total = math.fsum(chances)
        return [chance / total for chance in chances]

    def learn(self, heard: Key, label: Label) -> None:
        self.unit /= self.memory
        counts = self.counts
        for key in [(label,), *((label, name) for name, _ in heard), *((label, *each) for each in heard)]:
            counts[key] = counts.get(key, 0.0) + self.unit
        if self.unit > LARGEST_UNIT:
            self.counts = {key: count / self.unit for key, count in counts.items()}
            self.unit = 1.0


class _Table:
    """Which labels came with the very same ballot."""

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.rows: dict[Key, Counts] = {}

    def forecast(self, heard: Key, labels: Sequence[Label], prior: Sequence[float]) -> list[float]:
        row = self.rows.get(heard, {})
        total = math.fsum(row.values()) + 1.0
        return [(row.get(label, 0.0) + chance) / total for label, chance in zip(labels, prior, strict=True)]

    def learn(self, heard: Key, label: Label) -> None:
        if heard not in self.rows and len(self.rows) == MOST_BALLOTS:
            return
        row = self.rows.setdefault(heard, {})
        for each in row:
            row[each] *= self.memory
        row[label] = row.get(label, 0.0) + 1.0


def _counted(ballot: Ballot) -> Ballot:
    """Return the answers that can be counted, by name, whoever answered first: nothing is none, nor is a list."""
    return {name: ballot[name] for name in sorted(ballot) if _can_be_counted(ballot[name])}


def _can_be_counted(label: Label) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return label is not None


def _count(value: Any, least: float = 0.0) -> float:
    """Return a count that was saved, or raise ValueError."""
    count = float(value)
    if not least <= count < math.inf:
        raise ValueError(f"the counts of a vote must be numbers from {least:g} on, got {shown(value)}")
    return count


def _dot(weights: Sequence[float], numbers: Iterable[float]) -> float:
    return math.fsum(weight * number for weight, number in zip(weights, numbers, strict=False))


def votes_among(classifiers: Mapping[str, Classifier]) -> dict[str, Vote]:
    """Return the votes among classifiers."""
    return {name: each for name, each in classifiers.items() if isinstance(each, Vote)}


def ballot_of(vote: Vote, said: Ballot, votes: Iterable[str]) -> Ballot:
    """Return what a vote sees of what was said of an item: not what other votes, or it itself, made of that."""
    wanted = None if vote.over is None else {NEWEST, *vote.over}
    hidden = frozenset(votes)
    return {name: said[name] for name in said if name not in hidden and (wanted is None or name in wanted)}
