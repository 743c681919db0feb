"""What a site may be made of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cosend.classifiers.vote import Vote
from cosend.core.checks import check_kind
from cosend.errors import ArmError, SettingError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_models(site: Any, classifiers: Any, costs: Any) -> None:
    """Raise unless a site may have this name, these classifiers and these costs of them."""
    if not isinstance(site, str) or not NAME.fullmatch(site):
        allowed = "letters, digits, '_', '.' or '-', starting with a letter or digit"
        raise SettingError("the name of a site", site, allowed)
    check_kind(f"the classifiers of site {site!r}", classifiers, Mapping, "a mapping from names to models")
    check_kind(f"the costs of site {site!r}", costs, Mapping, "a mapping from classifiers to costs")
    if classifiers and all(isinstance(model, Vote) for model in classifiers.values()):
        raise ArmError(f"site {site!r} has votes, and no other classifier that they could combine")
    for name, model in classifiers.items():
        check_vote(site, name, model, classifiers)
    unknown = [arm for arm in costs if arm not in classifiers]
    if unknown:
        raise ArmError(f"site {site!r} has a cost for {unknown[0]!r}, which is not one of its classifiers")


def check_vote(site: str, name: str, model: Any, classifiers: Mapping[str, Any]) -> None:
    """Raise if this is a vote over what is not among the classifiers of its site; one that leaves later may be."""
    if isinstance(model, Vote) and (wrong := wrong_voter(model.over, voters_among(classifiers))):
        raise ArmError(f"vote {name!r} of site {site!r}: {wrong}")


def voters_among(classifiers: Mapping[str, Any]) -> list[str]:
    """Return the names of the classifiers that a vote can combine."""
    return [name for name, model in classifiers.items() if not isinstance(model, Vote)]


def wrong_voter(over: Sequence[str] | None, voters: Sequence[str]) -> str | None:
    """Say what is wrong with the names that a vote is over; None if nothing is."""
    wrong = [name for name in over or () if name not in voters]
    return f"over names {wrong[0]!r}, and what a vote can combine here is {', '.join(voters)}" if wrong else None
