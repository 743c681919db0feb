"""`cosend.sklearn.RoutingClassifier` is a classifier as scikit-learn wants one, and routes."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from cosend import Learnt
from cosend.axes import Feature, FromFunction
from cosend.sklearn import RoutingClassifier

# Without types, because these libraries have none.
pandas: Any = import_module("pandas")
linear_model: Any = import_module("sklearn.linear_model")
DummyClassifier: Any = import_module("sklearn.dummy").DummyClassifier
DecisionTreeClassifier: Any = import_module("sklearn.tree").DecisionTreeClassifier
BASE: Any = import_module("sklearn.base")
estimator_checks: Any = import_module("sklearn.utils.estimator_checks")

pytestmark = pytest.mark.compiled

# The checks of scikit-learn that it does not pass, each with the reason: none.
EXPECTED_TO_FAIL: dict[str, str] = {}


def near_the_middle(item: dict[str, float]) -> float:
    return 0.5 + math.atan(next(iter(item.values()))) / math.pi


def always(label: str) -> Any:
    return DummyClassifier(strategy="constant", constant=label)


def people(rows: int, seed: int = 0) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return people of all ages: the young are well, the old are ill."""
    age = np.random.default_rng(seed).uniform(0, 100, rows)
    return pandas.DataFrame({"age": age, "noise": age * 0}), np.where(age < 50, "well", "ill")


def optimist_and_pessimist(**options: Any) -> RoutingClassifier:
    models = {"optimist": always("well"), "pessimist": always("ill")}
    return RoutingClassifier(models, context=Feature("age", range=(0, 100)), **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_it_passes_the_checks_of_scikit_learn() -> None:
    models = {"tree": DecisionTreeClassifier(max_depth=3, random_state=0), "logit": linear_model.LogisticRegression()}
    routing = RoutingClassifier(models, context=FromFunction(near_the_middle, "near the middle"))
    done = estimator_checks.check_estimator(routing, expected_failed_checks=EXPECTED_TO_FAIL, on_fail="raise")
    assert sum(check["status"] == "passed" for check in done) > 40


def test_each_model_is_used_where_it_is_right() -> None:
    x, y = people(1000)
    routing = optimist_and_pessimist().fit(x, y)
    assert routing.score(*people(500, seed=1)) > 0.95  # each model alone: 0.5
    assert routing.score(*people(500, seed=1)) == routing.score(*people(500, seed=1))


def test_a_model_that_costs_too_much_is_not_used() -> None:
    x, y = people(100)
    for cost, is_used in ((0.0, True), (1.0, False)):
        routing = optimist_and_pessimist(costs={"pessimist": cost}).fit(x, y)
        assert ("pessimist" in routing.site_.best_model(routing._rows(x))) is is_used


def test_fitted_models_are_taken_as_they_are() -> None:
    x, y = people(400)
    models = {"young": linear_model.LogisticRegression().fit(x, y), "none": always("well").fit(x, y)}
    routing = RoutingClassifier(models, context=Feature("age"), training=0).fit(x, y)
    assert routing.models_ == models
    assert routing.site_.learner.arrivals == 400


def test_half_of_the_rows_of_each_class_train_the_models() -> None:
    x = np.arange(10.0).reshape(-1, 1)
    y = np.array([0] * 7 + [1] * 2 + [2])
    routing = RoutingClassifier({"tree": DecisionTreeClassifier()}, context=Feature("x0")).fit(x, y)
    assert routing.models_["tree"].classes_.tolist() == [0, 1, 2]
    assert routing.site_.learner.arrivals == 10 - 4 - 1 - 1


def test_partial_fit_goes_on_with_the_routing_and_with_models_that_can_learn() -> None:
    x, y = people(300)
    models = {"sgd": linear_model.SGDClassifier(random_state=0), "tree": DecisionTreeClassifier()}
    routing = RoutingClassifier(models, context=Feature("age")).partial_fit(x, y, classes=["ill", "well"])
    steps, arrivals = routing.models_["sgd"].t_, routing.site_.learner.arrivals
    routing.partial_fit(*people(100, seed=1))
    assert routing.models_["sgd"].t_ == steps + 100
    assert routing.site_.learner.arrivals == arrivals + 100


def test_prediction_leaves_no_trace() -> None:
    x, y = people(300)
    routing = optimist_and_pessimist().fit(x, y)
    before = routing.site_.state()
    routing.predict(x)
    after = routing.site_.state()
    assert before.facts == after.facts
    assert all((array == after.arrays[name]).all() for name, array in before.arrays.items())


def test_no_context_needs_to_be_chosen() -> None:
    models = {"optimist": always("well"), "pessimist": always("ill")}
    routing = RoutingClassifier(models).fit(*people(2000))
    assert routing.score(*people(500, seed=1)) > 0.9  # each model alone: 0.5


class ErrsOnEveryThird(BASE.ClassifierMixin, BASE.BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Is wrong about every third row: of three of them, two are always right."""

    def __init__(self, rest: int = 0) -> None:
        self.rest = rest

    def fit(self, x: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: Any) -> Any:
        number, truth = np.asarray(x).T
        return np.where(number.astype(int) % 3 == self.rest, 1 - truth, truth).astype(int)


@pytest.mark.parametrize("training", [0, 0.5])
@pytest.mark.parametrize("as_frame", [False, True])
def test_a_stack_says_what_it_says_at_the_site(training: float, as_frame: bool) -> None:
    y = np.random.default_rng(0).integers(0, 2, 1200)
    x: Any = np.array([np.arange(1200), y]).T
    x = pandas.DataFrame(x, columns=["number", "truth"]) if as_frame else x
    models = {str(rest): ErrsOnEveryThird(rest).fit(x, y) for rest in range(3)}
    routing = RoutingClassifier({**models, "mine": Learnt.STACK}, training=training).fit(x, y)
    rows = routing._rows(x)
    assert routing.site_.predict("mine", rows) == [*map(routing.classes_.tolist().index, y)]
    assert set(routing.site_.best_model(rows)) <= {"mine", "grown"}  # trees are as right
    assert routing.score(x, y) == 1.0
