"""The bodies of the two hot routes: within limits, decoded by msgspec."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec

from cosend.errors import shown
from cosend.service.problems import Refused

MOST_BYTES: Final = 32 * 2**20  # of a body
BODY_S: Final = 30.0  # between two parts of it
MOST_ITEMS: Final = 10_000
MOST_FEATURES: Final = 2_000
LONGEST_TEXT: Final = 100_000  # characters of a feature or a label
LONGEST_ID: Final = 200
DEEPEST: Final = 8  # lists and objects within each other
SMALLEST, LARGEST = -(2**63), 2**64 - 1

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item that is to be labelled."""

    features: dict[str, Any]
    id: Id | None = None


class Classify(msgspec.Struct, forbid_unknown_fields=True):
    """Items that are to be labelled."""

    items: Annotated[list[Item], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]


class Truth(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The true label of a decision."""

    id: Id
    label: str | int | float | bool | None
    cost: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class Labels(msgspec.Struct, forbid_unknown_fields=True):
    """True labels."""

    labels: Annotated[list[Truth], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]


T = TypeVar("T")
CLASSIFY: Final = msgspec.json.Decoder(Classify)
LABELS: Final = msgspec.json.Decoder(Labels)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return what a body says, or refuse it with the place that is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refused(422, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from error
    except RecursionError:
        raise Refused(422, f"more than {DEEPEST} lists and objects within each other") from None


def check_features(items: list[Item]) -> None:
    """Raise unless features are within the limits: they are passed to models, and may be written down."""
    for place, item in enumerate(items):
        if len(item.features) > MOST_FEATURES:
            raise Refused(422, f"items.{place}.features: more than {MOST_FEATURES:,} features")
        for name, value in item.features.items():
            kind = type(value)
            if kind is not float and kind is not bool:
                wrong = _wrong(value, DEEPEST) or (len(name) > LONGEST_TEXT and "its name is too long")
                if wrong:
                    raise Refused(422, f"items.{place}.features.{name:.100}: {wrong}")


def _wrong(value: Any, levels: int) -> str | None:
    """Return what is wrong with a value from JSON, None if nothing is."""
    if isinstance(value, str):
        return f"longer than {LONGEST_TEXT:,} characters" if len(value) > LONGEST_TEXT else None
    if type(value) is int:
        return None if SMALLEST <= value <= LARGEST else f"{shown(value)} is a whole number of more than 64 bits"
    if isinstance(value, list | dict):
        if not levels:
            return f"more than {DEEPEST} lists and objects within each other"
        inside = value.values() if isinstance(value, dict) else value
        return next((wrong for each in inside if (wrong := _wrong(each, levels - 1))), None)
    return None
