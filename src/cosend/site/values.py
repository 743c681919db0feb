"""Values of the user's as msgpack, and back exactly: labels, items, values of categories.

They come back as they were: a tuple is no list, 1 is neither 1.0 nor True. Numbers of NumPy become Python's own.
The log (`site/wire.py`) and what travels between sites (`links/messages.py`) carry them alike.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, Final

import numpy as np

from cosend.errors import CosendError, install, shown

try:
    import msgspec
except ImportError as error:
    raise CosendError(f"events and messages as bytes need msgspec: {install('service')}") from error

SCALARS: Final = frozenset((NoneType, bool, int, float, str, bytes))
DEEPEST: Final = 32  # levels of a label or item
TUPLE: Final = 1  # the number of msgpack's extension for a tuple inside a label or item
ALLOWED: Final = (
    f"None, True, False, numbers of at most 64 bits, text, bytes, and lists, tuples and dicts of them, "
    f"at most {DEEPEST} levels deep"
)


class Unfit(Exception):
    """A value that msgpack cannot carry."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{shown(value)} is a {type(value).__name__}; allowed are {ALLOWED}")


def plain(value: Any, levels: int = DEEPEST) -> Any:
    """Return a value of the user's in the form in which msgpack carries it; raises `Unfit` if there is none."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if isinstance(value, np.generic):
        value = value.item()
        if type(value) in SCALARS:
            return value
    elif levels and kind is list:
        return value if SCALARS.issuperset(map(type, value)) else [plain(each, levels - 1) for each in value]
    elif levels and kind is tuple:
        return msgspec.msgpack.Ext(TUPLE, ENCODER.encode([plain(each, levels - 1) for each in value]))
    elif levels and kind is dict:
        if SCALARS.issuperset(map(type, value.values())) and SCALARS.issuperset(map(type, value)):
            return value  # most items are features by name
        return {_key(key): plain(each, levels - 1) for key, each in value.items()}
    raise Unfit(value)


def _key(key: Any) -> Any:
    if isinstance(key, tuple | list | dict):  # msgpack could not tell which of them it was
        raise Unfit(key)
    return plain(key, 0)


def extension(code: int, data: memoryview) -> tuple[Any, ...]:
    """Return the tuple that an extension of msgpack stands for: what a decoder of such values needs."""
    if code != TUPLE:
        raise ValueError(f"it has the unknown extension {code}")
    return tuple(_VALUES.decode(data))


ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=plain)
_VALUES: Final = msgspec.msgpack.Decoder(list[Any], ext_hook=extension)
_VALUE: Final = msgspec.msgpack.Decoder(ext_hook=extension)


def value_bytes(value: Any) -> bytes:
    """Return one value as bytes."""
    return ENCODER.encode(plain(value))


def read_value(data: bytes) -> Any:
    """Return the value that was made bytes."""
    return _VALUE.decode(data)
