"""The arms of a site: its local models and its peers, with their costs, in the order of the ledger's columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cosend.algorithm.layout import MOST, OUT
from cosend.checks import check_kind, check_unit, check_whole
from cosend.errors import ArmError, SettingError


class Arms:
    """Local models first, then peers; each in the order it joined."""

    def __init__(
        self, site: str, own: Mapping[str, float], peers: Mapping[str, float], improving: Collection[str] = ()
    ) -> None:
        for what, arms in (("own", own), ("peers", peers)):
            check_kind(f"{what} of site {site!r}", arms, Mapping, "a mapping from names to costs")
        self.site = site
        self.own: dict[str, float] = {}
        self.peers: dict[str, float] = {}
        self.functions: dict[str, int] = {}  # how many models each peer announces
        self.paused: set[str] = set()
        self.improving: set[str] = set()  # local models that learn: how right they were long ago says little
        self.names: tuple[str, ...] = ()
        self.costs: tuple[float, ...] = ()
        if not own:
            raise ArmError(f"site {site!r} has no classifier: it needs at least one")
        for name, cost in own.items():
            self.add_own(name, cost, improves=name in improving)
        for name, cost in peers.items():
            self.add_peer(name, cost)

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise ArmError(f"site {self.site!r} has no arm {name!r}: it has {', '.join(self.names)}") from None

    def effective_costs(self) -> list[float]:
        """Return the costs as the rules see them: an arm that is paused loses every comparison."""
        return [OUT if name in self.paused else cost for name, cost in zip(self.names, self.costs, strict=True)]

    def announced_functions(self) -> int:
        """Return the largest number of models that a peer has announced, the paper's F_max."""
        return max(self.functions.values(), default=1)

    def add_own(self, name: str, cost: float, *, improves: bool = False) -> int:
        self.check_new(name, cost)
        self.own[name] = float(cost)
        if improves:
            self.improving.add(name)
        self._in_order()
        return self.names.index(name)

    def add_peer(self, name: str, cost: float, functions: int = 1) -> int:
        self.check_new(name, cost, functions)
        self.peers[name] = float(cost)
        self.functions[name] = functions
        self._in_order()
        return self.names.index(name)

    def remove(self, name: str) -> int:
        """Remove an arm and return the column it had."""
        if name in self.own and len(self.own) == 1:
            raise ArmError(f"{name!r} is the last classifier of site {self.site!r} and cannot be removed")
        number = self.number(name)
        self.own.pop(name, None)
        self.peers.pop(name, None)
        self.functions.pop(name, None)
        self.paused.discard(name)
        self.improving.discard(name)
        self._in_order()
        return number

    def set_cost(self, name: str, cost: float) -> int:
        """Change what using an arm costs and return its column."""
        number = self.number(name)
        check_unit("cost", cost, f"arm {name!r} of site {self.site!r}")
        (self.own if name in self.own else self.peers)[name] = float(cost)
        self._in_order()
        return number

    def check_new(self, name: Any, cost: float, functions: int = 1) -> None:
        """Raise unless an arm of this name and cost may join; `functions` is how many models a peer announces."""
        if not isinstance(name, str) or not name:
            raise ArmError(f"an arm of site {self.site!r} must have a name, got {name!r}")
        if name == self.site:
            raise ArmError(f"site {name!r} cannot be its own arm: arms and sites need different names")
        if name in self.own or name in self.peers:
            raise ArmError(f"site {self.site!r} has an arm {name!r} already: names must differ")
        check_unit("cost", cost, f"arm {name!r} of site {self.site!r}")
        check_whole("functions", functions)
        if functions > MOST:
            raise SettingError("functions", functions, f"at most {MOST}")

    def _in_order(self) -> None:
        self.names, self.costs = (*self.own, *self.peers), (*self.own.values(), *self.peers.values())
