"""Whether a true label is one that some arm could have given: else every item would count as wrong without a word."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from cosend.classifiers.adapters import Classifier, known_labels
from cosend.classifiers.vote import Vote
from cosend.core.checks import check_kind
from cosend.errors import LabelError, LabelWarning, levels_to_the_user, shown
from cosend.site.past import Past, kind_of

NO_LABEL: Final = kind_of(type(None))


def all_labels(classifiers: Mapping[str, Classifier]) -> frozenset[Any] | None:
    """Return all labels that classifiers can give, or None if that is not known of one of them."""
    labels: frozenset[Any] = frozenset()
    for classifier in classifiers.values():
        if isinstance(classifier, Vote):  # it says what others have said
            continue
        known = known_labels(classifier)
        if known is None:
            return None
        labels |= known
    return labels


class LabelCheck:
    """Compares the kinds of true labels with those that arms have given, and their values where all are known.

    strict  refuse a suspicious label; else warn once
    """

    def __init__(self, site: str, *, strict: bool) -> None:
        check_kind("strict_labels", strict, bool, "True or False")
        self.site, self.strict = site, strict
        self._warned = False

    def check(self, truths: Sequence[Any], known: frozenset[Any] | None, past: Past) -> None:
        """Warn or raise if a true label is of a kind that no arm has given, or none of all that they can give."""
        if self._warned and not self.strict:
            return
        for truth in () if known is None and past.types.issuperset(map(type, truths)) else truths:
            wrong = _wrong(truth, known, past.kinds)
            if wrong is not None:
                self._complain(truth, wrong)

    def _complain(self, truth: Any, wrong: str) -> None:
        sentence = f"no arm of site {self.site!r} could have given the true label {shown(truth)}: {wrong}"
        if self.strict:
            raise LabelError(sentence)
        self._warned = True
        warnings.warn(f"{sentence}; every such item counts as wrong", LabelWarning, stacklevel=levels_to_the_user())


def _wrong(truth: Any, known: frozenset[Any] | None, kinds: Collection[str]) -> str | None:
    """Say why no arm could have given a label that is true; None if one could."""
    kind, given = kind_of(type(truth)), {*kinds} - {NO_LABEL}
    if given and kind not in kinds:
        return f"it is {kind}, and the arms say {' or '.join(sorted(given))}"
    try:
        possible = known is None or truth in known
    except TypeError:  # one that cannot be hashed is none of those that are
        possible = False
    return None if possible else f"the arms can say {', '.join(sorted(map(repr, known or ())))}"
