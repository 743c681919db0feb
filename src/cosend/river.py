"""A site as a classifier of river: online models, and which one to use where.

    from cosend.river import RoutingClassifier

    routing = RoutingClassifier({"tree": tree, "bayes": bayes}, context=Feature("age"), costs={"tree": 0.05})
    evaluate.progressive_val_score(dataset, routing, metrics.Accuracy())

A thin layer over `Site`, available as `site`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from importlib import import_module
from typing import Any, Literal

from cosend.algorithm.policies import Policy
from cosend.axes import Axis, FromFunction
from cosend.checks import is_missing
from cosend.errors import CosendError, install
from cosend.site import Site

try:
    from river import base
except ImportError as error:
    raise CosendError(f"cosend.river needs river: {install('field')}") from error


class RoutingClassifier(base.Classifier):
    """Learns online which of several models to use for which context, net of what the models cost.

    classifiers  name -> model: of river, of scikit-learn, or a function; they are copied
    context      what the choice may depend on, as for `Site`
    costs        name -> cost of using a model in [0, 1]; 0 unless given
    policy       how it explores, as for `Site`
    learns_from  which labels a model that learns gets: of "all" items, or of those that it was "used" for
    seed         all randomness follows from it

    >>> from cosend import axes
    >>> models = {"zero": lambda item: 0, "one": lambda item: 1}
    >>> routing = RoutingClassifier(models, context=axes.Feature("x", range=(0, 1)))
    >>> for n in range(100):
    ...     x = 37 * n % 100 / 100  # as they come, not sorted by their labels
    ...     routing.learn_one({"x": x}, int(x >= 0.5))
    >>> routing.predict_one({"x": 0.1}), routing.predict_one({"x": 0.9})
    (0, 1)

    `predict_one` uses the best model so far and changes nothing. Exploring is for `learn_one`, which lets the site
    decide for the item and tells it the label; it runs the models that cost nothing. If each call of a model costs real
    money, use a `Site` with `score_local="used"`: there each label scores only the model that answered.
    """

    def __init__(
        self,
        classifiers: Mapping[str, Any],
        *,
        context: Axis | Sequence[Axis] | None = None,
        costs: Mapping[str, float] | None = None,
        policy: Policy | None = None,
        learns_from: Literal["used", "all"] = "all",
        seed: int = 0,
    ) -> None:
        self.classifiers = classifiers
        self.context = context
        self.costs = costs
        self.policy = policy
        self.learns_from: Literal["used", "all"] = learns_from
        self.seed = seed
        self.site = Site(
            "routing",
            classifiers={name: deepcopy(model) for name, model in classifiers.items()},  # `clone` needs them as given
            context=context,
            costs=costs,
            policy=policy,
            seed=seed,
            learns_from=learns_from,
        )

    def predict_one(self, x: dict[base.typing.FeatureName, Any], **kwargs: Any) -> base.typing.ClfTarget | None:
        """Return the label of the model that is the best one so far around this item."""
        (arm,) = self.site.best_model([x])
        (label,) = self.site.predict(arm, [x])
        return label  # type: ignore[no-any-return]  # whatever the model says

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget) -> None:
        """Let the site decide for the item, and tell it the label; without one there is nothing to learn."""
        if is_missing(y):
            return
        self.site.learn(self.site.classify(x), y)

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        """Give river's checks something to work with, whatever features their items have."""
        bayes, trees = import_module("river.naive_bayes"), import_module("river.tree")
        models = {"bayes": bayes.GaussianNB(), "tree": trees.HoeffdingTreeClassifier()}
        yield {"classifiers": models, "context": FromFunction(_how_full, "how full")}


def _how_full(item: Mapping[Any, Any]) -> float:
    """Return how many of up to 20 features an item has, as a number in [0, 1]."""
    return min(1.0, len(item) / 20)
