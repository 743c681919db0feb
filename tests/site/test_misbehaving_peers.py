"""Peers that answer, but with nonsense, and sites that are restarted while a peer is down."""

from __future__ import annotations

from typing import Any

import pytest

from cosend import CoS, Site, Zooming, ZoomingKLUCB, fold
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import LabelledData
from cosend.engine import events
from cosend.engine.needs import Call, Forward, Question, Reply
from cosend.errors import NetworkError, SettingError, StateError
from tests.site.test_failing_arms import UNIT, Line, wired
from tests.site.test_site import always, assert_nothing_leaks, assert_nothing_open, broken, high, items

TRAINED = [CoS(horizon=1000, order="train_first"), Zooming(order="train_first")]


@pytest.mark.parametrize("report", [None, (5, 2), LabelledData(-1, 0), LabelledData(2**70, 0), "much"], ids=repr)
@pytest.mark.parametrize("policy", TRAINED, ids=["CoS", "Zooming"])
def test_a_peer_that_reports_nonsense_is_an_arm_that_failed(policy: Policy, report: Any) -> None:
    lab, hq, line = wired(policy)

    class Nonsense(Line):
        def report(self, context: tuple[float, ...]) -> Any:
            self.attempts += 1
            return report

    lab.peers["hq"] = nonsense = Nonsense(hq)
    for item in items(100):
        lab.learn(lab.classify(item), high(item))
    assert 0 < nonsense.attempts <= 12
    assert line.attempts == 0
    assert_nothing_leaks(lab, hq)


@pytest.mark.parametrize("follows", [(True, False, True), (False, True, False), (False,) * 3, (True,) * 3], ids=str)
def test_of_one_call_only_that_waits_for_which_a_label_follows(follows: tuple[bool, ...]) -> None:
    """All get their labels, whether or not one of the classifiers fails on one of the items."""

    def moody(item: Any) -> int:
        return high(item) if item["x"] < 0.9 else broken(item)

    hq = Site("hq", classifiers={"moody": moody, "high": high}, context=UNIT)
    values = (0.2, 0.7, 0.95)
    for start in range(1, 60, 3):
        asked = [Question(start + n, {"x": x}, (x,), False, follows[n]) for n, x in enumerate(values)]
        assert hq.serve(Call("hq", "lab", asked)) == [Reply(0), Reply(1), Reply(1)]
        assert [hq.pending()[ticket].label for ticket in sorted(hq.pending())].count(1) == sum(follows[1:])
        assert len(hq.pending()) == sum(follows)
        for question in asked:
            hq.teach(Forward("hq", "lab", question.request, high(question.item)))
        assert_nothing_open(hq)


def test_what_is_no_peer_is_refused_at_once() -> None:
    nothing: Any = None
    lab, _, _ = wired()
    with pytest.raises(SettingError, match="report of peer 'far' must be a method of the peer"):
        lab.add_peer("far", nothing)
    assert "far" not in lab.learner.arms.peers


def test_a_restart_while_a_peer_is_down_changes_no_decision() -> None:
    def run(restart: bool) -> list[Any]:
        made, (lab, _, line) = [], wired(ZoomingKLUCB(), NetworkError("down"))
        for n, item in enumerate(items(120)):
            if restart and n in (20, 21, 70):
                state = lab.state()
                lab, _, line = wired(ZoomingKLUCB(), NetworkError("down"))
                lab.restore(state)()
            line.error = NetworkError("down") if n < 90 else None
            made.append(lab.classify(item))
            lab.learn(made[-1], high(item))
        return made

    assert run(restart=True) == run(restart=False)


def test_a_site_recovers_from_its_journal_and_refuses_to_load_beside_it(tmp_path: Any) -> None:
    log: list[events.Event] = []
    lab, _, _ = wired(ZoomingKLUCB(), journal=log.append)
    made = [lab.classify(item) for item in items(40)]
    lab.learn_many(made[:30], [1] * 30)
    lab.save(tmp_path / "lab.npz")
    again, _, _ = wired(ZoomingKLUCB())
    again.recover(log, journal=log.append)
    again.learn_many(made[30:], [1] * 10)
    assert fold(log).learner.pending_count == 0
    with pytest.raises(StateError, match="'lab' has a journal, so it cannot continue from a saved state"):
        again.load(tmp_path / "lab.npz")
    other = Site("lab", classifiers={"another": always(1)}, context=UNIT)
    with pytest.raises(StateError, match="the saved state has the classifiers"):
        other.recover(log)
    no_function: Any = []
    with pytest.raises(SettingError, match="journal must be a function that takes an event"):
        Site("lab", classifiers={"one": always(1)}, context=UNIT, journal=no_function)
