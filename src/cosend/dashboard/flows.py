"""Who sends how much to whom, of late: from what every site has counted since it started, at two moments."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from cosend.node.traffic import Traffic

WINDOW_S: Final = 20.0
Seen: TypeAlias = tuple[float, Mapping[str, Traffic]]  # when, and what every site told


class Flow(NamedTuple):
    """What arrived at one site of late."""

    site: str
    kept: int
    sent: dict[str, int]

    @property
    def items(self) -> int:
        """All that arrived."""
        return self.kept + sum(self.sent.values())


class Window:
    """What sites told in the last seconds."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._seen: deque[Seen] = deque()

    def add(self, now: float, told: Mapping[str, Traffic]) -> None:
        """Take what sites tell now."""
        self._seen.append((now, told))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window_s:
            self._seen.popleft()

    @property
    def newest(self) -> Mapping[str, Traffic]:
        """What sites told last."""
        return self._seen[-1][1] if self._seen else {}

    @property
    def seconds(self) -> float:
        """How long the time is that is seen."""
        return self._seen[-1][0] - self._seen[0][0] if self._seen else 0.0

    def flows(self) -> list[Flow]:
        """Return what every site kept and sent within that time."""
        return [
            _since(site, now, [told[site] for _, told in self._seen if site in told])
            for site, now in self.newest.items()
        ]


def _since(site: str, now: Traffic, told: Sequence[Traffic]) -> Flow:
    """Return what a site did since the first that it told; one that has started again began with nothing."""
    first = told[0]
    if first.since != now.since:
        first = next(each for each in told if each.since == now.since)
    if first.kept > now.kept or first is now:
        return Flow(site, 0, dict.fromkeys(now.sent, 0))
    sent = {peer: max(0, count - first.sent.get(peer, 0)) for peer, count in now.sent.items()}
    return Flow(site, now.kept - first.kept, sent)


def as_shares(flows: Sequence[Flow], sites: Sequence[str]) -> dict[str, Any]:
    """Return flows as `reports/flow.py` draws them: the percentage of every site's items that each one labels."""
    found = {flow.site: flow for flow in flows}
    percent = []
    for site in sites:
        flow = found.get(site)
        counts = [0] * len(sites)
        if flow is not None and flow.items:
            counts = [flow.kept if other == site else flow.sent.get(other, 0) for other in sites]
        total = sum(counts)
        percent.append([100.0 * count / total if total else 0.0 for count in counts])
    return {"flows": {"from": list(sites), "percent": percent}}
