"""A network of sites in one process, its peers wired directly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from cosend.alone import NETWORK, one_at_a_time
from cosend.core.checks import as_list, check_kind, check_unit, check_whole
from cosend.core.missing import is_missing
from cosend.errors import NetworkError, SettledDecision
from cosend.reports.small_tables import SmallTable
from cosend.site.messages import Decision
from cosend.site.site import Site
from cosend.site.summary import network_table
from cosend.stores.bundle import load_states, save_states

CallCost = float | Mapping[str, float] | Mapping[tuple[str, str], float]
END: Final = object()  # of a stream; None may be a row by mistake


class Turn(NamedTuple):
    """One item of a stream, decided."""

    site: str
    decision: Decision
    truth: Any


class Playing(Protocol):
    """What is played: a site, in this process or in another."""

    def classify(self, item: Any) -> Decision:
        """Label an item."""
        ...

    def waits(self, decision: int) -> bool:
        """Tell whether a decision waits for its label."""
        ...

    def learn(self, decision: int, truth: Any) -> None:
        """Learn the true label of an item; when it returns, peers have learnt it too."""
        ...


def knows(site: Site, peer: Site) -> bool:
    """Tell whether a site has a peer already."""
    return peer.name in site.learner.arms.peers and site.peers.get(peer.name) is peer


class Network:
    """Sites that are each other's peers.

    call_cost  what calling a peer costs in [0, 1]: one number, or by peer, or by (caller, peer)

    Several threads may use it and its sites: they take turns.

    >>> from cosend import Context, Network, Site
    >>> age = Context("age", range=(0, 100))
    >>> wrong = Site("north", classifiers={"zero": lambda visit: 0}, context=age)
    >>> right = Site("south", classifiers={"one": lambda visit: 1}, context=age)
    >>> network = Network([wrong, right], call_cost=0.05)
    >>> turns = list(network.run({"north": [({"age": 40}, 1)] * 20}))
    >>> turns[-1].decision.arm
    'south'
    """

    def __init__(self, sites: Iterable[Site], *, call_cost: CallCost = 0.0) -> None:
        self.alone = NETWORK
        self.sites: dict[str, Site] = {}
        self.call_cost = call_cost
        joining = as_list("the sites of a network", sites, "a list of Sites")
        for site in joining:
            check_kind("a site of a network", site, Site, "a Site")
        if not joining:
            raise NetworkError("a network needs at least one site")
        for cost in call_cost.values() if isinstance(call_cost, Mapping) else [call_cost]:
            check_unit("call_cost", cost, "calling a peer")
        self._check_cost_names([site.name for site in joining])
        for n, site in enumerate(joining):
            self._check(site, joining[:n])
        for site in joining:
            self.add(site)

    def __repr__(self) -> str:
        return f"<Network of {', '.join(self.sites)}>"

    def _repr_html_(self) -> str:
        return self.summary().html()

    @one_at_a_time
    def summary(self) -> SmallTable:
        """Return how its sites have fared since they were built or loaded, as a table that can be printed."""
        return network_table(self.sites.values())

    @one_at_a_time
    def add(self, site: Site) -> None:
        """Let a site join; it and all others become peers.

        Ctrl-C leaves every site whole; called again, this does what is left of it, and so does `remove`.
        """
        check_kind("a site of a network", site, Site, "a Site")
        self._check(site, list(self.sites.values()))
        costs = {other: (self._cost(other, site.name), self._cost(site.name, other)) for other in self.sites}
        for name, other in self.sites.items():
            to_new, to_other = costs[name]
            if not knows(other, site):
                other.add_peer(site.name, site, to_new, functions=len(site.classifiers))
            if not knows(site, other):
                site.add_peer(name, other, to_other, functions=len(other.classifiers))
        self.sites[site.name] = site

    @one_at_a_time
    def remove(self, name: str) -> None:
        """Let a site leave; the others forget it, and it forgets them."""
        if name not in self.sites:
            raise NetworkError(f"the network has no site {name!r}: it has {', '.join(self.sites)}")
        site = self.sites[name]
        for other in self.sites.values():
            if name in other.learner.arms.peers:
                other.remove(name)
            if other.name in site.learner.arms.peers:
                site.remove(other.name)
        del self.sites[name]

    def run(self, streams: Mapping[str, Iterable[tuple[Any, Any]]], *, label_delay: int = 1) -> Iterator[Turn]:
        """Play streams of (item, truth), one item at every site in turn, until all have ended.

        A truth that is None, NaN, NaT or `pd.NA` is not known: the item is decided, and its label never comes.

        label_delay  how many turns later a label is known: 0 is at once, 1 before the next turn
        """
        check_whole("label_delay", label_delay, least=0)
        check_kind("streams", streams, Mapping, "a mapping from sites to streams of (item, truth)")
        strangers = [name for name in streams if name not in self.sites]
        if strangers:
            raise NetworkError(f"there is a stream for {strangers[0]!r}, which is not a site of the network")
        for name, stream in streams.items():
            if not isinstance(stream, Iterable):
                raise NetworkError(f"the stream of site {name!r} must be rows (item, truth), got {stream!r}")
        return played(self.sites, {name: iter(stream) for name, stream in streams.items()}, label_delay)

    @one_at_a_time
    def save(self, folder: str | Path) -> None:
        """Save what all sites know, as one whole; classifiers are not saved.

        Whenever it is stopped, the folder holds this save or the one before.
        """
        save_states({name: site.state() for name, site in self.sites.items()}, folder)

    @one_at_a_time
    def load(self, folder: str | Path) -> None:
        """Go on from what `save` has written for sites of the same names, classifiers and contexts.

        What was saved (costs, policy, patience, seed) wins over what the sites were built with.
        """
        states = load_states(self.sites, folder)
        restored = {name: self.sites[name].restore(states[name]) for name in self.sites}
        for commit in restored.values():
            commit()

    def _check(self, site: Site, others: Sequence[Site]) -> None:
        """Raise unless a site fits the others; nothing is wired before all of them do."""
        for other in others:
            if other.name == site.name:
                raise NetworkError(f"two sites have the name {site.name!r}: names must differ")
            for one, two in ((site, other), (other, site)):
                if one.name in two.learner.arms.names and not knows(two, one):
                    raise NetworkError(f"site {two.name!r} has an arm {one.name!r} already, the name of another site")
            self._cost(site.name, other.name)
            self._cost(other.name, site.name)

    def _check_cost_names(self, sites: Sequence[str]) -> None:
        names = self.call_cost if isinstance(self.call_cost, Mapping) else ()
        for name in names:
            pair = name if isinstance(name, tuple) and len(name) == 2 else (name, name)
            if not all(each in sites for each in pair):
                has = ", ".join(sites)
                raise NetworkError(
                    f"call_cost has a cost for {name!r}, which is neither a site nor a pair of sites: there are {has}"
                )

    def _cost(self, caller: str, peer: str) -> float:
        cost: Any = self.call_cost
        if isinstance(cost, Mapping):
            pairs: Mapping[Any, float] = cost
            if (caller, peer) not in pairs and peer not in pairs:
                raise NetworkError(f"call_cost has no cost for {caller!r} calling {peer!r}")
            cost = pairs.get((caller, peer), pairs.get(peer))
        return float(cost)


def played(sites: Mapping[str, Playing], streams: dict[str, Iterator[Any]], label_delay: int) -> Iterator[Turn]:
    """Play streams of (item, truth) at sites that may join and leave meanwhile, as `Network.run` does."""
    known_later: deque[tuple[int, Turn]] = deque()
    turn = 0
    while streams:
        while known_later and known_later[0][0] <= turn:
            _tell(sites, known_later.popleft()[1])
        for name in list(streams):
            site = sites.get(name)
            row = END if site is None else next(streams[name], END)
            if site is None or row is END:  # the site has left, or the stream has ended
                del streams[name]
                continue
            item, truth = _pair(name, turn + 1, row)
            turn_ = Turn(name, site.classify(item), truth)
            if label_delay == 0:
                _tell(sites, turn_)
            else:
                known_later.append((turn + label_delay, turn_))
            yield turn_
        turn += 1
    for _, turn_ in known_later:
        _tell(sites, turn_)


def _tell(sites: Mapping[str, Playing], turn_: Turn) -> None:
    site = None if is_missing(turn_.truth) else sites.get(turn_.site)  # a label that is missing never comes
    if site is not None and site.waits(turn_.decision.id):  # else the site left, or waits no longer
        with suppress(SettledDecision):  # in between, another thread may have let an arm leave
            site.learn(turn_.decision.id, turn_.truth)


def _pair(site: str, number: int, row: Any) -> tuple[Any, Any]:
    """Return a row of a stream as (item, truth); what has no order, or is text, is no pair even if it has two parts."""
    try:
        if not isinstance(row, str | bytes | Mapping | Set):
            item, truth = row
            return item, truth
    except (TypeError, ValueError):
        pass
    raise NetworkError(f"row {number} of the stream of site {site!r} must be a pair (item, truth), got {row!r}")
