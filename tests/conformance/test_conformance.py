"""What must mean the same in a `Site` of the library and in a service: each scenario runs on both.

An item gets up to `retries` further tries, each without what has failed for it, the last among local models; after a
deadline has passed no further peer is asked.

Free models may be asked before the choice or after it: where the number of tries matters, models cost something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count as numbers
from pathlib import Path
from typing import Any

import pytest

from cosend import Budget
from cosend.client import Client
from cosend.engine.events import Taught, decode
from cosend.store.event_log import LogReader
from tests.conformance.behaviours import NO_LABEL, RUBBISH
from tests.conformance.drivers import (
    NOTHING,
    Driver,
    InLibrary,
    InService,
    Made,
    PeerServices,
    Spec,
    set_down,
    wait_for_peers,
    write_files,
)
from tests.tools.processes import Services

ITEM = {"age": 50}
DEAD = {f"dead{n}": {f"model{n}": "fails()"} for n in range(3)}
FIRST = "ZoomingKLUCB"  # chooses what is cheap first

NUMBERS = numbers()

Make = Callable[..., Driver]


def answers(driver: Driver, items: int, item: dict[str, Any] = ITEM, truth: Any = "well") -> list[Made]:
    """Have items labelled one by one, all of which must be answered, and send their true labels."""
    found = []
    for _ in range(items):
        (made,) = driver.classify(item)
        assert made.arm is not None
        assert driver.learn(made, truth) == "learnt"
        found.append(made)
    return found


def told(made: list[Made]) -> list[tuple[str | None, Any]]:
    return [(each.arm, each.label) for each in made]


class Conformance:
    """The scenarios."""

    no_labels = tuple(NO_LABEL)

    @pytest.fixture
    def make(self) -> Make:
        """Return what makes a driver from the fields of a `Spec`."""
        raise NotImplementedError

    # Retries

    @pytest.mark.parametrize(("retries", "failures", "arm"), [(0, 1, None), (1, 2, None), (3, 2, "home")])
    def test_each_dead_model_is_a_try(self, make: Make, retries: int, failures: int, arm: str | None) -> None:
        models = {"dead": "fails()", "other": "fails()", "home": "says('well')"}
        costs = {"dead": 0.1, "other": 0.1, "home": 0.9}
        driver = make(models=models, costs=costs, policy=FIRST, retries=retries)
        (made,) = driver.classify(ITEM)
        assert (made.arm, driver.calls_of("dead", "other")) == (arm, failures)
        assert driver.pending() == (arm is not None)

    @pytest.mark.parametrize(("retries", "failures", "arm"), [(0, 1, None), (2, 2, "home"), (4, 3, "home")])
    def test_each_dead_peer_is_a_try_and_the_last_one_is_at_home(
        self, make: Make, retries: int, failures: int, arm: str | None
    ) -> None:
        driver = make(models={"home": "says('well')"}, costs={"home": 0.9}, policy=FIRST, retries=retries, peers=DEAD)
        (made,) = driver.classify(ITEM)
        assert (made.arm, driver.calls_of("model0", "model1", "model2")) == (arm, failures)
        assert driver.pending() == (arm is not None)

    def test_each_item_of_a_batch_has_its_own_tries(self, make: Make) -> None:
        models = {"moody": "fails('odd')", "other": "fails('odd')", "home": "says('well')"}
        costs = {"moody": 0.1, "other": 0.1, "home": 0.9}
        driver = make(models=models, costs=costs, policy=FIRST, retries=2)
        made = driver.classify(ITEM, {**ITEM, "odd": True}, ITEM, {**ITEM, "odd": True})
        assert [each.arm for each in made][1::2] == ["home", "home"]
        assert None not in [each.arm for each in made]

    # Models without an answer

    @pytest.mark.parametrize("cost", [0.0, 0.1])
    def test_a_model_without_an_answer_is_passed_over_whatever_the_retries(self, make: Make, cost: float) -> None:
        silent = {"none": "silent()", "nan": "silent('', math.nan)", "other": "silent()"}
        costs = {**dict.fromkeys(silent, cost), "home": cost}
        driver = make(models={**silent, "home": "says('well')"}, costs=costs, retries=0)
        assert told(answers(driver, 5)) == [("home", "well")] * 5
        assert driver.backing_off() == set()
        assert [driver.labels_of(name) > 0 for name in [*silent, "home"]] == [False, False, False, True]

    def test_where_no_model_has_an_answer_the_label_is_awaited_and_scores_nobody(self, make: Make) -> None:
        driver = make(models={"a": "silent()", "b": "silent()"})
        first, *more = driver.classify(ITEM), *driver.classify(ITEM, ITEM)
        made = [*first, *more]
        assert [each.label for each in made] == [None] * 3
        assert driver.pending() == 3
        assert [driver.learn(each, "ill") for each in made] == ["learnt"] * 3
        assert [driver.labels_of(name) for name in "ab"] == [0, 0]

    def test_a_model_that_knows_some_items_answers_those(self, make: Make) -> None:
        driver = make(models={"some": "silent('hard')", "home": "says('ill')"}, costs={"home": 0.9}, policy=FIRST)
        made = driver.classify(ITEM, {**ITEM, "hard": True})
        assert told(made) == [("some", "well"), ("home", "ill")]

    def test_a_peer_without_an_answer_is_passed_over(self, make: Make) -> None:
        driver = make(
            models={"home": "says('well')"},
            costs={"home": 0.9},
            policy=FIRST,
            peers={"silent": {"nothing": "silent()"}},
        )
        assert told(answers(driver, 3)) == [("home", "well")] * 3

    # Models that misbehave

    @pytest.mark.parametrize("cost", [0.0, 0.1])
    def test_a_model_that_raises_leaves_the_item_to_others(self, make: Make, cost: float) -> None:
        driver = make(models={"bad": "fails()", "home": "says('well')"}, costs={"bad": cost, "home": cost})
        assert told(answers(driver, 6)) == [("home", "well")] * 6
        assert driver.labels_of("bad") == 0
        assert told(driver.classify(*[ITEM] * 4)) == [("home", "well")] * 4

    def test_what_is_no_label_is_a_failure(self, make: Make) -> None:
        models = {f"bad{n}": f"rubbish({kind!r})" for n, kind in enumerate(self.no_labels)}
        costs = {**dict.fromkeys(models, 0.1), "home": 0.9}
        driver = make(models={**models, "home": "says('well')"}, costs=costs, retries=len(models), policy=FIRST)
        assert told(answers(driver, 4)) == [("home", "well")] * 4
        assert min(driver.calls_of(name) for name in models) >= 1

    def test_a_model_that_fails_on_one_item_answers_the_others_of_the_batch(self, make: Make) -> None:
        driver = make(models={"moody": "fails('odd')", "home": "says('well')"}, costs={"moody": 0.1, "home": 0.9})
        made = driver.classify(ITEM, {**ITEM, "odd": True}, ITEM)
        assert [each.label for each in made] == ["ill", "well", "ill"]

    def test_an_item_that_no_arm_can_label_is_not_pending_and_the_others_are(self, make: Make) -> None:
        driver = make(models={"a": "fails('odd')", "b": "fails('odd')"})
        odd = {**ITEM, "odd": True}
        assert driver.classify(odd) == [NOTHING]
        made = driver.classify(ITEM, odd, ITEM)
        assert [each.label for each in made] == ["ill", None, "ill"]
        assert made[1] == NOTHING
        assert driver.pending() == 2
        assert [driver.learn(each, "ill") for each in made if each.arm] == ["learnt"] * 2
        assert driver.pending() == 0

    def test_a_model_that_cannot_learn_a_label_learns_the_next_ones(self, make: Make) -> None:
        driver = make(models={"fragile": "Fragile()", "home": "says('well')"})
        for truth in ("well", "odd", "ill"):
            (made,) = driver.classify(ITEM)
            driver.learn(made, truth)
        assert driver.taught("fragile", 2) == ["well", "ill"]
        assert driver.pending() == 0

    # Back-off

    def test_an_arm_that_keeps_failing_backs_off_and_costs_no_item(self, make: Make) -> None:
        driver = make(models={"dead": "fails()", "home": "says('well')"}, costs={"dead": 0.1, "home": 0.5})
        assert {each.arm for each in answers(driver, 60)} == {"home"}
        assert driver.calls_of("dead") <= 12
        assert driver.backing_off() == {"dead"}

    def test_a_peer_that_keeps_failing_backs_off_and_costs_no_item(self, make: Make) -> None:
        driver = make(
            models={"home": "says('well')"}, costs={"home": 0.5}, policy=FIRST, peers={"dead0": DEAD["dead0"]}
        )
        assert {each.arm for each in answers(driver, 40)} == {"home"}
        assert 1 <= driver.calls_of("model0") <= 12
        assert driver.backing_off() == {"dead0"}

    def test_a_failure_alone_may_be_the_fault_of_the_item(self, make: Make) -> None:
        driver = make(models={"moody": "fails('odd')", "home": "says('well')"}, costs={"moody": 0.1, "home": 0.9})
        answers(driver, 5, truth="ill")
        assert told(driver.classify({**ITEM, "odd": True})) == [("home", "well")]
        assert driver.backing_off() == set()
        assert told(driver.classify(ITEM)) == [("moody", "ill")]

    def test_an_arm_that_works_again_is_used_with_what_was_known_of_it(self, make: Make) -> None:
        models = {"moody": "fails_when_down('well')", "home": "says('ill')"}
        driver = make(models=models, costs={"moody": 0.1, "home": 0.5}, policy=FIRST)
        assert told(answers(driver, 20))[-1] == ("moody", "well")
        set_down(True)
        assert {each.arm for each in answers(driver, 4)} == {"home"}
        known = driver.labels_of("moody")
        set_down(False)
        driver.wait_for_back_off()
        assert told(answers(driver, 1)) == [("moody", "well")]
        assert driver.backing_off() == set()
        assert driver.labels_of("moody") >= known > 0

    def test_what_backs_off_is_tried_where_nothing_else_is_left(self, make: Make) -> None:
        driver = make(models={"moody": "fails_when_down('well')"}, costs={"moody": 0.1})
        set_down(True)
        assert [driver.classify(ITEM) for _ in range(4)] == [[NOTHING]] * 4
        set_down(False)
        assert told(answers(driver, 1)) == [("moody", "well")]

    # Paused arms

    @pytest.mark.parametrize("cost", [0.0, 0.1])
    def test_a_paused_arm_is_neither_used_nor_run(self, make: Make, cost: float) -> None:
        driver = make(models={"good": "says('well')", "home": "says('ill')"}, costs={"good": cost, "home": cost})
        (before,) = driver.classify(ITEM)
        driver.pause("good")
        calls = driver.calls_of("good")
        assert {each.arm for each in answers(driver, 8)} == {"home"}
        assert driver.calls_of("good") == calls
        assert driver.learn(before, "well") == "learnt"  # of a decision from before
        driver.pause("good", resume=True)
        assert "good" in {each.arm for each in answers(driver, 20)}

    def test_no_item_is_answered_while_all_arms_are_paused(self, make: Make) -> None:
        driver = make(models={"a": "says('well')", "b": "says('ill')"})
        driver.pause("a")
        driver.pause("b")
        assert driver.classify(ITEM) == [NOTHING]
        driver.pause("b", resume=True)
        assert told(driver.classify(ITEM)) == [("b", "ill")]

    # What is run, and what a label scores

    def test_with_all_scored_free_models_are_run_on_every_item_and_priced_ones_where_used(self, make: Make) -> None:
        models = {"free": "says('ill')", "good": "says('well')", "dear": "says('well')"}
        driver = make(models=models, costs={"dear": 0.3}, score_local="all")
        made = answers(driver, 20)
        made += driver.classify(*[ITEM] * 10)
        used = sum(each.arm == "dear" for each in made)
        assert [driver.calls_of(name) for name in models] == [30, 30, used]
        assert driver.labels_of("free") == driver.labels_of("good") >= 20
        assert (driver.labels_of("dear") > 0) == any(each.arm == "dear" for each in made[:20])

    @pytest.mark.parametrize("policy", [None, "CoS"])
    def test_with_used_scored_only_the_arm_is_run(self, make: Make, policy: str | None) -> None:
        models = {"free": "says('ill')", "good": "says('well')"}
        driver = make(models=models, policy=policy, score_local="used")
        made = answers(driver, 20)
        assert {name: driver.calls_of(name) for name in models} == {
            name: sum(each.arm == name for each in made) for name in models
        }

    def test_a_policy_by_name_scores_the_used_arm_unless_it_is_said(self, make: Make) -> None:
        models = {"free": "says('ill')", "good": "says('well')"}
        used = make(models=models, policy="CellKLUCB")
        answers(used, 10)
        assert used.calls_of(*models) == 10

    def test_a_cost_that_changes_changes_the_choice(self, make: Make) -> None:
        models = {"good": "says('well')", "other": "says('well')"}
        driver = make(models=models, costs={"good": 0.1, "other": 0.5}, policy=FIRST)
        assert {each.arm for each in answers(driver, 20)[-5:]} == {"good"}
        driver.set_cost("good", 0.9)
        assert {each.arm for each in answers(driver, 20)[-5:]} == {"other"}

    # Models that learn

    @pytest.mark.parametrize("learns_from", ["all", "used"])
    def test_a_model_learns_from_all_labels_or_from_those_of_its_items(self, make: Make, learns_from: str) -> None:
        models = {"learns": "Majority()", "home": "says('ill')"}
        driver = make(models=models, policy=FIRST, learns_from=learns_from)
        made = answers(driver, 12, truth="ill")
        used = sum(each.arm == "learns" for each in made)
        assert 0 < used < 12
        count = 12 if learns_from == "all" else used
        assert driver.taught("learns", count) == ["ill"] * count

    def test_a_peer_learns_from_what_it_answered_and_models_at_home_from_that_too(self, make: Make) -> None:
        driver = make(
            models={"home": "Majority()"}, costs={"home": 0.5}, policy=FIRST, peers={"learner": {"pupil": "Majority()"}}
        )
        made = answers(driver, 10)
        sent = sum(each.arm == "learner" for each in made)
        assert sent > 5
        assert driver.taught("pupil", sent) == ["well"] * sent
        assert driver.taught("home", 10) == ["well"] * 10

    # True labels

    def test_a_missing_label_leaves_the_decision_pending(self, make: Make) -> None:
        driver = make(models={"a": "says('well')", "learns": "Majority()"})
        (made,) = driver.classify(ITEM)
        assert driver.learn(made, None) == "missing"
        assert driver.pending() == 1
        assert driver.taught("learns", 0) == []
        assert driver.learn(made, "well") == "learnt"
        assert driver.pending() == 0

    def test_a_label_that_comes_twice_is_learnt_once(self, make: Make) -> None:
        driver = make(models={"learns": "Majority()"})
        (made,) = driver.classify(ITEM)
        assert driver.learn(made, "ill") == "learnt"
        assert driver.learn(made, "well") == "not pending"
        assert driver.learn(made, None) == "not pending"
        assert driver.taught("learns", 1) == ["ill"]
        assert driver.learn(999, "well") == "unknown"

    def test_strict_labels_refuse_what_no_arm_could_have_said(self, make: Make) -> None:
        driver = make(models={"a": "says('well')", "b": "says('ill')"}, strict_labels=True)
        (made,) = driver.classify(ITEM)
        assert driver.learn(made, 1) == "refused"
        assert driver.pending() == 1
        assert driver.learn(made, "well") == "learnt"

    def test_labels_that_are_not_strict_may_be_anything(self, make: Make) -> None:
        driver = make(models={"a": "says('well')", "b": "says('ill')"})
        (made,) = driver.classify(ITEM)
        assert driver.learn(made, 1) == "learnt"

    # Scores

    def test_a_score_counts_as_gain_and_teaches_no_model(self, make: Make) -> None:
        driver = make(models={"a": "says('well')", "learns": "Majority()"}, learnt=None)
        used = set()
        for n in range(8):
            (made,) = driver.classify(ITEM)
            used.add(made.arm)
            assert driver.score(made, n / 10) == "learnt"
        assert used == {"a", "learns", "stack"}  # which lets the others vote, and does not hide them after a score
        assert driver.pending() == 0
        assert driver.taught("learns", 0) == []
        assert sum(driver.labels_of(arm) for arm in ("a", "learns", "stack")) == 8
        assert all(0.0 <= gain <= 0.7 for gain in driver.gains().values())

    def test_with_scores_alone_the_best_arm_is_found(self, make: Make) -> None:
        driver = make(
            models={"poor": "says('well')", "good": "says('ill')", "dear": "says('odd')"}, costs={"dear": 0.4}
        )
        used = []
        for _ in range(60):
            (made,) = driver.classify(ITEM)
            driver.score(made, {"poor": 0.5, "good": 0.8, "dear": 0.9}[str(made.arm)])
            used.append(made.arm)
        assert used[-20:].count("good") >= 18
        assert driver.gains()["good"] == pytest.approx(0.8)

    def test_scores_by_arm_score_free_models_beside_the_one_that_was_used(self, make: Make) -> None:
        models = {"small": "says('well')", "large": "says('ill')", "dear": "says('odd')"}
        driver = make(models=models, costs={"dear": 0.9})
        scores = {"small": 0.4, "large": 0.9, "dear": 1.0}
        for _ in range(6):
            (made,) = driver.classify(ITEM)
            assert driver.score(made, scores) == "learnt"
        assert [driver.labels_of("small"), driver.labels_of("large")] == [6, 6]
        assert driver.labels_of("dear") <= 1  # it costs something: only where it was used

    def test_scores_and_labels_may_be_mixed(self, make: Make) -> None:
        driver = make(models={"a": "says('well')", "learns": "Majority()"})
        for n in range(12):
            (made,) = driver.classify(ITEM)
            assert (driver.score(made, 0.5) if n % 3 else driver.learn(made, "well")) == "learnt"
        assert driver.taught("learns", 4) == ["well"] * 4
        assert driver.pending() == 0

    def test_a_score_that_is_missing_twice_or_for_nothing_is_as_a_label_is(self, make: Make) -> None:
        driver = make(models={"a": "says('well')"})
        (made,) = driver.classify(ITEM)
        for missing in (None, float("nan"), {"a": None}, {}):
            assert driver.score(made, missing) == "missing"
        assert driver.pending() == 1
        assert driver.score(made, 0.5) == "learnt"
        assert driver.score(made, 0.7) == "not pending"
        assert driver.learn(made, "well") == "not pending"
        assert driver.score(999, 0.5) == "unknown"

    @pytest.mark.parametrize("score", [-0.1, 1.1, {"other": 0.5}, {"b": 0.5}, {"a": 2.0}], ids=str)
    def test_a_score_that_is_none_is_refused_and_changes_nothing(self, make: Make, score: Any) -> None:
        driver = make(models={"a": "says('well')", "b": "says('ill')"}, costs={"b": 0.9}, policy=FIRST)
        (made,) = driver.classify(ITEM)
        assert made.arm == "a"
        assert driver.score(made, score) == "refused"
        assert driver.pending() == 1
        assert driver.score(made, 1.0) == "learnt"

    def test_scores_may_have_other_units(self, make: Make) -> None:
        driver = make(models={"a": "says('well')"}, score_range=(0, 5))
        (made,) = driver.classify(ITEM)
        assert driver.score(made, 6) == "refused"
        assert driver.score(made, 4) == "learnt"
        assert driver.gains() == {"a": pytest.approx(0.8)}

    def test_a_peer_is_told_the_score_and_learns_whom_to_use(self, make: Make) -> None:
        driver = make(
            models={"home": "says('ill')"}, costs={"home": 0.5}, policy=FIRST, peers={"judged": {"pupil": "Majority()"}}
        )
        sent = 0
        for _ in range(10):
            (made,) = driver.classify(ITEM)
            assert driver.score(made, 0.9 if made.arm == "judged" else 0.1) == "learnt"
            sent += made.arm == "judged"
        assert sent > 5
        assert driver.taught("pupil", 0) == []

    def test_mistakes_may_cost_less_than_a_right_label_is_worth(self, make: Make) -> None:
        driver = make(models={"a": "says('ill')"}, confusions={("well", "ill"): 0.25})
        for truth in ("well", "ill", "odd", "well"):
            (made,) = driver.classify(ITEM)
            assert driver.learn(made, truth) == "learnt"
        assert driver.gains() == {"a": pytest.approx((0.75 + 1 + 0 + 0.75) / 4)}

    # Money

    def test_a_price_is_a_cost_as_a_share_of_what_a_right_label_is_worth(self, make: Make) -> None:
        models = {"good": "says('well')", "other": "says('well')"}
        driver = make(models=models, costs={"other": 0.5}, prices={"good": 0.0007}, unit=0.02, policy=FIRST)
        assert driver.costs() == {"good": (0.035, 0.0007), "other": (0.5, 0.01)}
        assert {each.arm for each in answers(driver, 20)[-5:]} == {"good"}
        driver.set_price("good", 0.018)
        assert driver.costs()["good"] == (0.9, 0.018)
        assert {each.arm for each in answers(driver, 20)[-5:]} == {"other"}
        driver.set_cost("good", 0.1)
        assert driver.costs()["good"] == (0.1, 0.002)

    @pytest.mark.parametrize("unit", [None, 0.5])
    def test_what_arms_have_spent_is_expected_until_it_is_known(self, make: Make, unit: float | None) -> None:
        models = {"quiet": "says('well')", "frank": "says_at('well', 0.25)", "dead": "fails()"}
        costs = {"quiet": 0.375, "frank": 0.5, "dead": 0.125}
        driver = make(models=models, costs=costs, policy=FIRST, unit=unit)
        made = driver.classify(*[ITEM] * 10) + [each for _ in range(30) for each in driver.classify(ITEM)]
        arms, scale = [each.arm for each in made], unit or 1.0
        assert {*arms} == {"quiet", "frank"}
        spent = {"quiet": 0.375 * arms.count("quiet"), "frank": 0.25 * arms.count("frank"), "dead": 0.0}
        assert driver.spent() == {arm: cost * scale for arm, cost in spent.items()}
        for arm, cost in (("quiet", 0.75), ("frank", 0.125)):
            each = next(each for each in made if each.arm == arm)
            assert driver.learn(each, "well", cost) == "learnt"
            spent[arm] += cost - {"quiet": 0.375, "frank": 0.25}[arm]
            assert driver.spent() == {arm: cost * scale for arm, cost in spent.items()}

    def test_a_total_is_spent_and_no_more_whatever_comes_together(self, make: Make) -> None:
        models = {"good": "says('well')", "other": "says('well')", "free": "says('ill')"}
        prices = {"good": 0.002, "other": 0.001}
        driver = make(models=models, prices=prices, unit=0.02, score_local="used")
        driver.set_budget(Budget(total=0.02, calls={"other": {"total": 5}}))
        made = answers(driver, 5)
        for _ in range(10):
            made += driver.classify(*[ITEM] * 7)
        used = [each.arm for each in made]
        paid = 0.002 * used.count("good") + 0.001 * used.count("other")
        assert 0.02 - 0.002 < paid <= 0.02 + 1e-9
        assert driver.spent_of_limits() == {("", "total"): pytest.approx(paid), ("other", "total"): used.count("other")}
        assert used.count("other") <= 5
        assert {*used[-10:]} == {"free"}
        driver.pause("free")
        assert driver.classify(ITEM, ITEM) == [NOTHING] * 2
        driver.set_budget(Budget(total=0.0245))
        assert [each.arm is None for each in driver.classify(*[ITEM] * 6)].count(False) >= 2
        assert driver.spent_of_limits()["", "total"] <= 0.0245 + 1e-9
        driver.set_budget(None)
        assert driver.spent_of_limits() == {}
        assert None not in [each.arm for each in driver.classify(*[ITEM] * 6)]

    # What a site learns itself

    @pytest.mark.parametrize("score_local", ["all", "used"])
    def test_a_stack_knows_what_no_model_says_and_models_are_run_once_for_it(
        self, make: Make, score_local: str
    ) -> None:
        models = {"x": "parity('x')", "y": "parity('y')"}
        driver = make(models=models, stacks=["stack"], score_local=score_local)
        made = []
        for n in range(60):
            item = {**ITEM, "x": n % 2, "y": n // 2 % 2}
            truth = "neither" if item["x"] and item["y"] else "one at least"
            (each,) = driver.classify(item)
            driver.learn(each, truth)
            made.append((each.arm, each.label == truth))
        assert made[40:].count(("stack", True)) > 15
        assert [driver.calls_of("x"), driver.calls_of("y")] == [60, 60]

    def test_nothing_that_costs_is_run_for_a_stack(self, make: Make) -> None:
        driver = make(models={"free": "says('ill')", "dear": "says('well')"}, costs={"dear": 0.9}, learnt=True)
        made = answers(driver, 8)
        assert [driver.calls_of("free"), driver.calls_of("dear")] == [8, sum(each.arm == "dear" for each in made)]
        assert driver.labels_of("stack") == 8  # before the first label, the others vote

    def test_a_stack_does_without_models_that_fail_are_silent_or_paused(self, make: Make) -> None:
        models = {"bad": "fails()", "silent": "silent()", "home": "says('ill')", "off": "says('well')"}
        driver = make(models=models, learnt=True)
        driver.pause("off")
        made = answers(driver, 12)
        assert {each.arm for each in made} <= {"home", "stack"}
        assert [told(made)[0], told(made)[-1]] == [("stack", "ill"), ("stack", "well")]
        assert driver.calls_of("off") == 0
        assert driver.calls_of("home") == 12

    def test_a_paused_stack_is_not_used_and_learns_on(self, make: Make) -> None:
        driver = make(models={"home": "says('ill')"}, learnt=True)
        driver.pause("stack")
        assert {each.arm for each in answers(driver, 12)} == {"home"}
        assert driver.labels_of("stack") == 0
        driver.pause("stack", resume=True)
        assert told(answers(driver, 12))[-1] == ("stack", "well")

    @pytest.mark.parametrize("fields", [{}, {"policy": FIRST}, {"score_local": "used"}, {"learnt": False}], ids=str)
    def test_a_site_learns_arms_itself_where_a_label_scores_all_unless_it_shall_not(
        self, make: Make, fields: dict[str, Any]
    ) -> None:
        driver = make(**{"models": {"home": "says('ill')"}, "learnt": None, **fields})
        used = {each.arm for each in answers(driver, 12)}
        assert used == {"home"} if fields else "stack" in used


class TestSite(Conformance):
    """A `Site` in the library."""

    @pytest.fixture
    def make(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
        monkeypatch.chdir(tmp_path)
        return lambda **fields: InLibrary(Spec(**fields))


class TestService(Conformance):
    """A real service, through its client."""

    no_labels = tuple(RUBBISH)

    @pytest.fixture
    def make(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        services: Services,
        request: pytest.FixtureRequest,
    ) -> Iterator[Make]:
        monkeypatch.chdir(tmp_path)
        with ExitStack() as stack:

            def build(**fields: Any) -> Driver:
                spec, folders, options = Spec(**fields), list[Path](), tuple[str, ...]()
                name = f"north{next(NUMBERS)}" if spec.peers else "north"
                write_files(spec, tmp_path, name)
                if spec.peers:
                    peers: PeerServices = request.getfixturevalue("peer_services")
                    folders, options = peers.start(spec.peers, spec.policy), ("--nats", peers.url)
                (service,) = stack.enter_context(services.running(tmp_path, name, options=options))
                client = stack.enter_context(Client(service.url))
                wait_for_peers(client)
                return InService(service, client, tmp_path, *folders)

            yield build

    @pytest.mark.parametrize("policy", [None, "CoS"])
    def test_it_decides_as_a_site_does(self, make: Make, policy: str | None) -> None:
        models = {"young": "young()", "learns": "Majority()", "dear": "says('ill')"}
        fields: dict[str, Any] = {"models": models, "costs": {"dear": 0.1}, "policy": policy, "learnt": None}
        played = []
        for driver in (make(**fields), InLibrary(Spec(**fields))):
            lines, pending = [], list[Any]()
            for n in range(60):
                item = {"age": n * 37 % 101, "weight": n * 11 % 90}
                made = driver.classify(item, {**item, "age": n}) if n % 5 == 0 else driver.classify(item)
                pending += [(each, "ill" if 30 <= item["age"] < 60 else "well") for each in made]
                lines += [(each.arm, each.label, each.decision.cell, each.decision.propensity) for each in made]
                while len(pending) > 4:
                    assert driver.learn(*pending.pop(0)) == "learnt"
            played.append(lines)
        assert played[0] == played[1]
        assert ("stack" in {arm for arm, *_ in played[0]}) == (policy is None)

    def test_a_peer_behind_a_broker_has_the_scores_of_its_answers_on_its_disk(self, make: Make) -> None:
        peers = {"rated": {"rater": "says('well')"}}
        driver = make(models={"home": "says('ill')"}, costs={"home": 0.5}, policy=FIRST, peers=peers)
        assert isinstance(driver, InService)
        scores = []
        for n in range(12):
            (made,) = driver.classify(ITEM)
            assert driver.score(made, n / 20) == "learnt"  # which waits for the peer
            scores += [n / 20] if made.arm == "rated" else []
        assert scores
        with LogReader(driver.folders[-1] / "store" / "rated", may_run=True) as log:
            events = [decode(data) for _, data in log.read()]
        taught = [
            event for event in events if isinstance(event, Taught) and event.caller == driver.client.summary().site
        ]
        assert [gain for event in taught for gain in event.gains] == scores
        assert {truth for event in taught for truth in event.truths} == {None}

    # What only a service has: time

    def test_a_model_that_is_late_leaves_the_item_to_others(self, make: Make) -> None:
        driver = make(
            models={"late": "late(5.0)", "home": "says('well')"},
            costs={"late": 0.1, "home": 0.5},
            limits_s={"late": 0.2},
            retries=1,
        )
        assert told(answers(driver, 1)) == [("home", "well")]
        assert driver.calls_of("late") == 1

    def test_after_a_deadline_no_further_peer_is_asked(self, make: Make) -> None:
        driver = make(
            models={"home": "says('well')"},
            costs={"home": 0.9},
            policy=FIRST,
            retries=3,
            deadline_s=0.3,
            peers={"slow": {"sleeps": "late(3.0)"}, "dead0": DEAD["dead0"]},
        )
        driver.set_cost("dead0", 0.2)  # so that the slow one is asked first
        assert told(driver.classify(ITEM)) == [("home", "well")]
        assert isinstance(driver, InService)
        assert {arm.name: arm.failures for arm in driver.client.arms()} == {"home": 0, "slow": 1, "dead0": 0}
        assert driver.calls_of("model0") == 0
