"""Arms that are paused, left out, silent or resumed, drawn for a network of learners and twins."""

from __future__ import annotations

from tests.oracle.networks import Network


def free(network: Network, site: str, failed: frozenset[str] = frozenset()) -> list[str]:
    """Return the arms of a site that are neither paused nor among those that have failed."""
    arms = network.learners[site].arms
    return [name for name in arms.names if name not in arms.paused and name not in failed]


def is_left(network: Network, site: str, failed: frozenset[str] = frozenset()) -> bool:
    """Tell whether there is an arm that may be chosen."""
    return bool(free(network, site, failed))


def some_out(network: Network, site: str, failed: frozenset[str]) -> frozenset[str]:
    """Return those that have failed and, now and then, others to be left out of a choice; one arm stays."""
    if not network.has_trouble or network.draw.random() < 0.6:
        return failed
    stays = network.draw.choice(free(network, site, failed))
    others = [name for name in network.learners[site].arms.names if name != stays and network.draw.random() < 0.5]
    return failed.union(others)


def some_silent(network: Network, site: str, out: frozenset[str]) -> frozenset[str]:
    """Return peers that will not tell how much labelled data they have; an arm stays that need not be asked."""
    if not network.has_trouble:
        return frozenset()
    peers = network.learners[site].arms.peers
    silent = frozenset(peer for peer in peers if network.draw.random() < 0.3)
    return silent if is_left(network, site, out | silent) else frozenset()


def pause_or_resume(network: Network, site: str) -> None:
    """Pause an arm of a site now and then, or let one be used again."""
    draw, learner, twin = network.draw, network.learners[site], network.twins[site]
    if draw.random() < 0.8:
        return
    arm = draw.choice(learner.arms.names)
    if arm in learner.arms.paused or not is_left(network, site):
        learner.resume(arm)
        twin.resume(arm)
    else:
        learner.pause(arm)
        twin.pause(arm)
