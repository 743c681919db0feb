"""Every policy can be named in a network file, and every mistake in its options is named with its key."""

from __future__ import annotations

import tomllib

import pytest

from cosend.algorithm.policies import POLICIES, CellKLUCB, CoS, MixedViews, Policy, Zooming, ZoomingKLUCB
from cosend.config.network_file import build_policy, check_policy, parse
from cosend.errors import NetworkFileError

# a table of a file -> what it stands for, with 500 items at a site
MEANT: dict[str, tuple[str, Policy]] = {
    "a name": ('name = "CoS"', CoS(horizon=500)),
    "a name and options": (
        'name = "CoS"\nslices = 2\nexploration_exponent = 0.125',
        CoS(horizon=500, slices=2, exploration_exponent=0.125),
    ),
    "a horizon": ('name = "CoS"\nhorizon = 70', CoS(horizon=70)),
    "an unknown horizon": ('name = "CoS"\nhorizon = "unknown"', CoS()),
    "CoS": ('name = "CoS"\nalpha = 0.5', CoS(horizon=500, alpha=0.5)),
    "CellKLUCB": ('name = "CellKLUCB"\nhorizon = "unknown"', CellKLUCB()),
    "Zooming": ('name = "Zooming"\ncontexts = "concentrated"', Zooming(contexts="concentrated")),
    "ZoomingKLUCB": ('name = "ZoomingKLUCB"\nlipschitz = 5', ZoomingKLUCB(lipschitz=5.0)),
    "MixedViews": ('name = "MixedViews"\nbonus = 0.5\nmax_cells = 900', MixedViews(bonus=0.5, max_cells=900)),
    "no view that adds up": ('name = "MixedViews"\nadds_up = false', MixedViews(adds_up=False)),
}

# a table -> what the mistakes must begin with and hold
MISTAKES: dict[str, tuple[str, str, list[str]]] = {
    "an unknown name": ('name = "UCB1"', "policy.name: ", ["CoS, CellKLUCB", "MixedViews", "'UCB1'"]),
    "a name with a slip": ('name = "ZoomingKLUBC"', "policy.name: ", ["did you mean 'ZoomingKLUCB'?"]),
    "no name": ("", "policy.name: ", ["needs its name", "CoS, CellKLUCB"]),
    "options without a name": ("slices = 2", "policy.name: ", ["needs its name"]),
    "a number for a name": ("name = 5", "policy.name: ", ["CoS", "5"]),
    "a list for a name": ('name = ["CoS"]', "policy.name: ", ["['CoS']"]),
    "an unknown option": ('name = "CoS"\nslises = 2', "policy.slises: ", ["did you mean 'slices'?", "CoS has horizon"]),
    "an option of another policy": (
        'name = "ZoomingKLUCB"\nslices = 2',
        "policy.slices: ",
        ["no such option", "ZoomingKLUCB has horizon", "lipschitz"],
    ),
    "a value out of range": ('name = "ZoomingKLUCB"\nlipschitz = 0', "policy.lipschitz: ", ["above 0", "got 0"]),
    "a value without end": ('name = "CoS"\nhorizon = 1' + 30 * "0", "policy.horizon: ", ["at most 1,000,000,000"]),
    "a policy in one that takes none": ('name = "CoS"\n[policy]\nslices = 1', "policy.policy: ", ["no such option"]),
}  # fmt: skip


def mistakes_of(text: str) -> list[str]:
    site = '[[sites]]\nname = "a"\nclassifiers = [{name = "m", model = "always", label = 1}]\n'
    table = text.replace("[policy]", "[policy.policy]")
    with pytest.raises(NetworkFileError) as raised:
        parse(f'[[context]]\nfeature = "x"\n{site}[policy]\n{table}', "a test")
    return raised.value.mistakes


@pytest.mark.parametrize("case", MEANT)
def test_a_table_stands_for_a_policy(case: str) -> None:
    text, policy = MEANT[case]
    assert build_policy(check_policy(tomllib.loads(text)), 500) == policy


def test_every_policy_there_is_can_be_named() -> None:
    assert {type(policy).__name__ for _, policy in MEANT.values()} == set(POLICIES)


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_with_its_key(case: str) -> None:
    text, start, words = MISTAKES[case]
    (mistake,) = mistakes_of(text)
    assert mistake.startswith(start)
    assert all(word in mistake for word in words), mistake


def test_all_mistakes_are_named() -> None:
    text = 'name = "CoS"\nslices = 0\nalpha = -1\nfalling = 1'
    keys = [mistake.split(":")[0] for mistake in mistakes_of(text)]
    assert keys == ["policy.slices", "policy.alpha", "policy.falling"]
