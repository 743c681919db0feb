"""How a model of a running site is taught: whatever it raises is its own failure, today and in every replay of the log.

A model may raise SystemExit or KeyboardInterrupt too. In the thread of a model these must not end what else is to be
taught, and at a start not the process: a label that a model cannot bear is in the log for good.
"""

from __future__ import annotations

from typing import Any

from cosend.classifiers.adapters import Classifier, teach
from cosend.errors import ClassifierError, CosendError, in_one_line


def taught(name: str, classifier: Classifier, item: Any, truth: Any) -> CosendError | None:
    """Let a model learn from an item and its label; returns what went wrong."""
    try:
        teach(name, classifier, item, truth)
    except CosendError as error:
        return error
    except BaseException as error:
        return ClassifierError(f"classifier {name!r} failed to learn: {in_one_line(error)}")
    return None
