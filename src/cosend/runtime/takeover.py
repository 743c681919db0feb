"""What a site that starts again takes over from its folder, where that differs from what its file says or said.

Whoever changes a file, swaps a model or comes back from a holiday hears at the start what the site goes on with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cosend.algorithm.arms import Arms
from cosend.runtime.site_setup import Setup


class LastRun(NamedTuple):
    """The site as its last run left it: its arms with their costs, and what its file said then."""

    own: Mapping[str, float]
    peers: Mapping[str, float]
    observer: str | None
    costs_of_the_file: Mapping[str, float]
    hashes: Mapping[str, str]  # by classifier: of what its model was made of


def taken_over(last: LastRun, setup: Setup, arms: Arms, observer: str | None) -> Iterator[str]:
    """Yield in a sentence each what is not as it was, or not as the file says; the arms are those of now."""
    for kind, before, now in (("classifier", last.own, arms.own), ("peer", last.peers, arms.peers)):
        for arm in [arm for arm in now if arm not in before]:
            yield f"{kind} {arm!r} is new, at a cost of {now[arm]:g}"
        for arm in [arm for arm in before if arm not in now]:
            yield f"{kind} {arm!r} is gone: what was learnt about it is dropped"
        for arm in [arm for arm in now if arm in before]:
            yield from _costs(arm, last, setup, now[arm])
    for arm in sorted(arms.paused):
        yield f"{arm!r} is still paused"
    for arm, known in setup.hashes.items():
        if arm in last.own and last.hashes.get(arm, known) != known:
            yield f"classifier {arm!r} is another model than at the last start; what was learnt about it is kept"
    if observer is not None:
        yield f"observe mode is still on: {observer!r} answers, and decisions are only learnt from"
    elif last.observer is not None:
        yield f"observe mode is off: {last.observer!r}, which answered, is gone"


def _costs(arm: str, last: LastRun, setup: Setup, now: float) -> Iterator[str]:
    if arm not in setup.classifiers and arm not in setup.peers:
        return  # a peer that was discovered says itself what it costs
    said, says = last.costs_of_the_file.get(arm), setup.cost(arm)
    if said is not None and said != says:
        yield f"{arm!r} costs {says:g} now: the file said {said:g} at the last start"
    elif now != says:
        yield f"{arm!r} costs {now:g}, as it was set while the site ran; the file says {says:g}"
