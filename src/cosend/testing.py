"""Checks for your own parts.

Subclass one in your tests, and pytest runs all of it:

    from cosend.testing import ClassifierConformance

    class TestYoung(ClassifierConformance):
        def classifier(self):
            return load_model("models:young", FOLDER)

        def items(self):
            return [{"age": 31, "pressure": 120}, {"age": 47, "pressure": 135}]

Nothing here needs pytest; the methods can be called as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from cosend.errors import ClassifierError, shown
from cosend.models.adapters import Classifier, Item, Label, as_classifier, predictions, teach


class ClassifierConformance:
    """Promises of a classifier on which a site relies. Every check starts with a fresh one."""

    takes_anything = False  # True if there is no item that it could refuse

    def classifier(self) -> Any:
        """Return a classifier, or anything that becomes one, as new."""
        raise NotImplementedError("give the classifier to check: def classifier(self)")

    def items(self) -> Sequence[Item]:
        """Return some items as the site would get them, at least two."""
        raise NotImplementedError("give some items: def items(self)")

    def labels(self) -> Sequence[Label]:
        """Return the true labels of the items; only a classifier that learns needs them."""
        raise NotImplementedError("the classifier learns, so give the true labels of the items: def labels(self)")

    def wrong_item(self) -> Item:
        """Return an item that it cannot label."""
        return None

    def test_gives_a_list_with_a_label_for_every_item(self) -> None:
        """Neither an array nor one label for all."""
        items = self._items()
        labels = self._fresh().predict(items)
        _holds(type(labels) is list, f"predict must return a list, returned {shown(labels)}")
        _holds(len(labels) == len(items), f"predict returned {len(labels)} labels for {len(items)} items")

    def test_labels_are_plain_values_that_survive_json(self) -> None:
        """Labels are compared, saved and sent to peers: a NumPy number, a tuple or NaN would not come back the same."""
        for label in self._fresh().predict(self._items()):
            try:
                back = json.loads(json.dumps(label, allow_nan=False))
            except (TypeError, ValueError) as error:
                raise AssertionError(f"label {shown(label)} cannot be written as JSON: {error}") from error
            same = type(back) is type(label) and back == label
            _holds(same, f"label {shown(label)} comes back from JSON as {shown(back)}")

    def test_says_the_same_of_an_item_alone_and_in_a_batch(self) -> None:
        """A site may merge items into one call, or repeat it."""
        items, classifier = self._items(), self._fresh()
        together = classifier.predict(items)
        alone = [classifier.predict([item])[0] for item in items]
        _holds(together == alone, f"items in one batch get {shown(together)}, one by one {shown(alone)}")
        backwards = classifier.predict(items[::-1])[::-1]
        _holds(together == backwards, f"items get {shown(together)}, in the opposite order {shown(backwards)}")

    def test_gives_no_labels_for_no_items(self) -> None:
        """A new one and one that has labelled items already."""
        classifier = self._fresh()
        for when in ("at first", "later"):
            labels = classifier.predict([])
            _holds(type(labels) is list and not labels, f"no items must get [], got {shown(labels)} {when}")
            classifier.predict(self._items())

    def test_leaves_the_items_as_they_are(self) -> None:
        """Other classifiers and the context see the same items."""
        items, classifier = self._items(), self._fresh()
        before = deepcopy(items)
        classifier.predict(items)
        _holds(items == before, f"predict has changed the items to {shown(items)}")
        if classifier.learns:
            for item, label in zip(items, self.labels(), strict=True):
                classifier.learn(item, label)
            _holds(items == before, f"learn has changed the items to {shown(items)}")

    def test_learns_from_every_item_if_it_learns(self) -> None:
        """And continues to label."""
        items, classifier = self._items(), self._fresh()
        _holds(isinstance(classifier.learns, bool), f"learns must be true or false, is {shown(classifier.learns)}")
        if classifier.learns:
            for item, label in zip(items, self.labels(), strict=True):
                teach("yours", classifier, item, label)
            labels = classifier.predict(items)
            _holds(len(labels) == len(items), f"after learning, predict gave {len(labels)} labels")

    def test_refuses_an_item_that_it_cannot_label_and_goes_on(self) -> None:
        """The error has a sentence, and the next item is labelled as if nothing had happened."""
        if self.takes_anything:
            return
        items, wrong = self._items(), self.wrong_item()
        for batch in ([wrong], [*items, wrong]):
            classifier = self._fresh()
            expected = self._fresh().predict(items)
            try:
                labels = predictions("yours", classifier, batch).labels
            except ClassifierError as error:
                said = str(error).removeprefix("classifier 'yours' failed: ").partition(": ")
                _holds(bool(said[0] and (said[2] or " " in said[0])), f"the error says nothing: {error}")
            else:
                hint = "give one that it cannot label, def wrong_item(self), or set takes_anything = True"
                raise AssertionError(f"the wrong item {shown(wrong)} was labelled {shown(labels[-1])}; {hint}")
            after = classifier.predict(items)
            _holds(after == expected, f"after a wrong item, items get {shown(after)} instead of {shown(expected)}")

    def _fresh(self) -> Classifier:
        return as_classifier(self.classifier())

    def _items(self) -> list[Item]:
        items = list(self.items())
        _holds(len(items) >= 2, f"at least two items are needed, got {len(items)}")
        return items


def _holds(fact: bool, otherwise: str) -> None:
    if not fact:
        raise AssertionError(otherwise)
