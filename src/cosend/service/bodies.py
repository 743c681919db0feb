"""The bodies of the two hot routes: within limits, decoded by msgspec."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec

from cosend.service.problems import Refused

MOST_BYTES: Final = 32 * 2**20  # of a body
BODY_S: Final = 30.0  # between two parts of it
MOST_ITEMS: Final = 10_000
MOST_FEATURES: Final = 2_000
LONGEST_TEXT: Final = 100_000  # characters of a feature or a label
LONGEST_ID: Final = 200
WHOLE: Final = 2**63  # whole numbers lie between this and its negative: others cannot be written down exactly

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Whole = Annotated[int, msgspec.Meta(ge=-WHOLE, le=WHOLE - 1)]
Scalar = Text | Whole | float | bool | None
# Lists in lists, or objects, but no deeper: what comes from outside is handed to models, and may be written down.
Feature = Text | Whole | float | bool | list[Scalar | list[Scalar]] | dict[Text, Scalar] | None
Features = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=1_000)], Feature], msgspec.Meta(max_length=MOST_FEATURES)
]
# A control character in an id would be lost, or worse, in a log or a terminal.
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item that is to be labelled."""

    features: Features
    id: Id | None = None


class Classify(msgspec.Struct, forbid_unknown_fields=True):
    """Items that are to be labelled."""

    items: Annotated[list[Item], msgspec.Meta(min_length=1, max_length=MOST_ITEMS)]


class Truth(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The true label of a decision."""

    id: Id
    label: Scalar
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
        raise Refused(422, "too many lists and objects within each other") from None
