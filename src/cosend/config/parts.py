"""What the parts of a scenario file have in common: unknown keys are mistakes, and numbers have limits."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails

from cosend.core.checks import LARGEST

MOST_ROWS: Final = 10_000_000  # a run holds them all in memory
LARGEST_SEED: Final = LARGEST

Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, strict=True)]
RowsOrNone = Annotated[int, Field(ge=0, le=MOST_ROWS, strict=True)]
Row = Annotated[int, Field(ge=0, le=10**12, strict=True)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, strict=True)]
Names = Annotated[list[str], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]


class Part(BaseModel):
    """A part of a scenario: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def mistake_of(error: ErrorDetails) -> str:
    """Return a mistake that pydantic has found, with its key; numbers of a list start at 1, as people count."""
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


def perhaps(word: Any, known: list[str]) -> str:
    """Return a guess at what was meant, as a part of a sentence."""
    close = get_close_matches(str(word)[:100], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
