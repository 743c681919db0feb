"""Events of a site: the one vocabulary for log, verification and export, and how it is written as bytes.

There is one event for each transition of a batch, not one for each item. Events say what was decided, not why, so a log
stays readable when a rule changes: `fold` applies them, `verify` re-evaluates. Consequences of other events are
not logged, for example which labels have expired. docs/contributing/0002-events.md has the reasons.

    encoded event = version byte | msgpack [tag of the kind, field, field, ...]

A tag is never given to another kind, and a new field is the last of its event and has a default. Ids mostly follow each
other, so their differences are written: one byte each instead of five. Labels, items and values of categories are the
user's and come back as they were: a tuple is not a list, and 1 is neither 1.0 nor True.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from operator import sub
from types import NoneType
from typing import Any, Final, TypeAlias, get_args

import msgspec
import numpy as np
from msgspec.structs import replace

from cosend.errors import StateError, shown

VERSION: Final = 2  # of the vocabulary and of its encoding

Told: TypeAlias = dict[str, tuple[int, int]]  # by peer: its own arrivals, and the labels it was taught
Contexts: TypeAlias = tuple[tuple[Any, ...], ...]  # a number in [0, 1] for each axis, or the value of a category
Column: TypeAlias = tuple[Any, ...]  # a label or item of the user's for each id


class _Event(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Started(_Event, tag=1, frozen=True):
    """A site was created, with nothing learnt yet."""

    version: int
    software: str
    site: str
    seed: int
    policy: dict[str, Any]
    patience: dict[str, Any]
    axes: tuple[str, ...]  # their descriptions
    categories: tuple[int, ...]  # the axes that are categories
    ranked: dict[int, int]  # by axis that is a rank: among how many values
    local: dict[str, float]  # models and their costs
    score_local: str = "used"  # all: labels score every local model that costs nothing
    features: bool = False  # the last axis stands for every feature of the items
    learnt: dict[str, str] = {}  # the local models that the site learns itself, and what each is: "grown" or "stack"
    fits_at_once: bool = True  # trees are in force with the label that made a fit due, and not when it is `Fitted`
    heard: dict[int, str] = {}  # by axis that is an opinion: the local model whose opinion it is


class Encoded(_Event, tag=2, frozen=True):
    """Items were placed on axes that depend on earlier items."""

    values: dict[int, tuple[float, ...]]  # by axis that is a rank: the raw values
    codes: dict[int, Column]  # by axis that is a category: values that had not come before


class Chosen(_Event, tag=3, frozen=True):
    """Items got their arms; the ids are first, first + 1, ... An arm that has an opinion has answered with it."""

    first: int
    contexts: Contexts
    arms: tuple[str, ...]
    kinds: tuple[int, ...]  # 1 train, 2 explore, 3 exploit
    propensities: tuple[float, ...]
    cells: tuple[int, ...]
    told: Told = {}  # reports of peers about the first item
    without: tuple[str, ...] = ()  # arms that could not be chosen
    again: tuple[int, ...] = ()  # for items whose arm has failed: the numbers of their arrivals; else empty
    costs: dict[str, float] = {}  # of the chosen arms that cost something
    opinions: dict[str, Column] = {}  # by local model: what it says about each item, None where it says nothing
    items: Column = ()  # for models that learn: the item, or None; else empty
    sure: dict[str, bytes] = {}  # by local model: how sure it is, as floats of 32 bits; not a number where unknown
    seen: tuple[bytes, ...] = ()  # what learnt arms see of each item; empty if there is none
    clock: float | None = None  # when, in seconds, if a budget goes by time
    factors: tuple[float, ...] = ()  # by what a budget has raised the costs in money for each item; empty without one


class Asked(_Event, tag=4, frozen=True):
    """An item had to wait until a peer was asked how much labelled data it has."""

    peer: str
    context: tuple[Any, ...]
    told: Told = {}  # by the peers that were asked before
    without: tuple[str, ...] = ()
    again: int = 0


class Answered(_Event, tag=5, frozen=True):
    """Arms have labelled items after the choice: decisions of the site, or answers for a peer.

    Also of arms that had an opinion, if they say what it cost.
    """

    ids: tuple[int, ...]
    labels: Column
    paid: tuple[float, ...] = ()  # what the answers cost; not a number where they do not say, empty if none does


class Opined(_Event, tag=6, frozen=True):
    """A local model gave its opinion after the choice was made."""

    model: str
    ids: tuple[int, ...]
    labels: Column


class Failed(_Event, tag=7, frozen=True):
    """An arm has failed; these choices no longer count. No ids: it failed before anything was chosen."""

    ids: tuple[int, ...]
    arm: str
    reason: str


class Served(_Event, tag=8, frozen=True):
    """Local models were chosen to answer a peer that will pass the labels on; the ids are first, first + 1, ..."""

    caller: str
    requests: tuple[int, ...]
    first: int
    contexts: Contexts
    models: tuple[str, ...]
    training: tuple[bool, ...]
    without: tuple[str, ...] = ()
    opinions: dict[str, Column] = {}  # as in Chosen
    items: Column = ()
    sure: dict[str, bytes] = {}


class Labelled(_Event, tag=9, frozen=True):
    """True labels of the site's own decisions arrived, or scores: these have a gain, and None instead of a label."""

    ids: tuple[int, ...]
    truths: Column
    gains: tuple[float, ...]  # of the arms; not a number where no arm had an answer
    costs: tuple[float | None, ...] = ()  # what they really cost, where that is known; empty if nowhere
    scores: dict[str, tuple[float, ...]] = {}  # by local model: what else is known to gain; not a number elsewhere


class Taught(_Event, tag=10, frozen=True):
    """A peer has forwarded the true labels, or scores, of items that were answered for it."""

    caller: str
    requests: tuple[int, ...]
    truths: Column
    gains: tuple[float, ...]
    scores: dict[str, tuple[float, ...]] = {}  # as in Labelled


class Withdrawn(_Event, tag=11, frozen=True):
    """No labels will arrive for these: decisions that were cancelled, or answers that their caller withdrew."""

    ids: tuple[int, ...]


class PeerTold(_Event, tag=12, frozen=True):
    """A peer has taken the first `count` forwards that were queued for it."""

    peer: str
    count: int


class ArmAdded(_Event, tag=13, frozen=True):
    """A local model, or a peer that announces `functions` models, has joined."""

    arm: str
    cost: float
    functions: int = 0  # of a peer; 0 for a local model
    learnt: str = ""  # the kind, if the site learns it itself: "grown" or "stack"


class ArmRemoved(_Event, tag=14, frozen=True):
    """An arm has left, and decisions pending for it are dropped."""

    arm: str


class ArmPaused(_Event, tag=15, frozen=True):
    """An arm cannot be used now; what was learnt about it is kept."""

    arm: str


class ArmResumed(_Event, tag=16, frozen=True):
    """An arm can be used again."""

    arm: str


class CostChanged(_Event, tag=17, frozen=True):
    """Using an arm has another cost from now on."""

    arm: str
    cost: float


class FeaturesSeen(_Event, tag=18, frozen=True):
    """Items came with features that have no axis yet."""

    values: dict[str, Column]  # by feature: its values, None where it is missing
    own: bool = True  # items of the site itself; else of a peer


class AxesCreated(_Event, tag=19, frozen=True):
    """Axes were created for these features, in this order, after the axes that exist."""

    names: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]  # at which each is cut
    repeats: tuple[bool, ...]  # whether its values repeat
    values: tuple[Column, ...]  # of a text or truth value, in the order of their codes
    out: tuple[str, ...] = ()  # features that get no axis
    same: tuple[str, ...] = ()  # features that get none while they do not change
    of: tuple[str, ...] = ()  # the number of a text, or direction of a vector, that each is; "" for a feature itself
    weights: tuple[tuple[float, ...], ...] = ()  # of the numbers of a vector, for each; empty if none is one

    @property
    def made_of(self) -> tuple[str, ...]:
        return self.of or ("",) * len(self.names)

    @property
    def weighted(self) -> tuple[tuple[float, ...], ...]:
        return self.weights or ((),) * len(self.names)


class Named(_Event, tag=20, frozen=True):
    """Clients gave their ids to decisions."""

    ids: tuple[int, ...]
    names: tuple[str, ...]


class Shown(_Event, tag=21, frozen=True):
    """Clients were shown labels other than the pending ones: the shadow model's, or of decisions that had expired."""

    ids: tuple[int, ...]
    labels: Column
    model: str = ""  # whose labels these are, if not the arms'


class ModeChanged(_Event, tag=22, frozen=True):
    """Decisions are applied from now on, or only observed while a model answers (shadow mode)."""

    mode: str  # apply or observe
    model: str = ""  # that answers while decisions are only observed


class Fitted(_Event, tag=23, frozen=True):
    """The trees whose fit had begun are in force."""

    count: int  # labels that had come when the fit began


class BudgetSet(_Event, tag=24, frozen=True):
    """The budget from now on, in costs per item, per hour, per day and in total; without any, there is no budget."""

    per_item: float | None = None
    per_hour: float | None = None
    per_day: float | None = None
    calls: dict[str, dict[str, float]] = {}  # by arm: the same in calls of it
    at_most_per_second: dict[str, float] = {}  # by arm: how often it may be used
    total: float | None = None


Event: TypeAlias = (
    Started
    | Encoded
    | Chosen
    | Asked
    | Answered
    | Opined
    | Failed
    | Served
    | Labelled
    | Taught
    | Withdrawn
    | PeerTold
    | ArmAdded
    | ArmRemoved
    | ArmPaused
    | ArmResumed
    | CostChanged
    | FeaturesSeen
    | AxesCreated
    | Named
    | Shown
    | ModeChanged
    | Fitted
    | BudgetSet
)
KINDS: Final = get_args(Event)
Journal: TypeAlias = Callable[[Any], object]  # takes every event: `list.append`, for example


# The user's values as msgpack

SCALARS: Final = frozenset((NoneType, bool, int, float, str, bytes))
DEEPEST: Final = 32  # levels of a label or item
TUPLE: Final = 1  # the code of msgpack's extension for a tuple inside a label or item
ALLOWED: Final = (
    f"None, True, False, numbers of at most 64 bits, text, bytes, and lists, tuples and dicts of them, "
    f"at most {DEEPEST} levels deep"
)


class Unfit(Exception):
    """A value that msgpack cannot carry."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{shown(value)} is a {type(value).__name__}; allowed are {ALLOWED}")


def plain(value: Any, levels: int = DEEPEST) -> Any:
    """Return a value of the user's in the form in which msgpack carries it; raises `Unfit` if it has none."""
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


def plain_column(column: Sequence[Any]) -> Any:
    """Return values of the user's fit for msgpack: all of them at once where they are scalars, or features by name."""
    kinds = set(map(type, column))
    if kinds <= SCALARS:
        return column
    if kinds == {dict}:
        names, values = set().union(*column), chain.from_iterable(map(dict.values, column))
        if SCALARS.issuperset(map(type, names)) and SCALARS.issuperset(map(type, values)):
            return column
    return [plain(value) for value in column]


def extension(code: int, data: memoryview) -> tuple[Any, ...]:
    """Return the tuple that an extension of msgpack stands for: the hook of a decoder."""
    if code != TUPLE:
        raise ValueError(f"it has the unknown extension {code}")
    return tuple(_LIST.decode(data))


ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=plain)
_LIST: Final = msgspec.msgpack.Decoder(list[Any], ext_hook=extension)
_DECODER: Final = msgspec.msgpack.Decoder(Event, ext_hook=extension)
_PREFIX: Final = bytes([VERSION])
_BY_ID: Final = ("ids", "requests")  # fields of which the differences are written


def _plain_columns(columns: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: plain_column(column) for name, column in columns.items()}


def _plain_each(columns: Sequence[Column]) -> Sequence[Any]:
    if SCALARS.issuperset(map(type, chain.from_iterable(columns))):  # as contexts mostly are
        return columns
    return [plain_column(column) for column in columns]


def _differences(ids: Sequence[int]) -> list[int]:
    return [*map(sub, ids, chain((0,), ids))]


_PREPARE: Final[dict[Any, Callable[[Any], Any]]] = {
    Column: plain_column,
    dict[str, Column]: _plain_columns,
    dict[int, Column]: _plain_columns,
    tuple[Column, ...]: _plain_each,
}


def _prepared_fields(kind: type[Any]) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the fields of an event that are not written as they are, each with what makes it fit for msgpack."""
    found = [(field.name, _PREPARE.get(field.type)) for field in msgspec.structs.fields(kind)]
    prepared = [(name, prepare) for name, prepare in found if prepare is not None]
    return prepared + [(name, _differences) for name in kind.__struct_fields__ if name in _BY_ID]


_FIELDS: Final = {kind: _prepared_fields(kind) for kind in KINDS}
_ID_FIELDS: Final = {kind: [name for name in kind.__struct_fields__ if name in _BY_ID] for kind in KINDS}


def encode(event: Event) -> bytes:
    """Return an event as bytes; raises StateError if msgpack cannot carry it."""
    fields = _FIELDS.get(type(event))
    if fields is None:
        raise StateError(f"{shown(event)} is not an event and cannot be logged")
    changes = {}
    try:
        for name, prepare in fields:
            value = getattr(event, name)
            if value and (fit := prepare(value)) is not value:
                changes[name] = fit
        return _PREFIX + ENCODER.encode(replace(event, **changes) if changes else event)
    except (Unfit, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise StateError(f"{type(event).__name__} cannot be logged: {error}") from error


def decode(data: bytes) -> Event:
    """Return the event that was encoded; raises StateError if the bytes are not an event."""
    if data[:1] != _PREFIX:
        found = f"version {data[0]}" if data else "no version"
        raise StateError(f"the bytes of an event have {found} of the encoding; this cosend reads version {VERSION}")
    try:
        event = _DECODER.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise StateError(f"the bytes are not an event: {error}") from error
    ids = {name: tuple(accumulate(getattr(event, name))) for name in _ID_FIELDS[type(event)]}
    whole: Event = replace(event, **ids) if ids else event
    return whole
