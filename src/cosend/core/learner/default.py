"""How a site decides unless it is told: the one place that says so."""

from __future__ import annotations

from typing import Final

from cosend.core.learner.values import ScoreLocal
from cosend.core.policy.mixed import MixedViews
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import ZoomingKLUCB

DEFAULT_CELLS: Final = 200_000  # of all views, unless a policy says otherwise: 55 MB with five arms


def how_to_decide(
    policy: Policy | None, score_local: ScoreLocal | None, *, watches: bool = False
) -> tuple[Policy, ScoreLocal]:
    """Return how a site decides, and which local classifiers a label scores, where it is not told.

    Whoever names a policy gets it as it is meant: `CoS` learns from what it used. Where labels may score nothing else,
    late ones can trap `MixedViews`.

    watches  whether every feature is looked at, which nothing but `MixedViews` can

    >>> how_to_decide(None, None) == (MixedViews(max_cells=DEFAULT_CELLS), "all")
    True
    >>> how_to_decide(None, "used")[0] == ZoomingKLUCB()
    True
    """
    if score_local is None:
        score_local = "all" if policy is None else "used"
    if policy is None:
        mixes = watches or score_local == "all"
        policy = MixedViews(max_cells=DEFAULT_CELLS) if mixes else ZoomingKLUCB()
    return policy, score_local
