"""What the parts of a network file have in common: unknown keys are mistakes, and numbers have limits."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails

from cosend.core.checks import LARGEST
from cosend.errors import shown

MOST_ROWS: Final = 10_000_000  # a run holds them all in memory
LARGEST_SEED: Final = LARGEST
LONGEST_CALL_S: Final = 3_600.0

Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, strict=True)]
RowsOrNone = Annotated[int, Field(ge=0, le=MOST_ROWS, strict=True)]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]  # of items that a service may see
Row = Annotated[int, Field(ge=0, le=10**12, strict=True)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, strict=True)]
Tries = Annotated[int, Field(ge=0, le=1_000, strict=True)]
Port = Annotated[int, Field(ge=1, le=65_535, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_CALL_S, strict=True)]
Threads = Annotated[int, Field(ge=1, le=256, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Names = Annotated[list[str], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9\[:][A-Za-z0-9_.:\]-]*$", max_length=255)]


class Part(BaseModel):
    """A part of a network file: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def mistake_of(error: ErrorDetails, whole: type[Part]) -> str:
    """Return a mistake that pydantic has found, with its key; numbers of a list start at 1, as people count."""
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    what, should, allowed = message.partition(" should ")
    if should and what in ("Input", "String", "List"):
        given = "" if key.startswith("network.") else f", got {shown(error['input'])}"  # a password may be in it
        message = f"must {allowed.partition(' after validation')[0]}{given}"
    if error["type"] == "missing":
        message = "must be there, and is not"
    if error["type"] == "extra_forbidden":
        known = _keys_beside(error["loc"], whole)
        message = f"no such key{perhaps(error['loc'][-1], known)}; allowed are {', '.join(known)}"
    if error["type"] == "model_type":
        message = f"must be a table, got {shown(error['input'])}"
    return f"{key}: {message}" if key else message


def _keys_beside(place: Sequence[int | str], whole: type[Part]) -> list[str]:
    """Return the keys that the table of a key may have."""
    part = whole
    for name in place[:-1]:
        if isinstance(name, str):
            part = _part_in(part.model_fields[name].annotation) or part
    return list(part.model_fields)


def _part_in(annotation: Any) -> type[Part] | None:
    """Return the part that a key holds, alone or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((found for each in get_args(annotation) if (found := _part_in(each))), None)


def perhaps(word: Any, known: list[str]) -> str:
    """Return a guess at what was meant, as a part of a sentence."""
    close = get_close_matches(str(word)[:100], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
