"""Labels that score all local classifiers: those that cost nothing are run on every item, also by peers."""

from __future__ import annotations

from typing import Any

import pytest

from cosend import CellKLUCB, Network, Site, fold
from cosend.axes import Feature
from cosend.engine import events
from cosend.engine.scoring import right_or_wrong
from cosend.errors import RewardError
from tests.engine.world import whole


class Counted:
    """Says one thing, and counts how often it was asked and about how many items."""

    def __init__(self, label: Any) -> None:
        self.label, self.calls, self.items = label, 0, 0
        self.broken = False

    def predict(self, items: Any) -> list[Any]:
        self.calls, self.items = self.calls + 1, self.items + len(items)
        if self.broken:
            raise ValueError("broken")
        return [self.label] * len(items)


def site_of(name: str = "lab", log: list[Any] | None = None, **options: Any) -> tuple[Site, dict[str, Counted]]:
    """Return a site with two free classifiers and one that costs something."""
    models = {f"{name}-{label}": Counted(label) for label in ("no", "yes", "dear")}
    chosen: dict[str, Any] = {
        "policy": CellKLUCB(slices=1),
        "costs": {f"{name}-dear": 0.3},
        "score_local": "all",
        "learnt": False,
    }
    journal = None if log is None else log.append
    context = Feature("x", range=(0, 1))
    return Site(name, classifiers=models, context=context, journal=journal, **{**chosen, **options}), models


def counts(site: Site) -> dict[str, int]:
    (cell,) = site.learner.cells().values()
    return {arm: known.reward_count for arm, known in cell.estimates.items()}


def test_a_peer_scores_all_its_classifiers_on_items_that_are_sent_to_it() -> None:
    lab, _ = site_of("lab", costs={f"lab-{label}": 1.0 for label in ("no", "yes", "dear")})
    hq, models = site_of("hq")
    Network([lab, hq])
    for _ in range(4):
        lab.learn(lab.classify({"x": 0.5}), "no")
    sent = counts(lab)["hq"]
    assert sent > 0
    assert counts(hq)["hq-no"] == counts(hq)["hq-yes"] == models["hq-no"].items == sent


def test_what_was_said_is_in_the_events_and_outlives_a_restart() -> None:
    log: list[Any] = []
    site, _ = site_of(log=log)
    decisions = site.classify_many([{"x": 0.2}, {"x": 0.7}])
    (chosen,) = [event for event in log if isinstance(event, events.Chosen)]
    assert chosen.opinions == {"lab-no": ("no", "no"), "lab-yes": ("yes", "yes")}
    assert log[0].score_local == "all"
    folded = fold(log, axes=site.axes)
    assert whole(folded) == whole(site.engine.state)
    again, _ = site_of(score_local="used")
    again.restore(site.state())()
    assert again.score_local == "all"
    for each in (site, again):
        each.learn_many(decisions, ["no", "yes"])
    assert counts(site) == counts(again)
    assert log[-1].scores == {"lab-no": (1.0, 0.0), "lab-yes": (0.0, 1.0)}
    assert whole(fold(log, axes=site.axes)) == whole(site.engine.state)


def test_what_a_classifier_said_that_has_left_scores_no_other_of_its_name() -> None:
    log: list[Any] = []
    site, _ = site_of(log=log)
    site.pause("lab-yes")
    site.pause("lab-dear")
    site.resume("lab-yes")
    decision = site.classify({"x": 0.5})
    other = "lab-yes" if decision.arm == "lab-no" else "lab-no"
    site.remove(other)
    site.add_classifier(other, Counted("yes"))
    site.learn(decision, "yes")
    assert counts(site)[other] == 0
    assert whole(fold(log, axes=site.axes)) == whole(site.engine.state)


def test_a_reward_that_fails_for_another_classifier_changes_nothing() -> None:
    def picky(label: Any, truth: Any) -> float:
        if label == "yes":
            raise ValueError("no")
        return right_or_wrong(label, truth)

    site, _ = site_of(reward=picky)
    site.pause("lab-dear")
    decision = site.classify({"x": 0.5})
    with pytest.raises(RewardError, match="'lab-yes'" if decision.arm == "lab-no" else "decision 1"):
        site.learn(decision, "no")
    assert site.is_pending(decision)
