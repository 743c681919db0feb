"""The peers of a running site: which of them are online, and which may be asked.

A peer is an arm from when the file names it, or from when it first appears if the site discovers peers. While it is
gone, no item is sent to it, and its statistics are kept for its return.
"""

from __future__ import annotations

import logging
from typing import Final

from cosend.engine.engine import Engine
from cosend.errors import CosendError
from cosend.runtime.posting import Posting
from cosend.runtime.site_setup import Setup
from cosend.transport.codec import Announcement
from cosend.transport.link import Change, Link

LOG: Final = logging.getLogger("cosend.runtime")
MOST_PEERS: Final = 256  # that are discovered: names cost nothing where anybody may announce one


class Peers:
    """The peers of a site; without a link, all of them are offline."""

    def __init__(self, setup: Setup, engine: Engine, link: Link | None, posting: Posting) -> None:
        self.setup, self.engine, self.state, self.link, self.posting = setup, engine, engine.state, link, posting
        self.refused: dict[str, str] = {}  # by name: why a site that is there may not be asked
        self._costs: dict[str, float] = {}  # by peer: what it said last that a call costs

    @property
    def offline(self) -> frozenset[str]:
        """The peers that cannot be asked now."""
        return self.engine.offline

    # The network file

    def follow_file(self) -> None:
        """Add and remove peers as the file says."""
        state, setup = self.state, self.setup
        known = state.learner.arms.peers
        for peer, (cost, functions) in setup.peers.items():
            if peer not in known:
                state.add_peer(peer, cost, functions)
        for peer in [peer for peer in known if peer not in setup.peers and not setup.discover and setup.peers]:
            self.remove(peer)
        self.look()

    def remove(self, peer: str) -> None:
        """Remove a peer; messages that wait for it are sent if it is there."""
        self.posting.say_goodbye(peer, self.engine.remove(peer))

    # News about peers

    def heard(self, change: Change) -> None:
        """Take note that something has changed: a peer, or the connection to all of them."""
        told = change.announcement
        if change.kind in ("connected", "disconnected"):
            LOG.info(f"{change.kind} {'to' if change.kind == 'connected' else 'from'} the network")
        elif told is not None:
            LOG.info(f"peer {change.kind}", extra={"peer": told.site, "version": told.version})
            if change.kind == "gone":
                self.refused.pop(told.site, None)  # names cost nothing: only those that are there are remembered
            elif change.kind == "appeared" and told.site in self.state.learner.arms.peers:
                self.engine.breakers.worked(told.site)  # what failed before need not fail now
        self.begin()

    def begin(self) -> None:
        """Find out which peers can be asked, and tell all of them what waits for them."""
        self.look()
        self.posting.deliver_all()

    def look(self) -> None:
        """Find out which peers can be asked."""
        there = {} if self.link is None or not self.link.connected else self.link.peers()
        for told in there.values():
            self._meet(told)
        known = self.state.learner.arms.peers
        self.engine.offline = frozenset(name for name in known if name not in there or name in self.refused)

    def _meet(self, told: Announcement) -> None:
        """Let a site that is there be asked, if it fits."""
        reason = self._misfit(told)
        if reason is None and told.site not in self.state.learner.arms.peers:
            reason = self._add(told)
        if reason is None:
            self.refused.pop(told.site, None)
            self._follow_cost(told)
        elif self.refused.get(told.site) != reason:
            self.refused[told.site] = reason
            LOG.warning("peer refused", extra={"peer": told.site, "reason": reason})

    def _add(self, told: Announcement) -> str | None:
        """Make a site a peer; returns why it cannot be one, and the others are not kept out by that."""
        try:
            self.state.add_peer(told.site, told.cost, max(1, told.functions))
        except CosendError as error:
            return str(error)
        return None

    def _follow_cost(self, told: Announcement) -> None:
        """Let a peer that was discovered cost what it says, when it says something else than before."""
        before = self._costs.get(told.site, told.cost)
        self._costs[told.site] = told.cost
        if before != told.cost and told.site not in self.setup.peers:
            self.state.set_cost(told.site, told.cost)

    def _misfit(self, told: Announcement) -> str | None:
        """Return why a site may not be asked, None if it may."""
        arms = self.state.learner.arms
        if told.site not in arms.peers:
            if not self.setup.discover:
                return "it is not a site of the network file, and peers are not discovered"
            if told.site in arms.own:
                return "it has the name of a local classifier"
            if len(arms.peers) >= MOST_PEERS:
                return f"there are {MOST_PEERS} peers already"
        return None
