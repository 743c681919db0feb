"""`choose` says what `classify` would do, and changes nothing; `explain` says why."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosend import Budget, Network, Patience, Site, axes
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import Phase
from cosend.engine.events import Event
from cosend.errors import ArmError, ContextError, NoAnswer, SettingError
from tests.engine.world import whole
from tests.policies import POLICIES

pytestmark = pytest.mark.usefixtures("few_trees")

Item = dict[str, Any]


def items(count: int, seed: int = 1) -> list[Item]:
    """Return items whose features tell which model is right."""
    draw = random.Random(seed)
    return [{"size": draw.randrange(20), "kind": draw.choice("abc"), "luck": draw.random()} for _ in range(count)]


def truth(item: Item) -> str:
    return f"{item['kind']}" + ("+" if item["size"] > 9 else "-")


def small(item: Item) -> str:
    return truth(item) if item["luck"] < {"a": 0.95, "b": 0.8, "c": 0.3}[item["kind"]] else "?"


def large(item: Item) -> str:
    return truth(item) if item["luck"] < 0.97 else "?"


MODELS: dict[str, Callable[[Item], str]] = {"small": small, "large": large}
KIND = axes.Category("kind")
SETTINGS: dict[str, dict[str, Any]] = {
    "every feature, learnt arms": {},
    "every feature, none learnt": {"learnt": False},
    "a context": {"context": [KIND, axes.Feature("size", scale="rank")]},
    "an opinion as context": {"context": [axes.Says("small"), axes.AllFeatures()]},
    "a cost": {"costs": {"large": 0.2}, "context": KIND, "learnt": False},
    "a cost, nothing scored beside": {"costs": {"large": 0.2}, "score_local": "used"},
    "a budget": {"costs": {"large": 0.2}, "budget": Budget(per_item=0.05, calls={"large": {"per_hour": 50}})},
    "a total": {"costs": {"large": 0.2}, "budget": Budget(total=1.0)},
    "labels that expire": {"patience": Patience(wait_limit=3, overdue=0.0)},
    "few pending": {"patience": Patience(max_pending=2)},
}


def bytes_of(site: Site, folder: Path) -> bytes:
    site.save(folder / "state")
    return (folder / "state").read_bytes()


@pytest.mark.parametrize("name", SETTINGS)
def test_it_names_the_arm_that_the_item_then_gets_and_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what is compared need not last
    log, clock = list[Event](), iter(range(10**6))
    site = Site("s", classifiers=MODELS, journal=log.append, clock=lambda: float(next(clock) // 40), **SETTINGS[name])
    used, draw, waiting = set[str](), random.Random(5), list[Any]()
    for n, item in enumerate(items(330)):
        if n == 200:
            site.pause("small")
        if n == 230:
            site.resume("small")
        look = n < 12 or 120 < n < 135 or n % 9 == 0
        if look:
            before, events, saved = whole(site.engine.state), len(log), bytes_of(site, tmp_path)
            arm = site.choose(item)
            assert (whole(site.engine.state), len(log)) == (before, events)
            assert bytes_of(site, tmp_path) == saved
            assert site.explain(item).arm == arm
            assert whole(site.engine.state) == before
        waiting.append((site.classify(item), item))
        used.add(waiting[-1][0].arm)
        assert not look or waiting[-1][0].arm == arm, (n, item)
        decision, known = waiting.pop(draw.randrange(len(waiting)))
        if draw.random() < 0.8 and site.is_pending(decision):
            site.learn(decision, truth(known))
    assert len(used) > 1


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_it_holds_for_every_policy_and_with_peers(policy: Policy) -> None:
    size = axes.Feature("size", range=(0, 20))
    options: dict[str, Any] = {"context": size, "policy": policy}
    one, two = (
        Site("one", classifiers={"small": small}, **options),
        Site("two", classifiers={"large": large}, **options),
    )
    Network([one, two], call_cost=0.05)
    used = set[str]()
    for item in items(150):
        before = whole(one.engine.state), whole(two.engine.state)
        arm = one.choose(item)
        assert (whole(one.engine.state), whole(two.engine.state)) == before
        decision = one.classify(item)
        assert decision.arm == arm
        used.add(arm)
        one.learn(decision, truth(item))
    assert used == {"small", "two"}


def test_errors_are_those_of_classify() -> None:
    def broken(_: Any) -> Any:
        raise ValueError("no")

    site = Site("s", classifiers={"broken": broken}, context=axes.Feature("x", range=(0, 1)), learnt=False)
    for item, error in (({"x": 0.5}, NoAnswer), ({"y": 0.5}, ContextError), ({"x": 2}, ContextError)):
        before = whole(site.engine.state)
        for ask in (site.choose, site.explain):
            with pytest.raises(error):
                ask(item)
        assert whole(site.engine.state) == before
        assert site.backing_off() == {}
    with pytest.raises(NoAnswer):
        site.classify({"x": 0.5})
    beside = Site("s", classifiers={"broken": broken, "one": lambda _: 1}, learnt=False)
    assert beside.choose({"x": 0.5}) == "one"


def helpdesk(count: int = 600, **options: Any) -> Site:
    given: dict[str, Any] = {"costs": {"large": 0.2}, "context": KIND, "learnt": False, **options}
    site = Site("helpdesk", classifiers=MODELS, **given)
    for item in items(count):
        site.learn(site.classify(item), truth(item))
    return site


def test_an_explanation_is_a_sentence_and_two_tables() -> None:
    site = helpdesk()
    item = {"kind": "c", "size": 3, "luck": 0.5}
    why = site.explain(item)
    small_one, large_one = why.arms
    sentence, _, heading, *rows = str(why).splitlines()
    assert sentence == (
        f"kind = c: small is right {100 * small_one.gain:.0f}% of the time, "
        f"large {100 * large_one.gain:.0f}% less 20% cost: large"
    )
    assert heading.split() == ["arm", "expected", "gain", "cost", "net", "at", "best"]
    assert rows[1].split() == ["large", f"{large_one.gain:.3f}", "0.2", f"{large_one.net:.3f}", *rows[1].split()[-2:]]
    assert rows[1].endswith("chosen")
    assert (why.arm, why.phase, why.now) == ("large", Phase.EXPLOIT, "large")
    assert sum(each.view.share for each in why.views.values()) == pytest.approx(1.0)
    for arm in why.arms:
        whole_gain = sum(each.view.share * each.forecasts[arm.name] for each in why.views.values())
        assert whole_gain == pytest.approx(arm.gain)
        assert arm.at_best is not None
        assert arm.at_best >= arm.net - 1e-9
    assert small_one.at_best == small_one.net  # every label scores it: nothing needs to be found out
    html = why._repr_html_()
    assert html.count("<table>") == 2
    assert html.startswith("<p>kind = c: small is right")


def test_what_explores_says_so_and_an_arm_that_cannot_be_chosen_says_why() -> None:
    site = helpdesk(3)
    why = site.explain({"kind": "a", "size": 1, "luck": 0.1})
    assert why.phase is Phase.EXPLORE
    assert why.sentence().endswith(f": {why.arm}, to learn about it")
    site.pause("large")
    why = site.explain({"kind": "a", "size": 1, "luck": 0.1})
    assert [(each.state, each.at_best is None) for each in why.arms] == [("chosen", False), ("paused", True)]
    assert "large" not in why.sentence()


def test_a_decision_is_explained_by_what_is_known_now() -> None:
    site = helpdesk()
    item = {"kind": "c", "size": 3, "luck": 0.5}
    expected = site.explain(item)
    decision = site.classify(item)
    why = site.explain(decision)
    assert [(each.name, each.gain, each.net) for each in why.arms] == [
        (each.name, each.gain, each.net) for each in expected.arms
    ]
    assert (why.arm, why.now, why.subject) == ("large", "large", f"decision {decision.id} (kind = c)")
    site.learn(decision, truth(item))
    site.set_cost("large", 0.9)
    later = site.explain(decision)
    assert (later.arm, later.now) == ("large", "small")
    assert later.sentence().endswith("cost: large; now it would be small")
    with pytest.raises(ArmError):
        site.explain(decision._replace(arm="gone"))
    with pytest.raises(SettingError, match="mixes views"):
        helpdesk(3, policy=POLICIES["ZoomingKLUCB"], context=axes.Feature("size", range=(0, 20))).explain(item)


def test_gains_that_are_no_labels_are_no_percentages() -> None:
    site = Site("s", classifiers=MODELS, context=KIND, learnt=False)
    for item in items(9):
        site.learn(site.classify(item), score=0.25)
    assert "is right" not in site.explain(items(1)[0]).sentence()
    assert "gains 0." in site.explain(items(1)[0]).sentence()


def test_weights_are_a_dict_that_prints_as_a_table() -> None:
    weights = helpdesk().weights()
    assert weights["kind"].is_heaviest
    title, heading, first, *_ = str(weights).splitlines()
    assert (title, heading.split()) == (f"{len(weights)} views", ["view", "weight"])
    assert first.split() == ["kind", f"{100 * weights['kind'].share:.1f}%"]
    assert weights._repr_html_().startswith("<table>")
    many = Site("s", classifiers=MODELS, context=[axes.Feature(f"x{n}", range=(0, 1)) for n in range(5)]).weights()
    assert str(many).splitlines()[-1].startswith(f"{len(many) - 10} more")


def test_a_phase_prints_as_a_word() -> None:
    decision = helpdesk(3).classify(items(1)[0])
    assert f"phase='{decision.phase.name.lower()}'" in repr(decision)
    assert str(Phase.TRAIN) == "train"
