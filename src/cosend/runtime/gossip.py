"""The traffic that a site reports to all others, for people who watch the network: how much it sends to which peer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from cosend.engine.scoring import as_score

if TYPE_CHECKING:
    from cosend.runtime.running_site import RunningSite

MOST_PEERS: Final = 32  # that are named, those that are asked most
Count = Annotated[int, Meta(ge=0, le=2**53)]  # peers may tell anything: numbers are those that can be counted with
Name = Annotated[str, Meta(max_length=200)]


class Traffic(msgspec.Struct, frozen=True, array_like=True):
    """Counts of a site since its process started."""

    since: float  # when that was, in seconds since 1970
    kept: Count  # decisions of its classifiers
    sent: dict[Name, Count]  # of peers, by name
    error: Annotated[float, Meta(ge=0, le=1)] | None = None  # of the newest labels
    reward: Annotated[float, Meta(ge=-1, le=1)] | None = None
    score: Annotated[float, Meta(ge=-(2**53), le=2**53)] | None = None  # in its units, where scores come


def traffic_of(node: RunningSite) -> Traffic:
    """Return what a node has done."""
    own, sent, kept = node.state.learner.arms.own, dict[str, int](), 0
    for (arm, _), count in node.counts.decisions.items():
        if arm in own:
            kept += count
        else:
            sent[arm] = sent.get(arm, 0) + count
    most = dict(sorted(sent.items(), key=lambda each: -each[1])[:MOST_PEERS])
    counts = node.counts
    score = None if counts.score is None else as_score(counts.score, node.engine.units)
    return Traffic(node.started_at, kept, most, counts.error, counts.reward, score)


def written(traffic: Traffic) -> str:
    """Return it as news for others."""
    return msgspec.json.encode(traffic).decode()


def read(news: Any) -> Traffic | None:
    """Return the traffic of another site; None if what it tells cannot be read."""
    try:
        return msgspec.json.decode(news, type=Traffic)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
        return None
