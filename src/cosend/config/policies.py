"""The policy of a network: a name, the options beside it, and for what goes around another policy, that policy.

    [policy]                    [policy]
    name = "ZoomingKLUCB"       name = "ChangeAware"
    lipschitz = 5               rising = true
                                [policy.policy]
                                name = "CellKLUCB"

Without a table every site decides as it does unless it is told, by MixedViews.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Final

from cosend.config.parts import perhaps
from cosend.core.policy.parts import EqualCells, Policy
from cosend.core.policy.policies import POLICIES, ContextSelection, Wrapper, ZoomingKLUCB
from cosend.errors import SettingError, shown

Options = Mapping[str, Any]
UNKNOWN: Final = "unknown"  # as the horizon: it is guessed, and the guess doubles
INSIDE: Final = "policy"
BY_NAME: Final = {name.lower(): kind for name, kind in POLICIES.items()}  # people write names in any case
DEEPEST: Final = 5  # policies around each other


def build_policy(options: Options, horizon: int | None) -> Policy:
    """Return the policy that options without mistakes stand for.

    `horizon` is the number of items at a site, None if that is not known. Policies of equal cells, and those with time
    as an axis, get it unless the file gives another one.
    """
    kind = BY_NAME[options["name"].lower()]
    given = {name: value for name, value in options.items() if name != "name"}
    if issubclass(kind, Wrapper):
        if INSIDE in given:
            given[INSIDE] = build_policy(given[INSIDE], horizon)
    elif issubclass(kind, EqualCells) or given.get("time_dimension"):
        given.setdefault("horizon", horizon)
    if given.get("horizon") == UNKNOWN:
        given["horizon"] = None
    return kind(**given)


def wants_horizon(options: Options) -> bool:
    """Tell whether a policy depends on the number of items at a site, and the file does not name it."""
    kind = BY_NAME[options["name"].lower()]
    if issubclass(kind, Wrapper):
        return INSIDE in options and wants_horizon(options[INSIDE])
    return "horizon" not in options and (issubclass(kind, EqualCells) or bool(options.get("time_dimension")))


def policy_mistakes(options: Any, key: str = "policy", depth: int = 1) -> Iterator[str]:
    """Yield what is wrong with the options of a policy, each with its key."""
    if not isinstance(options, Mapping):
        yield f"{key}: must be a table of options, got {shown(options)}"
        return
    if "name" not in options:
        yield f"{key}.name: a policy needs its name, one of {', '.join(POLICIES)}"
        return
    name = options["name"]
    kind = BY_NAME.get(name.lower()) if isinstance(name, str) else None
    if kind is None:
        yield f"{key}.name: must be one of {', '.join(POLICIES)}, got {shown(name)}{perhaps(name, list(POLICIES))}"
        return
    found = [*_option_mistakes(kind, options, key), *_mistakes_inside(kind, options, key, depth)]
    yield from found
    if not found:
        try:
            build_policy(options, 1)
        except SettingError as error:
            yield f"{key}: {error}"


def _option_mistakes(kind: type[Policy], options: Options, key: str) -> Iterator[str]:
    """Yield the options that do not exist or have a value that is not allowed."""
    allowed = [option for option in signature(kind).parameters if option != INSIDE]
    for option, value in options.items():
        if option in ("name", INSIDE) and (option == "name" or issubclass(kind, Wrapper)):
            continue
        if option not in allowed:
            there = f"{kind.__name__} has {', '.join(allowed)}"
            yield f"{key}.{option}: no such option{perhaps(option, allowed)}; {there}"
            continue
        try:
            _try_option(kind, option, value)
        except SettingError as error:
            yield f"{key}.{option}: {error}"


def _try_option(kind: type[Policy], option: str, value: Any) -> None:
    """Raise unless the policy takes this option, whatever the others are."""
    if issubclass(kind, Wrapper):
        kind(ZoomingKLUCB(), **{option: value})
    elif (option, value) != ("horizon", UNKNOWN):
        known = {"horizon": 1} if "horizon" in signature(kind).parameters else {}
        kind(**{**known, option: value})


def _mistakes_inside(kind: type[Policy], options: Options, key: str, depth: int) -> Iterator[str]:
    """Yield what is wrong with the policy that this one goes around."""
    if not issubclass(kind, Wrapper):
        return
    if INSIDE in options:
        if depth == DEEPEST:
            yield f"{key}.{INSIDE}: more than {DEEPEST} policies around each other"
        else:
            yield from policy_mistakes(options[INSIDE], f"{key}.{INSIDE}", depth + 1)
    elif kind is not ContextSelection:
        yield f"{key}.{INSIDE}: {kind.__name__} goes around another policy: name it in a table [{key}.{INSIDE}]"


def name_of(policy: Policy) -> str:
    """Return what a policy is called in tables: ChangeAware(CoS) if it goes around another one."""
    name = type(policy).__name__
    if not isinstance(policy, Wrapper) or (
        isinstance(policy, ContextSelection) and type(policy.policy) is ZoomingKLUCB
    ):
        return name
    return f"{name}({name_of(policy.policy)})"


def inside_of(policy: Policy) -> Policy:
    """Return the policy that others go around."""
    while isinstance(policy, Wrapper):
        policy = policy.policy
    return policy
