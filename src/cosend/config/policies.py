"""The policy of a network: a name, and options.

    [policy]
    name = "ZoomingKLUCB"
    lipschitz = 5

Without a table every site decides as it does unless it is told, by MixedViews.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Final

from cosend.config.parts import perhaps
from cosend.core.policy.parts import EqualCells, Policy
from cosend.core.policy.policies import POLICIES
from cosend.errors import SettingError, shown

Options = Mapping[str, Any]
UNKNOWN: Final = "unknown"  # as the horizon: it is guessed, and the guess doubles
BY_NAME: Final = {name.lower(): kind for name, kind in POLICIES.items()}  # people write names in any case


def build_policy(options: Options, horizon: int | None) -> Policy:
    """Return the policy that options without mistakes stand for.

    `horizon` is the number of items at a site, None if that is not known. Policies of equal cells, and those with time
    as an axis, get it unless the file gives another one.
    """
    kind = BY_NAME[options["name"].lower()]
    given = {name: value for name, value in options.items() if name != "name"}
    if issubclass(kind, EqualCells) or given.get("time_dimension"):
        given.setdefault("horizon", horizon)
    if given.get("horizon") == UNKNOWN:
        given["horizon"] = None
    return kind(**given)


def wants_horizon(options: Options) -> bool:
    """Tell whether a policy depends on the number of items at a site, and the file does not name it."""
    kind = BY_NAME[options["name"].lower()]
    return "horizon" not in options and (issubclass(kind, EqualCells) or bool(options.get("time_dimension")))


def policy_mistakes(options: Any) -> Iterator[str]:
    """Yield what is wrong with the options of a policy, each with its key."""
    if not isinstance(options, Mapping):
        yield f"policy: must be a table of options, got {shown(options)}"
        return
    if "name" not in options:
        yield f"policy.name: a policy needs its name, one of {', '.join(POLICIES)}"
        return
    name = options["name"]
    kind = BY_NAME.get(name.lower()) if isinstance(name, str) else None
    if kind is None:
        yield f"policy.name: must be one of {', '.join(POLICIES)}, got {shown(name)}{perhaps(name, list(POLICIES))}"
        return
    found = list(_option_mistakes(kind, options))
    yield from found
    if not found:
        try:
            build_policy(options, 1)
        except SettingError as error:
            yield f"policy: {error}"


def _option_mistakes(kind: type[Policy], options: Options) -> Iterator[str]:
    """Yield the options that do not exist or have a value that is not allowed."""
    allowed = [*signature(kind).parameters]
    for option, value in options.items():
        if option == "name":
            continue
        if option not in allowed:
            there = f"{kind.__name__} has {', '.join(allowed)}"
            yield f"policy.{option}: no such option{perhaps(option, allowed)}; {there}"
            continue
        try:
            _try_option(kind, option, value)
        except SettingError as error:
            yield f"policy.{option}: {error}"


def _try_option(kind: type[Policy], option: str, value: Any) -> None:
    """Raise unless the policy takes this option, whatever the others are."""
    if (option, value) != ("horizon", UNKNOWN):
        known = {"horizon": 1} if "horizon" in signature(kind).parameters else {}
        kind(**{**known, option: value})


def name_of(policy: Policy) -> str:
    """Return what a policy is called in tables."""
    return type(policy).__name__
