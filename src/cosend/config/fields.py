"""What the sections of a network file have in common: types with limits, and mistakes that name their key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from cosend.config.limits import LARGEST_SEED, LONGEST_CALL_S, MOST_ROWS
from cosend.errors import CosendError, shown

Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, strict=True)]
RowsOrNone = Annotated[int, Field(ge=0, le=MOST_ROWS, strict=True)]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]  # items that a service may see
Row = Annotated[int, Field(ge=0, le=10**12, strict=True)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, strict=True)]
Tries = Annotated[int, Field(ge=0, le=1_000, strict=True)]
Port = Annotated[int, Field(ge=1, le=65_535, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_CALL_S, strict=True)]
Rate = Annotated[float, Field(gt=0, le=1e9, strict=True)]
Threads = Annotated[int, Field(ge=1, le=256, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Names = Annotated[list[str], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9\[:][A-Za-z0-9_.:\]-]*$", max_length=255)]

Made = TypeVar("Made")


class Section(BaseModel):
    """A table of a network file: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def made_from(kind: type[Made], table: Any, always: Mapping[str, Any] | None = None) -> Made:
    """Build a type of the library from a table with its options, or raise with every option that is wrong.

    always  options that the type needs in any case, unless the table has them
    """
    if isinstance(table, kind):
        return table
    if not isinstance(table, Mapping):
        raise PydanticCustomError("model_type", "must be a table, got {given}", {"given": shown(table)})
    allowed, always = [*signature(kind).parameters], always or {}
    mistakes = [
        mistake for name, value in table.items() if (mistake := _wrong_option(kind, allowed, name, value, always))
    ]
    if mistakes:
        raise ValidationError.from_exception_data(kind.__name__, mistakes)
    return kind(**{**always, **table})


def wrong_key(key: str, wrong: str, value: Any) -> InitErrorDetails:
    """Return a mistake under a key of the table that is being checked."""
    return InitErrorDetails(type=PydanticCustomError("setting", "{wrong}", {"wrong": wrong}), loc=(key,), input=value)


def _wrong_option(
    kind: type[Any], allowed: list[str], name: str, value: Any, always: Mapping[str, Any]
) -> InitErrorDetails | None:
    """Return what is wrong with an option, whatever the others are."""
    if name not in allowed:
        wrong = f"no such option{did_you_mean(name, allowed)}; {kind.__name__} has {', '.join(allowed)}"
    else:
        try:
            kind(**{**always, name: value})
        except CosendError as error:
            wrong = str(error)
        else:
            return None
    return wrong_key(name, wrong, value)


def mistake_of(error: ErrorDetails, whole: type[Section]) -> str:
    """Return a mistake that pydantic has found, with its key; list positions start at 1."""
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    what, should, allowed = message.partition(" should ")
    if should and what in ("Input", "String", "List"):
        given = "" if key.startswith("network.") else f", got {shown(error['input'])}"  # it may be a password
        message = f"must {allowed.partition(' after validation')[0]}{given}"
    if error["type"] == "missing":
        message = "is required"
    if error["type"] == "extra_forbidden":
        known = _keys_of_table(error["loc"][:-1], whole)
        message = f"no such key{did_you_mean(error['loc'][-1], known)}; allowed are {', '.join(known)}"
    if error["type"] == "model_type":
        message = f"must be a table, got {shown(error['input'])}"
    return f"{key}: {message}" if key else message


def _keys_of_table(place: Sequence[int | str], whole: type[Section]) -> list[str]:
    section = whole
    for name in place:
        if isinstance(name, str):
            section = _section_in(section.model_fields[name].annotation) or section
    return list(section.model_fields)


def _section_in(annotation: Any) -> type[Section] | None:
    """Return the section that a key holds, alone or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for each in get_args(annotation) if (found := _section_in(each))), None)


def did_you_mean(word: Any, known: list[str]) -> str:
    """Return a guess at what was meant, as a part of a sentence."""
    close = get_close_matches(str(word)[:100], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
