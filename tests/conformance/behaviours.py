"""Models that behave and misbehave; each writes every item that it sees to the file calls.txt of the working folder."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosend import Answer

CALLS, DOWN = Path("calls.txt"), Path("down")
NO_LABEL: dict[str, Any] = {"a list": ["ill"], "a dict": {"label": "ill"}, "a set": {"ill"}}
RUBBISH: dict[str, Any] = {  # for a service, whose labels travel and are written down
    **NO_LABEL,
    "infinity": math.inf,
    "an object": object(),
    "bytes": b"ill",
    "half a character": "\ud800",
    "a whole number of 65 bits": 2**64,
}
Model = Callable[[Any], Any]


def note(*words: object) -> None:
    """Append a line in one piece, whoever else writes."""
    file = os.open(CALLS, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, ("\t".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


def model(name: str, answer: Model) -> Model:
    """Return a model that notes its calls."""

    def label(item: Any) -> Any:
        note(name, "called")
        return answer(item)

    return label


def says(name: str, answer: Any) -> Model:
    return model(name, lambda _: answer)


def says_at(name: str, answer: Any, cost: float) -> Model:
    """Say what the answer cost, too."""
    return model(name, lambda _: Answer(answer, cost=cost))


def rubbish(name: str, kind: str) -> Model:
    return says(name, RUBBISH[kind])


def young(name: str) -> Model:
    return model(name, lambda item: "ill" if item["age"] < 30 else "well")


def parity(name: str, feature: str) -> Model:
    """Say whether a feature is even, which is never the true label."""
    return model(name, lambda item: "even" if item[feature] % 2 == 0 else "odd")


def silent(name: str, feature: str = "", answer: Any = None) -> Model:
    """Have no answer; with a feature, only where that is true."""
    return model(name, lambda item: answer if not feature or item.get(feature) else "well")


def fails(name: str, feature: str = "") -> Model:
    """Raise; with a feature, only where that is true."""

    def answer(item: Any) -> str:
        if not feature or item.get(feature):
            raise ValueError("broken")
        return "ill"

    return model(name, answer)


def fails_when_down(name: str, answer: Any) -> Model:
    """Raise as long as the file `down` is there."""

    def label(_: Any) -> Any:
        if DOWN.exists():
            raise ConnectionError("down")
        return answer

    return model(name, label)


def late(name: str, seconds: float) -> Model:
    def answer(_: Any) -> str:
        time.sleep(seconds)
        return "late"

    return model(name, answer)


class Majority:
    """Says what it was taught most often, and notes what it is taught."""

    def __init__(self, name: str) -> None:
        self.name, self.seen = name, {"well": 1}

    def predict_one(self, _: Any) -> str:
        note(self.name, "called")
        return max(sorted(self.seen), key=self.seen.__getitem__)

    def learn_one(self, _: Any, label: str) -> None:
        note(self.name, "taught", label)
        self.seen[label] = self.seen.get(label, 0) + 1


class Fragile(Majority):
    """Cannot bear some labels."""

    def learn_one(self, item: Any, label: str) -> None:
        if label == "odd":
            raise ValueError("odd")
        super().learn_one(item, label)
