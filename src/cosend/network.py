"""A network of sites in one process, its peers wired directly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosend.alone import NETWORK, one_at_a_time
from cosend.checks import as_list, check_kind, check_unit, check_whole, is_missing
from cosend.engine.needs import Decision
from cosend.errors import NetworkError, SettledDecision
from cosend.site import Site
from cosend.store.state_file import load_states, save_states
from cosend.text import SmallTable

CallCost = float | Mapping[str, float]
END: Final = object()  # of a stream; a row may be None by mistake


class Turn(NamedTuple):
    """One item of a stream, decided."""

    site: str
    decision: Decision
    truth: Any


def knows(site: Site, peer: Site) -> bool:
    return peer.name in site.learner.arms.peers and site.peers.get(peer.name) is peer


class Network:
    """Sites that are each other's peers.

    call_cost  what calling a peer costs in [0, 1]: one number, or one for each peer

    Several threads may use it and its sites: they take turns.

    >>> from cosend import Network, Site, axes
    >>> age = axes.Feature("age", range=(0, 100))
    >>> wrong = Site("north", classifiers={"zero": lambda visit: 0}, context=age, learnt=False)
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
        """Return a table of what its sites have done since they were built or loaded."""
        heading = ("site", "classifiers", "items", "sent to peers", "labels pending", "mean reward")
        return SmallTable("network", heading, [_site_row(site) for site in self.sites.values()])

    @one_at_a_time
    def add(self, site: Site) -> None:
        """Let a site join; it and all others become peers.

        After a Ctrl-C every site is intact; call it again to complete it. The same holds for `remove`.
        """
        check_kind("a site of a network", site, Site, "a Site")
        self._check(site, list(self.sites.values()))
        for name, other in self.sites.items():
            if not knows(other, site):
                other.add_peer(site.name, site, self._cost(site.name), functions=len(site.learner.arms.own))
            if not knows(site, other):
                site.add_peer(name, other, self._cost(name), functions=len(other.learner.arms.own))
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

        A truth that is None, NaN, NaT or `pd.NA` is unknown: the item is decided, and its label never comes.

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
        return _run(self.sites, {name: iter(stream) for name, stream in streams.items()}, label_delay)

    @one_at_a_time
    def save(self, folder: str | Path) -> None:
        """Save what all sites know, atomically: the folder holds this save or the one before. Models are not saved."""
        save_states({name: site.state() for name, site in self.sites.items()}, folder)

    @one_at_a_time
    def load(self, folder: str | Path) -> None:
        """Continue from what `save` has written for sites of the same names, models and contexts.

        The saved costs, policy, patience and seed replace those that the sites were built with.
        """
        states = load_states(self.sites, folder)
        restored = {name: self.sites[name].restore(states[name]) for name in self.sites}
        for commit in restored.values():
            commit()

    def _check(self, site: Site, others: Sequence[Site]) -> None:
        """Raise unless a site fits the others; checked for all of them before any is connected."""
        for other in others:
            if other.name == site.name:
                raise NetworkError(f"two sites have the name {site.name!r}: names must differ")
            for one, two in ((site, other), (other, site)):
                if one.name in two.learner.arms.names and not knows(two, one):
                    raise NetworkError(f"site {two.name!r} has an arm {one.name!r} already, the name of another site")
            self._cost(site.name)
            self._cost(other.name)

    def _check_cost_names(self, sites: Sequence[str]) -> None:
        for name in self.call_cost if isinstance(self.call_cost, Mapping) else ():
            if name not in sites:
                raise NetworkError(
                    f"call_cost has a cost for {name!r}, which is not a site: there are {', '.join(sites)}"
                )

    def _cost(self, peer: str) -> float:
        if not isinstance(self.call_cost, Mapping):
            return float(self.call_cost)
        if peer not in self.call_cost:
            raise NetworkError(f"call_cost has no cost for calling {peer!r}")
        return float(self.call_cost[peer])


def _site_row(site: Site) -> list[str]:
    arms, counts, learner = site.learner.arms, site.engine.counts, site.learner
    sent, decisions = counts.decisions_of(arms.peers), sum(counts.decisions.values())
    reward = counts.mean_reward(counts.scores)
    return [
        site.name,
        str(len(arms.own)),
        f"{learner.arrivals:,}",
        f"{100 * sent / decisions:.0f}%" if decisions else "",
        f"{learner.pending_count:,}",
        "" if reward is None else f"{reward:.3f}",
    ]


def _run(sites: Mapping[str, Site], streams: dict[str, Iterator[Any]], label_delay: int) -> Iterator[Turn]:
    """Play streams at sites that may join and leave meanwhile."""
    later: deque[tuple[int, Turn]] = deque()  # (when the label is known, what was decided)
    now = 0
    while streams:
        while later and later[0][0] <= now:
            _deliver(sites, later.popleft()[1])
        for name in list(streams):
            site = sites.get(name)
            row = END if site is None else next(streams[name], END)
            if site is None or row is END:  # the site has left, or the stream has ended
                del streams[name]
                continue
            item, truth = _pair(name, now + 1, row)
            turn = Turn(name, site.classify(item), truth)
            if label_delay == 0:
                _deliver(sites, turn)
            else:
                later.append((now + label_delay, turn))
            yield turn
        now += 1
    for _, turn in later:
        _deliver(sites, turn)


def _deliver(sites: Mapping[str, Site], turn: Turn) -> None:
    site = None if is_missing(turn.truth) else sites.get(turn.site)
    if site is not None and site.is_pending(turn.decision.id):  # else the site has left, or the decision has expired
        with suppress(SettledDecision):  # another thread may have removed the arm just now
            site.learn(turn.decision.id, turn.truth)


def _pair(site: str, number: int, row: Any) -> tuple[Any, Any]:
    """Return a row as (item, truth); text and sets are refused even if they have two parts."""
    try:
        if not isinstance(row, str | bytes | Mapping | Set):
            item, truth = row
            return item, truth
    except (TypeError, ValueError):
        pass
    raise NetworkError(f"row {number} of the stream of site {site!r} must be a pair (item, truth), got {row!r}")
