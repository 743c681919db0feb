"""Every error that cosend raises on purpose, as one tree.

    CosendError
    ├── SettingError        an option that is not allowed, found when the object is built
    ├── ArmError            an arm that does not exist, exists already, or may not leave
    ├── NetworkError        sites that cannot work together
    │   └── LinkError       a message that a peer did not take or answer
    ├── ContextError        a context that is not a point of [0, 1]^d, or cannot be computed
    ├── RewardError         a gain or cost outside [0, 1]
    ├── ScoreError          a score that is none, or for no arm
    ├── DecisionError       a label for a decision that does not wait for one
    │   ├── UnknownDecision
    │   ├── UnansweredDecision
    │   └── SettledDecision
    ├── LabelError          a true label that no arm could have given
    ├── ClassifierError     a classifier that failed on an item
    ├── ModelError          a model that cannot be loaded: its file, its module, or what is in them
    ├── NoAnswer            an item that no arm could label
    │   └── SomeUnanswered  the same for items of a batch; the others have their decisions
    ├── NetworkFileError    a network file with mistakes
    ├── StreamError         a stream, or the file it comes from, that cannot be used
    ├── StateError          a saved state or a log that cannot be used
    ├── Unavailable         a running site that cannot answer now; retry later
    └── ServiceError        a request to the service of a site that was refused
        └── Unreachable     the same without any answer

Each says what was wrong, where, and what is allowed. The state stays as it was. However long a
value or a list of names is, the sentence stays readable: `shown` and `listed` cut them, `CosendError` cuts the rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Final

LONGEST_VALUE: Final = 200  # characters of a value
LONGEST_SENTENCE: Final = 4_000  # characters of a whole message
MOST_NAMES: Final = 10  # of a list of names
MOST_MISTAKES: Final = 20  # of a network file


def cut(text: str, longest: int) -> str:
    """Return a text, without its middle if it is longer than that."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters) ... {text[-half:]}"


def shown(value: object) -> str:
    """Return a value as part of a sentence."""
    try:
        return cut(repr(value), LONGEST_VALUE)
    except Exception:  # the repr of a user's object may raise anything, and Python's own refuses very long numbers
        return f"a value of type {type(value).__name__} that cannot be printed"


def in_one_line(error: BaseException) -> str:
    """Return an error of someone else's code as part of a sentence: its type and what it says."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # a user's error may even fail to become a text
        said = ""
    return cut(f"{type(error).__name__}: {said}" if said else type(error).__name__, 2 * LONGEST_VALUE)


def listed(names: Collection[Any]) -> str:
    """Return names as part of a sentence: the first ones, and how many more there are."""
    first = ", ".join(shown(name) for name in islice(names, MOST_NAMES)) or "none"
    return first if len(names) <= MOST_NAMES else f"{first} and {len(names) - MOST_NAMES:,} more"


class CosendError(Exception):
    """Anything that cosend raises on purpose.

    Its text can be logged and sent: half characters, which a user's error may have in it, are written out.
    """

    def __init__(self, sentence: str = "") -> None:
        super().__init__(cut(sentence, LONGEST_SENTENCE).encode(errors="backslashreplace").decode())


class SettingError(CosendError, ValueError):
    """An option that is not allowed."""

    def __init__(self, setting: str, value: object, allowed: str, *, sentence: str = "") -> None:
        self.setting, self.value, self.allowed = setting, value, allowed
        super().__init__(sentence or f"{setting} must be {allowed}, got {shown(value)}")


class ArmError(CosendError, ValueError):
    """An arm that does not exist, exists already, or may not leave."""


class NetworkError(CosendError, ValueError):
    """Sites that cannot work together."""


class LinkError(NetworkError):
    """A message that a peer did not take or answer: `what` was sent, to which `peer`, and why it came to nothing.

    reason   deadline       the peer was silent for too long
             no responders  no subscriber has its name
             refused        it says why it will not
             broken reply   what came back cannot be read
             broker gone    there is no connection to anybody
             too large      the message is larger than may be sent
             unfit          what was to be sent cannot be sent: nothing has left
    """

    def __init__(self, what: str, peer: str, reason: str, detail: str) -> None:
        self.what, self.peer, self.reason, self.detail = what, peer, reason, detail
        super().__init__(f"{what} to {shown(peer)}: {reason}: {detail}")


class ContextError(CosendError, ValueError):
    """A context that is no point of [0, 1]^d, or that cannot be computed from the item."""


class RewardError(CosendError, ValueError):
    """A gain or a cost outside [0, 1]."""

    def __init__(self, what: str, value: object, where: str) -> None:
        self.what, self.value, self.where = what, value, where
        super().__init__(f"{what} must be a number in [0, 1], got {shown(value)} for {where}")


class DecisionError(CosendError, KeyError):
    """A label for a decision that does not wait for one."""

    def __init__(self, site: str, decision: object, sentence: str) -> None:
        self.site, self.decision = site, decision
        super().__init__(sentence)

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the repr


class UnknownDecision(DecisionError):
    """The site never made a decision of this id."""

    def __init__(self, site: str, decision: object, last: int) -> None:
        allowed = f"ids run from 1 to {last}" if last else "it has made none yet"
        super().__init__(site, decision, f"site {site!r} never made a decision {shown(decision)}: {allowed}")


class SettledDecision(DecisionError):
    """The decision has its label already, or waits no longer."""

    def __init__(self, site: str, decision: object) -> None:
        super().__init__(
            site,
            decision,
            f"decision {shown(decision)} of site {site!r} is not waiting for a label: "
            f"it has one already, or it was dropped",
        )


class UnansweredDecision(DecisionError):
    """The decision has no answer yet: its arm is still at work."""

    def __init__(self, site: str, decision: object) -> None:
        sentence = f"decision {decision!r} of site {site!r} is still being made: its label can come after its answer"
        super().__init__(site, decision, sentence)


class ScoreError(CosendError, ValueError):
    """A score that is no number in its units, or is for no arm."""


class LabelError(CosendError, ValueError):
    """A true label that no arm could have given."""


class LabelWarning(UserWarning):
    """A true label that no arm could have given, at a site that is not strict about labels."""


class FeatureWarning(UserWarning):
    """Features that are not looked at, or that `shares` or `withholds` names and items lack."""


class ClassifierError(CosendError, RuntimeError):
    """A classifier that failed on an item."""


class ModelError(CosendError, ValueError):
    """A model that cannot be loaded; `model` is what was said to load."""

    def __init__(self, model: str, wrong: str, allowed: str = "") -> None:
        self.model, self.wrong, self.allowed = model, wrong, allowed
        super().__init__(f"model {shown(model)}: {wrong}" + (f"; {allowed}" if allowed else ""))


class NoAnswer(CosendError, RuntimeError):
    """An item that no arm could label; `reasons` says by arm what went wrong."""

    def __init__(self, site: str, reasons: Mapping[str, str]) -> None:
        self.site, self.reasons = site, dict(reasons)
        told = "; ".join(f"{arm}: {reason}" for arm, reason in self.reasons.items()) or "all of them are paused"
        super().__init__(f"no arm of site {site!r} could label the item: {told}")

    @classmethod
    def told(cls, site: str, sentence: str) -> NoAnswer:
        """Return the error that a service has told in words."""
        error = NoAnswer(site, {})
        error.args = (cut(sentence, LONGEST_SENTENCE),)
        return error


class SomeUnanswered(NoAnswer):
    """Items of a batch that no arm could label. `decisions` has the others, None in the place of those."""

    def __init__(self, site: str, decisions: Sequence[Any], errors: Mapping[int, NoAnswer]) -> None:
        self.decisions, self.errors = list(decisions), dict(errors)
        number, first = next(iter(self.errors.items()))
        super().__init__(site, first.reasons)
        count = f"{len(self.errors)} of {len(self.decisions)} items"
        self.args = (f"{count} could not be labelled, the first is item {number} of the batch: {first}",)


class StreamError(CosendError, ValueError):
    """A stream, or the file it comes from, that cannot be used.

    `file`, `line` (from 1; in a file with a header, the header is line 1) and `column` say where, as far as is known.
    """

    def __init__(
        self,
        wrong: str,
        allowed: str = "",
        *,
        file: str | os.PathLike[str] | None = None,
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        self.file, self.line, self.column = None if file is None else os.fspath(file), line, column
        named = (self.file, line and f"line {line}", None if column is None else f"column {shown(column)}")
        where = ", ".join(part for part in named if part)
        super().__init__((f"{where}: " if where else "") + wrong + (f"; {allowed}" if allowed else ""))


class NetworkFileError(CosendError, ValueError):
    """A network file with mistakes; all of them are named."""

    def __init__(self, source: str, mistakes: list[str]) -> None:
        self.source, self.mistakes = source, mistakes
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        named = [cut(mistake, LONGEST_SENTENCE // MOST_MISTAKES * 2) for mistake in mistakes[:MOST_MISTAKES]]
        more = [f"and {len(mistakes) - MOST_MISTAKES:,} more"] if len(mistakes) > MOST_MISTAKES else []
        super().__init__("\n  - ".join([f"{cut(source, LONGEST_VALUE)} has {count}:", *named, *more]))


class StateError(CosendError, ValueError):
    """A saved state or a log that cannot be used, or a state that is ahead of its journal."""


class Unavailable(CosendError, RuntimeError):
    """A running site that cannot answer now: it starts, stops, or is overloaded. Retry later."""


class ServiceError(CosendError, RuntimeError):
    """A request to the service of a site that was refused: `status` is that of HTTP, `detail` says why.

    `so_far` has the replies to the requests before it, if it was one of several: decisions, or results of labels.
    """

    def __init__(self, url: str, status: int | None, detail: str, problem: str = "about:blank") -> None:
        self.url, self.status, self.detail, self.problem = url, status, detail, problem
        self.so_far: Any = None
        super().__init__(f"{url}: {detail}" + ("" if status is None else f" (HTTP {status})"))


class Unreachable(ServiceError):
    """The service of a site did not answer."""

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(url, None, detail)


def levels_to_the_user() -> int:
    """Return how many calls up the user's own line is, as seen by who calls this: the first outside of the package.

    It is not always the same: `learn` calls `learn_many`, and a network calls both.
    """
    package, level = __name__.partition(".")[0], 1
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


def install(extra: str) -> str:
    """Return how to install what an extra of this package brings; nothing is published yet."""
    return f"pip install '.[{extra}]' in a checkout of cosend"
