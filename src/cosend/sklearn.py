"""A site as a classifier of scikit-learn: models that were trained on different data, and which one to use where.

    from cosend.sklearn import RoutingClassifier

    routing = RoutingClassifier({"tree": tree, "logit": logit}, context=Feature("age"), costs={"logit": 0.05})
    routing.fit(X, y).predict(X)

A thin layer over `Site`, available as `site_`. Rows of an array are items with the features x0, x1, ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from cosend.algorithm.policies import Policy
from cosend.axes import Axis, as_rows
from cosend.checks import any_missing, check_kind, check_unit, is_missing
from cosend.engine.learnt_arms import Learnt
from cosend.errors import CosendError, install
from cosend.site import Site

try:
    base: Any = import_module("sklearn.base")
except ImportError as error:
    raise CosendError(f"cosend.sklearn needs scikit-learn: {install('models')}") from error
multiclass: Any = import_module("sklearn.utils.multiclass")
validation: Any = import_module("sklearn.utils.validation")

BATCH: Final = 32  # rows that are decided together before their labels are learnt


class RoutingClassifier(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns from labelled rows which of several models to use for which context, net of what the models cost.

    classifiers  name -> model
    context      what the choice may depend on, as for `Site`
    costs        name -> cost of using a model in [0, 1]; 0 unless given
    policy       how it explores, as for `Site`
    training     the share of the rows of `fit`, of each class, that trains clones of the models; the other rows teach
                 which of them to use. 0 takes the models as they are: they have been fitted
    seed         all randomness follows from it

    >>> from cosend import axes
    >>> from sklearn.dummy import DummyClassifier
    >>> models = {str(n): DummyClassifier(strategy="constant", constant=n) for n in (0, 1)}
    >>> X = [[37 * n % 200 / 100] for n in range(200)]  # as they come, not sorted by their labels
    >>> y = [int(x >= 1) for (x,) in X]
    >>> routing = RoutingClassifier(models, context=axes.Feature("x0", range=(0, 2))).fit(X, y)
    >>> routing.predict([[0.2], [1.8]])
    array([0, 1])

    Rows are learnt in their order. Two arms that the site learns itself see the newest label before a row: shuffle rows
    that are sorted by their labels.

    `predict` uses the best model so far for every row, explores nothing and changes nothing. Exploring is for `fit` and
    `partial_fit`, which run the models that cost nothing on every row. If each call of a model costs real money, use a
    separate `Site` with `score_local="used"`: there each label scores only the model that answered.
    """

    def __init__(
        self,
        classifiers: Mapping[str, Any] | None = None,
        *,
        context: Axis | Sequence[Axis] | None = None,
        costs: Mapping[str, float] | None = None,
        policy: Policy | None = None,
        training: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.classifiers = classifiers
        self.context = context
        self.costs = costs
        self.policy = policy
        self.training = training
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        """Train the models on a part of the rows, and learn from the others which one to use where.

        Rows whose label is missing (None, NaN, NaT or `pd.NA`) are skipped, here and by `partial_fit`; `missing_` is
        how many these were.
        """
        check_kind("classifiers", self.classifiers, Mapping, "a mapping from names to models")
        check_unit("training", self.training, "the share of rows that train the models")
        X, y = self._checked(X, y)
        self.classes_ = np.unique(y)
        trains = _training_rows(y, self.training, self.seed)
        self.models_ = {name: self._trained(model, X, y, trains) for name, model in (self.classifiers or {}).items()}
        self.site_ = Site(
            "routing",
            classifiers=self.models_,
            context=self.context,
            costs=self.costs,
            policy=self.policy,
            seed=self.seed,
            score_local="all",
        )
        self._route(_part(X, ~trains), y[~trains])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows which model to use where; models that can continue to learn do that afterwards.

        The first call is a `fit`, so it needs rows of every class. `classes` is there for scikit-learn only.
        """
        if not hasattr(self, "site_"):
            return self.fit(X, y)
        X, y = self._checked(X, y, reset=False)
        self.classes_ = np.union1d(self.classes_, y)
        self._route(X, y)
        if self.training:
            for model in self.models_.values():
                if hasattr(model, "partial_fit"):
                    model.partial_fit(X, y)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return for every row the label of the model that is the best one there so far."""
        validation.check_is_fitted(self, "site_")
        X = validation.validate_data(self, X, reset=False, skip_check_array=_is_frame(X))
        rows = self._rows(X)
        arms = np.array(self.site_.best_model(rows))
        labels = np.empty(len(arms), self.classes_.dtype)
        for arm in np.unique(arms).tolist():
            mine = arms == arm
            if arm in self.site_.engine.state.learnt.kinds:
                labels[mine] = self.site_.predict(arm, [rows[n] for n in np.flatnonzero(mine)])
            else:
                labels[mine] = self.models_[arm].predict(_part(X, mine))
        return labels

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was pickled; joblib may map it read-only, and a site writes to its memory."""
        super().__setstate__(state)
        if hasattr(self, "site_"):
            self.site_.restore(self.site_.state())()

    def _checked(self, X: Any, y: Any, reset: bool = True) -> Any:
        """Return rows and labels as scikit-learn checks them, without rows whose label is missing."""
        X, y, self.missing_ = _labelled(X, y)
        X, y = validation.validate_data(self, X, y, reset=reset, skip_check_array=_is_frame(X) and y is not None)
        y = validation.column_or_1d(y, warn=True)
        validation.check_consistent_length(X, y)
        multiclass.check_classification_targets(y)
        return X, y

    def _trained(self, model: Any, X: Any, y: Any, trains: npt.NDArray[np.bool_]) -> Any:
        if isinstance(model, Learnt):
            return model
        return base.clone(model).fit(_part(X, trains), y[trains]) if self.training else model

    def _rows(self, X: Any) -> list[Any]:
        """Return rows as items, features by name."""
        if _is_frame(X):
            return as_rows("X", X)
        names = [f"x{n}" for n in range(X.shape[1])]
        return [dict(zip(names, row, strict=True)) for row in X.tolist()]

    def _route(self, X: Any, y: Any) -> None:
        rows, labels = self._rows(X), y.tolist()
        for start in range(0, len(rows), BATCH):
            decisions = self.site_.classify_many(rows[start : start + BATCH])
            self.site_.learn_many(decisions, labels[start : start + BATCH])


def _training_rows(y: npt.NDArray[Any], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return which rows train the models: this share of each class, rounded up, at random."""
    order = np.random.default_rng(seed).permutation(len(y))
    chosen = np.zeros(len(y), np.bool_)
    for label in np.unique(y):
        rows = order[y[order] == label]
        chosen[rows[: math.ceil(share * len(rows))]] = True
    return chosen


def _labelled(X: Any, y: Any) -> tuple[Any, Any, int]:
    """Return rows and their labels without those whose label is missing, and how many these are."""
    labels = y.tolist() if hasattr(y, "tolist") else y
    if not isinstance(labels, list | tuple) or not any_missing(labels):
        return X, y, 0
    known = np.array([not is_missing(label) for label in labels])
    if isinstance(X, list | tuple):
        X = [row for row, is_known in zip(X, known, strict=True) if is_known]
    else:
        validation.check_consistent_length(X, labels)
        X = _part(X, known)
    return X, [label for label in labels if not is_missing(label)], int((~known).sum())


def _is_frame(X: Any) -> bool:
    """Tell whether this is a DataFrame, whose values are the models' to check."""
    return hasattr(X, "columns")


def _part(X: Any, chosen: npt.NDArray[np.bool_]) -> Any:
    return X.loc[chosen] if hasattr(X, "loc") else X[chosen]
