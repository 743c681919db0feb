"""What is measured: the problems and the policies, one list each. A new one is a new entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from cosend.algorithm.policies import CellKLUCB, CoS, MixedViews, Policy, Zooming, ZoomingKLUCB
from cosend.algorithm.values import ScoreLocal
from cosend.checks import check_one_of, check_whole
from research.bounds import Setting, index_bound, index_exponent, theorem_1, zooming_exponent
from research.lipschitz import LipschitzProblem

FEWEST_ITEMS: Final = 1_000  # below, a slope says nothing
HORIZON_PARTS: Final = (8, 4, 2, 1)  # every policy is run for these parts of its longest horizon
MOSTLY: Final = 0.5  # a policy that exploits less than this share of the items is still exploring
LONGEST: Final = 10_000_000
LONGEST_UNPROVEN: Final = 250_000  # of the policies without a bound: keeps the whole within minutes
LONGEST_MIXED: Final = 62_500  # it takes several times as long for a decision


class NamedProblem(NamedTuple):
    """A kind of problem; every seed draws its functions anew."""

    name: str
    horizon: int  # the longest
    problem: LipschitzProblem


class NamedPolicy(NamedTuple):
    """A policy and what is proven about it.

    make           the policy for a problem and a horizon
    exponent       of T in its theorem; where `bound` is None, what its authors give, or its twin in equal cells has,
                   or None
    log_power      of ln T in its theorem's leading term
    bound          the theorem, for a horizon; None if none is proven in our setting
    trains_peers   whether it sees to it that peers know their functions; if not, its exponent takes that for granted
    longest        horizon that it is run for at most
    """

    name: str
    make: Callable[[LipschitzProblem, int], Policy]
    exponent: Callable[[LipschitzProblem], float] | None
    log_power: float
    bound: Callable[[Setting, int], float] | None
    trains_peers: bool
    longest: int = LONGEST
    score_local: ScoreLocal = "used"


def zooming_late(problem: LipschitzProblem, horizon: int) -> Zooming:
    """Return Zooming whose cubes live long enough to exploit.

    A cube of level p must fill Z quotas of 2^(2 alpha p) ln t, Z = |F_i| + (M - 1)(F_max + 1), before it exploits,
    and splits after A 2^(rho p) items. With A = Z ln T that many come before it splits, at every level; with A = 1 only
    where 2^((rho - 2 alpha) p) > Z ln t, which small cubes reach late.
    """
    owed = problem.setting.samples_owed * math.log(horizon)
    return Zooming(alpha=problem.alpha, contexts=problem.contexts, split_after=owed)


POLICIES: Final = (
    NamedPolicy(
        "CoS",
        lambda problem, horizon: CoS(horizon=horizon, alpha=problem.alpha),
        lambda problem: problem.setting.regret_exponent,
        1.0,
        theorem_1,
        trains_peers=True,
    ),
    NamedPolicy(
        "CellKLUCB",
        lambda problem, horizon: CellKLUCB(horizon=horizon, alpha=problem.alpha),
        lambda problem: index_exponent(problem.setting),
        0.5,
        index_bound,
        trains_peers=False,
    ),
    NamedPolicy(
        "Zooming",
        lambda problem, horizon: Zooming(alpha=problem.alpha, contexts=problem.contexts),
        lambda problem: zooming_exponent(problem.setting, problem.contexts),
        1.0,
        bound=None,
        trains_peers=True,
        longest=LONGEST_UNPROVEN,
    ),
    NamedPolicy(
        "ZoomingLate",
        zooming_late,
        lambda problem: zooming_exponent(problem.setting, problem.contexts),
        1.0,
        bound=None,
        trains_peers=True,
        longest=LONGEST_UNPROVEN,
    ),
    NamedPolicy(
        "ZoomingKLUCB",
        lambda problem, horizon: ZoomingKLUCB(alpha=problem.alpha, lipschitz=problem.lipschitz),
        lambda problem: index_exponent(problem.setting),
        0.5,
        bound=None,
        trains_peers=False,
        longest=LONGEST_UNPROVEN,
    ),
    NamedPolicy(
        "MixedViews",
        lambda problem, horizon: MixedViews(),
        exponent=None,
        log_power=0.0,
        bound=None,
        trains_peers=False,
        longest=LONGEST_MIXED,
        score_local="all",
    ),
)

PROBLEMS: Final = (
    # Few arms and many items: here the quotas of CoS let go within the horizon.
    NamedProblem("line", 10_000_000, LipschitzProblem(functions=(2,))),
    NamedProblem("pair", 4_000_000, LipschitzProblem(functions=(1, 1), call_cost=0.05)),
    NamedProblem("rough", 200_000, LipschitzProblem(functions=(2, 2), alpha=0.5, call_cost=0.05)),
    NamedProblem("square", 200_000, LipschitzProblem(functions=(2, 2), dimensions=2, arrivals="heterogeneous")),
    NamedProblem("cube", 200_000, LipschitzProblem(functions=(2, 2), dimensions=3)),
    NamedProblem("rough-cube", 1_600_000, LipschitzProblem(functions=(2, 1), dimensions=3, alpha=0.5)),
    NamedProblem("many", 40_000, LipschitzProblem(functions=(1,) * 16, call_cost=0.05, arrivals="heterogeneous")),
    # Contexts in a small cube: few cells are visited, each by many items.
    NamedProblem(
        "hot-line",
        1_000_000,
        LipschitzProblem(functions=(2, 2), lipschitz=2.0, call_cost=0.02, contexts="concentrated"),
    ),
    NamedProblem(
        "hot-square",
        400_000,
        LipschitzProblem(functions=(2, 2, 2, 2), dimensions=2, alpha=0.5, contexts="concentrated"),
    ),
    NamedProblem(
        "hot-cube", 400_000, LipschitzProblem(functions=(2, 2), dimensions=3, lipschitz=2.0, contexts="concentrated")
    ),
    # Every site has its own small cube: a peer sees nothing where this site needs it, unless it is trained.
    NamedProblem(
        "apart",
        400_000,
        LipschitzProblem(
            functions=(2, 2), lipschitz=2.0, call_cost=0.02, contexts="concentrated", arrivals="heterogeneous"
        ),
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a user may change.

    problems, policies  names from the lists above; none means all
    items               the most that a site may see, if the horizons of the problems are too long
    """

    seeds: int = 5
    problems: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    items: int | None = None

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds)
        if self.items is not None:
            check_whole("items", self.items, least=FEWEST_ITEMS)
        for name in self.problems:
            check_one_of("problem", name, [known.name for known in PROBLEMS])
        for name in self.policies:
            check_one_of("policy", name, [known.name for known in POLICIES])

    @property
    def chosen_problems(self) -> list[NamedProblem]:
        """The problems to run, their horizons capped."""
        chosen = [known for known in PROBLEMS if not self.problems or known.name in self.problems]
        return [known._replace(horizon=min(known.horizon, self.items or known.horizon)) for known in chosen]

    @property
    def chosen_policies(self) -> list[NamedPolicy]:
        """The policies to run."""
        return [known for known in POLICIES if not self.policies or known.name in self.policies]


def horizons_of(problem: NamedProblem, policy: NamedPolicy) -> list[int]:
    """Return the horizons that a policy is run for, the longest last; halved, so that policies mostly share some."""
    longest = problem.horizon
    while longest > policy.longest:
        longest //= 2
    return [longest // part for part in HORIZON_PARTS]


def theorem_applies(policy: NamedPolicy, problem: LipschitzProblem) -> bool:
    """Tell whether what a policy's exponent takes for granted holds: peers that know which of their functions is best.

    Where every peer sees items like ours it finds out by itself, and with one function there is nothing to find out.
    """
    sees_ours = problem.contexts == "uniform" or problem.arrivals == "homogeneous"
    return policy.exponent is not None and (policy.trains_peers or sees_ours or max(problem.functions) == 1)
