"""Events as bytes, and back exactly: one byte for the version of the encoding, then msgpack.

    encoded event = version | [number of the kind, field, field, ...]

The fields stand in the order of `site/events.py`, which is also their schema: bytes that are not an event are refused
with the place that is wrong. A number of a kind is never given to another kind, and a new field is the last of its
event and has a default, so that old logs stay readable. Of ids, which mostly follow each other, the differences are
written: one byte for each in place of five.

Labels, items and values of categories are the user's and come back as they were (`site/values.py`). What msgpack cannot
carry is refused when it is encoded, which is before anything is written, and so is whatever could not be decoded again.

It stands beside the events and not in `stores/`, which lies below them: the log there keeps bytes and knows no event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import partial
from itertools import accumulate, chain
from operator import attrgetter, sub
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from cosend.errors import CosendError, StateError, install, shown
from cosend.site import events
from cosend.site.values import ENCODER, SCALARS, Unfit, extension, plain

try:
    import msgspec
except ImportError as error:
    raise CosendError(f"events as bytes need msgspec: {install('service')}") from error

VERSION: Final = 1  # of the encoding
KINDS: Final[dict[int, type[Any]]] = {
    1: events.Started,
    2: events.Placed,
    3: events.Chosen,
    4: events.Asked,
    5: events.Answered,
    6: events.Failed,
    7: events.Served,
    8: events.Labelled,
    9: events.Taught,
    10: events.Withdrawn,
    11: events.ArmAdded,
    12: events.ArmRemoved,
    13: events.ArmPaused,
    14: events.ArmResumed,
    15: events.CostChanged,
    16: events.Named,
    17: events.ModeChanged,
    18: events.Shown,
    19: events.Watched,
    20: events.Laid,
}
FOLLOWING: Final = ("ids", "requests")  # fields of which the differences are written

SEQUENCES: Final = frozenset((tuple, list))
Prepare = Callable[[Any], Any]
Fits = Callable[[Any], bool]
_PREFIX: Final = bytes([VERSION])


def encode(event: events.Event) -> bytes:
    """Return an event as bytes; raises StateError if `decode` could not give it back."""
    try:
        kind = _BY_EVENT[type(event)]
    except KeyError:
        raise StateError(f"{shown(event)} is not an event and cannot be logged") from None
    try:
        packed = kind.packed(event)
        data = _PREFIX + ENCODER.encode(packed)
        if not kind.fits(packed, event):  # then nobody can tell from the types alone that it can be decoded
            decode(data)  # a log that cannot be read again would be found out when it is too late
    except (Unfit, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise StateError(f"{type(event).__name__} cannot be logged: {error}") from error
    return data


def decode(data: bytes) -> events.Event:
    """Return the event that was encoded; raises StateError if the bytes are none."""
    if data[:1] != _PREFIX:
        found = f"version {data[0]}" if data else "no version"
        raise StateError(f"the bytes of an event have {found} of the encoding; this cosend reads version {VERSION}")
    try:
        packed = _DECODER.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise StateError(f"the bytes are not an event: {error}") from error
    event: events.Event = _BY_STRUCT[type(packed)].unpacked(packed)
    return event


def _prepare(hint: Any) -> Prepare | None:
    """Return what makes the values of a field fit for msgpack; None if they are by their type."""
    if hint is Any:
        return plain
    origin, arguments = get_origin(hint), get_args(hint)
    inner = _prepare(arguments[-1] if origin is Mapping else arguments[0]) if origin in (tuple, Mapping) else None
    if inner is None:
        return None
    if origin is tuple and get_args(arguments[0])[:1] == (Any,):
        return partial(_prepare_rows, inner)
    return partial(_prepare_values if origin is Mapping else _prepare_column, inner)


def _prepare_column(prepare: Prepare, column: tuple[Any, ...]) -> Any:
    return column if SCALARS.issuperset(map(type, column)) else [prepare(value) for value in column]


def _prepare_rows(prepare: Prepare, rows: tuple[tuple[Any, ...], ...]) -> Any:
    return rows if _are_rows(rows) else [prepare(row) for row in rows]


def _are_rows(rows: Any) -> bool:
    """Tell whether these are tuples or lists of scalars."""
    return SEQUENCES.issuperset(map(type, rows)) and SCALARS.issuperset(map(type, chain.from_iterable(rows)))


def _are(kinds: frozenset[type], column: Any) -> bool:
    return type(column) in SEQUENCES and kinds.issuperset(map(type, column))


def _is_empty(column: Any) -> bool:
    return not len(column)


def _fit(hint: Any) -> Fits:
    """Return what tells, at a glance, that msgspec decodes a field to what it was; what is not sure does not fit."""
    arguments = get_args(hint)
    if get_origin(hint) is not tuple:
        return lambda value: type(value) is hint or (type(value) is dict and not value)
    inner = arguments[0]
    if get_origin(inner) is tuple and get_args(inner)[0] is Any:
        return _are_rows
    kinds = SCALARS if inner is Any else frozenset((inner,)) if inner in (int, str, float, bool) else None
    return _is_empty if kinds is None else partial(_are, kinds)


def _is_looked_at(hint: Any) -> bool:
    """Tell whether `_prepare` looks at every value of a field, and leaves it as it is only if all of them fit."""
    inner = get_args(hint)[:1]
    return get_origin(hint) is tuple and (inner == (Any,) or get_args(inner[0])[:1] == (Any,))


def _prepare_values(prepare: Prepare, values: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: prepare(value) for key, value in values.items()}


def _differences(numbers: tuple[int, ...]) -> list[int]:
    return list(map(sub, numbers, chain((0,), numbers)))


def _schema(hint: Any) -> Any:
    """Return the type of a field as msgspec checks it: a whole number in place of a float stays one."""
    if hint is float:
        return int | float
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_schema(each) for each in arguments)]  # noqa: UP007 - the parts are known only here
    return hint if origin is None else origin[tuple(each if each is ... else _schema(each) for each in arguments)]


class _Kind:
    """How events of one kind are packed into a struct of msgspec."""

    def __init__(self, number: int, event: type[Any]) -> None:
        self.event = event
        hints, named = get_type_hints(event), fields(event)
        self.names = [each.name for each in named]
        self.struct = msgspec.defstruct(
            event.__name__,
            [_struct_field(each, hints) for each in named],
            array_like=True,
            tag=number,
            forbid_unknown_fields=True,
        )
        self.following = [n for n, name in enumerate(self.names) if name in FOLLOWING]
        prepared = [(n, _prepare(hints[name])) for n, name in enumerate(self.names)]
        prepared += [(n, _differences) for n in self.following]
        self.prepares = [(n, prepare) for n, prepare in prepared if prepare is not None]
        self.looked_at = [_is_looked_at(hints[name]) for name in self.names]
        self.fit = [_fit(hints[name]) for name in self.names]
        self.values = attrgetter(*self.names) if len(named) > 1 else self._only_value

    def _only_value(self, event: Any) -> tuple[Any]:
        return (getattr(event, self.names[0]),)

    def packed(self, event: Any) -> Any:
        """Return the struct of an event."""
        values = list(self.values(event))
        for n, prepare in self.prepares:
            try:
                values[n] = prepare(values[n])
            except Unfit as error:
                raise ValueError(f"in `{self.names[n]}`, {error}") from None
        return self.struct(*values)

    def fits(self, packed: Any, event: Any) -> bool:
        """Tell whether a struct that could be encoded is sure to be decoded to the same."""
        both = zip(self.values(packed), self.values(event), self.looked_at, self.fit, strict=True)
        return all(
            (seen and value is given and type(value) in SEQUENCES) or fit(value) for value, given, seen, fit in both
        )

    def unpacked(self, packed: Any) -> Any:
        """Return the event of a struct."""
        values = list(self.values(packed))
        for n in self.following:
            values[n] = tuple(accumulate(values[n]))
        return self.event(*values)


def _struct_field(field: Field[Any], hints: Mapping[str, Any]) -> Any:
    schema = _schema(hints[field.name])
    if field.default_factory is not MISSING:
        return field.name, schema, msgspec.field(default_factory=field.default_factory)
    return (field.name, schema) if field.default is MISSING else (field.name, schema, field.default)


_KINDS: Final = [_Kind(number, event) for number, event in KINDS.items()]
_BY_EVENT: Final = {kind.event: kind for kind in _KINDS}
_BY_STRUCT: Final = {kind.struct: kind for kind in _KINDS}
_DECODER: Final = msgspec.msgpack.Decoder(
    Union[tuple(_BY_STRUCT)],  # noqa: UP007 - they are made above
    ext_hook=extension,
)
