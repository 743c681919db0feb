"""`cosend.river.RoutingClassifier` is a classifier as river wants one, and routes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from cosend import Learnt
from cosend.axes import Feature
from cosend.river import RoutingClassifier

# Without types, because most of river has none.
checks: Any = import_module("river.checks")
datasets: Any = import_module("river.datasets")
dummy: Any = import_module("river.dummy")
evaluate: Any = import_module("river.evaluate")
metrics: Any = import_module("river.metrics")
naive_bayes: Any = import_module("river.naive_bayes")
tree: Any = import_module("river.tree")

pytestmark = pytest.mark.compiled


def people(rows: int, seed: int = 0) -> Iterator[tuple[dict[Any, Any], str]]:
    """Yield people of all ages: the young are well, the old are ill."""
    draw = random.Random(seed)
    for _ in range(rows):
        age = draw.uniform(0, 100)
        yield {"age": age}, "well" if age < 50 else "ill"


def optimist_and_pessimist(**options: Any) -> RoutingClassifier:
    models = {"optimist": lambda person: "well", "pessimist": lambda person: "ill"}
    return RoutingClassifier(models, context=Feature("age", range=(0, 100)), **options)


def checked(*, long: bool) -> None:
    """Run the checks of river whose streams are long, or all others."""
    for parameters in RoutingClassifier._unit_test_params():
        model = RoutingClassifier(**parameters)
        assert model._unit_test_skips() == set()
        for check in checks.yield_checks(model):
            if (check.__name__ == "check_bounded_memory_growth") is long:
                check(model.clone())


def test_it_passes_the_checks_of_river() -> None:
    checked(long=False)


@pytest.mark.claims
def test_it_passes_the_checks_of_river_with_long_streams() -> None:
    checked(long=True)


def test_each_model_is_used_where_it_is_right() -> None:
    accuracy = evaluate.progressive_val_score(people(1000), optimist_and_pessimist(), metrics.Accuracy())
    assert accuracy.get() > 0.9  # each model alone: 0.5


def test_labels_may_come_late() -> None:
    stream = [({**person, "second": float(n)}, label) for n, (person, label) in enumerate(people(1000))]
    late = evaluate.progressive_val_score(
        stream, optimist_and_pessimist(), metrics.Accuracy(), moment=lambda person: person["second"], delay=50
    )
    assert late.get() > 0.8


def test_models_of_river_learn_from_every_label_or_from_those_that_they_were_used_for() -> None:
    seen = {}
    for learns_from in ("all", "used"):
        models = {"bayes": naive_bayes.GaussianNB(), "most": dummy.PriorClassifier()}
        routing = RoutingClassifier(models, context=Feature("age"), learns_from=learns_from)
        for person, label in people(200):
            routing.learn_one(person, label)
        used = {arm.name: arm.decisions for arm in routing.site.summary().arms}  # what is learnt here too
        learnt = [classifier.model for classifier in routing.site.classifiers.values()]  # type: ignore[attr-defined]
        seen[learns_from] = [int(sum(learnt[0].class_counts.values())), int(learnt[1].n)]
        assert sum(models["bayes"].class_counts.values()) == 0  # what was given stays as it was
    assert seen["all"] == [200, 200]
    assert seen["used"] == [used["bayes"], used["most"]]
    assert 0 < sum(seen["used"]) < 200


def test_prediction_leaves_no_trace() -> None:
    routing = optimist_and_pessimist()
    for person, label in people(50):
        routing.learn_one(person, label)
    before = routing.site.state()
    for person, _ in people(50, seed=1):
        routing.predict_one(person)
    after = routing.site.state()
    assert before.facts == after.facts
    assert all((array == after.arrays[name]).all() for name, array in before.arrays.items())


def test_a_stack_says_what_it_says_at_the_site() -> None:
    """Each of three models errs on every third person, so that two of them are always right."""

    def errs_on(rest: int) -> Any:
        return lambda person: (person["n"] % 3 == rest) != (person["age"] < 50)

    models = {str(rest): errs_on(rest) for rest in range(3)}
    routing, draw = RoutingClassifier({**models, "mine": Learnt.STACK}), random.Random(0)
    items: list[dict[Any, Any]] = [{"n": n, "age": draw.uniform(0, 100)} for n in range(900)]
    for item in items[:800]:
        routing.learn_one(item, item["age"] < 50)
    before = routing.site.state().facts
    assert [routing.predict_one(item) for item in items[800:]] == [item["age"] < 50 for item in items[800:]]
    assert routing.site.state().facts == before
    assert routing.site.predict("mine", items[800:]) == [item["age"] < 50 for item in items[800:]]
    assert set(routing.site.best_model(items[800:])) <= {"mine", "grown"}  # trees are as right


@pytest.mark.parametrize("seed", range(4))
def test_before_anything_is_learnt_a_stack_says_nothing_as_models_of_river_do(seed: int) -> None:
    models = {"bayes": naive_bayes.GaussianNB(), "tree": tree.HoeffdingTreeClassifier(), "mine": Learnt.STACK}
    routing = RoutingClassifier(models, seed=seed)
    assert routing.predict_one({"x": 1.0}) is None
    routing.learn_one({"x": 1.0}, "a")
    assert routing.predict_one({"x": 1.0}) == "a"


def test_a_real_stream_of_river() -> None:
    models = {"bayes": naive_bayes.GaussianNB(), "tree": tree.HoeffdingTreeClassifier()}
    routing = RoutingClassifier(models, context=Feature("age_of_domain"))
    accuracy = evaluate.progressive_val_score(datasets.Phishing().take(500), routing, metrics.Accuracy())
    assert accuracy.get() > 0.7
