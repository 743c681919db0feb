"""What the experiments beyond the paper are made of, each in small."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from research.beyond import learning, liar
from research.beyond.learnt import CONTEXT, Numbered, items_of, learnt_said, look_up, with_learnt
from research.beyond.parts import described, items_to_recover
from research.beyond.play import measured, play_policy, policy_methods
from research.beyond.problems import Problem, delays_of, newest_known, with_delays
from research.beyond.run import JOBS
from research.beyond.settings import (
    AXES,
    EVERY_FEATURE,
    PARTS,
    POLICIES,
    WINDOWS,
    Settings,
)
from research.paper.settings import LEARNERS

from cosend import Network, Site
from cosend.algorithm.values import LabelledData
from cosend.engine.learnt_arms import Learnt
from cosend.engine.needs import Call, Forward, Question, Reply
from cosend.run.play import Heard

pytestmark = pytest.mark.compiled

COS, KL_UCB = POLICIES[0], POLICIES[1]


def a_problem(items: int = 2_000, seed: int = 0) -> Problem:
    """Return labels in bursts; function 0 is always right, 2 whenever the first axis is high, the others by chance."""
    random = np.random.default_rng(seed)
    labels = (np.arange(items) // 50 % 2).astype(np.int64)
    right = random.integers(0, 2, (items, 8)).astype(np.uint8)
    contexts = random.random((items, 3))
    right[:, 0] = 1
    right[:, 2] = contexts[:, 1] > 0.5
    return with_delays(Problem(labels, right, contexts, np.ones(items, np.int64)), np.ones(items, np.int64))


def test_the_newest_known_label_is_as_old_as_the_delay() -> None:
    labels = np.array([1, 0, 1, 1, 0, 0])
    assert newest_known(labels, delays_of(3, 6, 0)).tolist() == [0, 0, 0, 1, 0, 1]


def test_a_label_that_comes_later_than_a_newer_one_is_never_the_newest() -> None:
    labels = np.array([1, 0, 1, 1])
    assert newest_known(labels, np.array([3, 1, 9, 1])).tolist() == [0, 0, 0, 0]


def test_learnt_arms_are_two_more_functions_and_are_never_told_what_is_not_known() -> None:
    problem = replace(a_problem(400), peer_cost=0.2)
    more = with_learnt(problem, every_feature=False)
    assert more.right.shape == (400, 16)
    assert (more.right[:, [0, 1, 4, 5]] == problem.right[:, :4]).all()
    assert more.costs.tolist() == [0] * 4 + 12 * [0.2]
    assert more.right[100:, 3].mean() > 0.9  # function 0 is always right, and the stack finds out
    late = replace(problem, delays=np.full(400, 150))
    said = said_by(late)
    others = late.labels.copy()
    others[100:] = 1 - others[100:]
    told_otherwise = learnt_said(replace(late, labels=others), said, every_feature=False)
    same = (learnt_said(late, said, every_feature=False) == told_otherwise).all(axis=1)
    assert same[:250].all()  # the label of item 100 comes before item 250
    assert not same[250:].all()
    (method,) = [each for each in policy_methods() if each.learnt]
    assert measured(lambda: [problem], method)["error"] < 20
    assert measured(lambda: [problem], method)["paid"] > 0


def said_by(problem: Problem) -> Any:
    """Return what the functions of learner 1 say."""
    own = problem.right[:, : problem.own]
    return np.where(own == 1, problem.labels[:, None], 1 - problem.labels[:, None])


@pytest.mark.parametrize("every_feature", [False, True])
def test_learnt_arms_say_in_a_network_what_a_replay_takes_them_to_say(every_feature: bool) -> None:
    items = [{"x": n % 7, "kind": "ab"[n // 3 % 2]} for n in range(300)]
    problem, heard = replace(a_problem(300), items=items), Heard(kind.value for kind in Learnt)
    said = np.where(problem.right == 1, problem.labels[:, None], 1 - problem.labels[:, None])
    network = Network(
        Site(
            name,
            classifiers={f"{name}.{n}": partial(look_up, said[:, 2 * place + n].tolist()) for n in range(2)},
            context=None if every_feature else CONTEXT,
            journal=heard if place == 0 else None,
        )
        for place, name in enumerate(LEARNERS)
    )
    rows = [Numbered(item, n) for n, item in enumerate(items if every_feature else items_of(problem))]
    stream = [*zip(rows, problem.labels.tolist(), strict=True)]
    assert len([*network.run(dict.fromkeys(LEARNERS, stream))]) == 4 * 300
    learnt = learnt_said(problem, said_by(problem), every_feature)
    assert np.array_equal(learnt.T, [[-1 if label is None else label for label in heard.said[arm]] for arm in Learnt])
    assert (learnt[:, 1] >= 0).sum() > (learnt[:, 0] >= 0).sum() > 150  # trees need more labels than the stack


@pytest.mark.parametrize(
    "policy", [policy for policy in POLICIES if policy.name != "Zooming"], ids=lambda policy: policy.name
)
def test_every_policy_finds_the_best_function(policy: Any) -> None:
    """With one axis: in the cells of all three, CoS would explore for most of so short a stream, and Zooming always."""
    problem = a_problem()
    for context in set(policy.contexts) & set(AXES):
        outcome = play_policy(policy, context, problem, 0)
        assert outcome.right[-500:].mean() > 0.8, context


def test_recovery_is_counted_from_the_middle_to_the_first_good_run_of_items() -> None:
    right = np.ones(4_000)
    right[2_000:2_300] = 0
    assert items_to_recover(right) == 295  # five wrong ones among 500 are 1 %
    assert items_to_recover(np.ones(4_000)) == 0
    assert items_to_recover(np.repeat([1.0, 0.0], 2_000)) == 2_000


class Honest:
    """A peer that says 1 and reports what it has."""

    def __init__(self) -> None:
        self.taught: list[Forward] = []

    def report(self, context: tuple[float, ...]) -> LabelledData:
        return LabelledData(3, 4)

    def serve(self, call: Call) -> list[Reply]:
        return [Reply(1) for _ in call.questions]

    def teach(self, forward: Forward) -> None:
        self.taught.append(forward)


def a_call(*numbers: int) -> Call:
    questions = [Question(n, {"number": n}, (0.5,), False, False) for n in numbers]
    return Call("liar", "learner1", questions)


def test_a_liar_is_wrong_from_where_it_lies_and_reports_what_it_wants() -> None:
    peer = Honest()
    lies = liar.Lies("half", wrong_from=0.5, reports=LabelledData(0, 0))
    told = liar.Liar(peer, lies, [1, 1, 1, 0])
    assert [answer.label for answer in told.serve(a_call(0, 1, 2, 3))] == [1, 1, 0, 1]
    assert told.report((0.5,)) == LabelledData(0, 0)
    told.teach(Forward("liar", "learner1", 1, 1))
    assert len(peer.taught) == 1


@pytest.mark.parametrize("policy", [KL_UCB, liar.OWN_AND_MINE], ids=lambda policy: policy.name)
@pytest.mark.parametrize("lies", [lies for lies in liar.LIES if lies.wrong_from == 0], ids=lambda lies: lies.name)
def test_a_peer_that_is_always_wrong_is_called_no_more_than_it_is_owed(policy: Any, lies: liar.Lies) -> None:
    problem = a_problem(600)
    network = liar.network_of_sites(problem, policy, 0)
    liar.place_liar(network, lies, problem.labels.tolist())
    _, calls = liar.play_network(network, problem)
    owed = liar.owed_to_useless(network.sites["learner1"].learner)
    assert 0 < calls <= owed


def test_who_mixes_views_learns_with_its_peers_without_a_context_too() -> None:
    places = [job.place for job in JOBS["learning"](Settings()) if job.place.policy == "MixedViews"]
    assert [(place.setting, place.context) for place in places] == [
        ("labels after every call", learning.CONTEXT),
        ("labels after every call", EVERY_FEATURE),
    ]
    (mixed,) = [policy for policy in POLICIES if policy.name == "MixedViews"]
    options = learning.WAYS["labels after every call"]
    stream = [({"src_bytes": n % 7, "other": "ab"[n % 2]}, n % 2) for n in range(60)]
    for place in places:
        sites = learning.network(mixed, options, str(place.context), 60, 0)
        assert len(list(sites.run({learning.EDGE: stream}))) == 60
        assert {site.score_local for site in sites.sites.values()} == {"all"}


def test_cos_with_reported_counts_trains_a_peer_that_claims_to_know_nothing_for_ever() -> None:
    (lies,) = [each for each in liar.LIES if each.reports == LabelledData(0, 0)]
    problem = a_problem(1_000)
    network = liar.network_of_sites(problem, COS, 0)
    liar.place_liar(network, lies, problem.labels.tolist())
    _, calls = liar.play_network(network, problem)
    assert calls > 2 * liar.owed_to_useless(network.sites["learner1"].learner)


def test_sites_decide_as_a_replay_does() -> None:
    """The network of sites of the liar part is the same four learners that all other parts replay."""
    problem = a_problem(500)
    outcome, _ = liar.play_network(liar.network_of_sites(problem, KL_UCB, 0), problem)
    assert (outcome.right == play_policy(KL_UCB, liar.CONTEXT, problem, 0).right).all()


def test_every_part_has_jobs_and_no_row_comes_twice() -> None:
    assert tuple(JOBS) == PARTS
    places = [job.place for part in PARTS for job in JOBS[part](Settings())]
    assert len(set(places)) == len(places)
    assert {place.part for place in places} == set(PARTS)


@pytest.mark.claims
def test_windows_have_both_classes_and_switch_rates_over_two_decades(kdd99_file: Path) -> None:
    """The rule by which they were chosen; a decade is a factor of ten."""
    found = described(Settings(data=kdd99_file))[: len(WINDOWS)]  # others follow, on which nothing was chosen
    assert [each["start"] for each in found] == [window.start for window in WINDOWS]
    assert all(20 <= each["attacks"] <= 80 for each in found)
    rates = [each["switches"] for each in found]
    assert max(rates) / min(rates) > 50
    assert rates[0] == pytest.approx(0.185, abs=0.001)
