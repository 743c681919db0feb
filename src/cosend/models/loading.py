"""From what a network file says of a model to a classifier.

    model = "old.skops"       a scikit-learn model as skops writes it; trees and neighbours only with trusted = true
    model = "old.joblib"      a pickle, also .pkl and .pickle: runs code, so only with trusted = true
    model = "old.onnx"        ONNX Runtime
    model = "models:young"    something in a Python module beside the file: see `modules.py`

Paths are relative to the folder of the file. Whatever is wrong is a `ModelError` with what the file says, or a
`SettingError` with the key.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from cosend.checks import check_path, check_text
from cosend.errors import ModelError, SettingError, listed, shown
from cosend.models.adapters import Classifier, SeesAllBut, SeesOnly, SklearnModel, as_classifier, check_names
from cosend.models.model_files import PICKLES, from_pickle, from_skops
from cosend.models.onnx_model import OnnxColumns, as_skl2onnx, from_onnx
from cosend.models.python_modules import from_module

ALLOWED: Final = (
    "a model is a file that ends in .skops, .onnx, .joblib, .pkl or .pickle, or module:callable, as in 'models:young'"
)


def load_model(
    model: str, folder: Path, *, trusted: bool = False, features: Sequence[str] | None = None, hide: Sequence[str] = ()
) -> Classifier:
    """Return the classifier that a file in this folder names.

    `trusted` lets a pickle run, and a skops file have types that skops does not trust; it changes nothing for others.
    The model sees only `features`, in this order, or else all but those of `hide`.
    """
    check_text("model", model)
    check_path("model", model)
    _check_features(features, hide)
    classifier = _load(model, Path(folder), trusted)
    _check_needs(model, classifier, features, hide)
    if features is not None:
        return SeesOnly(classifier, features)
    return SeesAllBut(classifier, hide) if hide else classifier


def _load(model: str, folder: Path, trusted: bool) -> Classifier:
    path = folder / model
    suffix = path.suffix.lower()
    if suffix == ".skops":
        return _fitted(model, from_skops(model, path, trusted))
    if suffix in PICKLES:
        return _fitted(model, from_pickle(model, path, trusted))
    if suffix == ".onnx":
        return from_onnx(model, path)
    if ":" in model:
        return _fitted(model, from_module(model, folder))
    raise ModelError(model, "unsupported file type" if suffix else "neither a file nor a module", ALLOWED)


def _fitted(model: str, thing: Any) -> Classifier:
    """Return a thing that was loaded as a classifier, if it is one and is fitted."""
    allowed = "it must hold a model with predict or predict_one, or a function from an item to a label"
    if isinstance(thing, type):
        raise ModelError(model, f"it holds the class {thing.__name__}, not a model", allowed)
    try:
        classifier = as_classifier(thing)
    except SettingError as error:
        raise ModelError(model, f"it holds {shown(thing)}", allowed) from error
    if _is_unfitted(thing):
        raise ModelError(model, f"it holds a {type(thing).__name__} that was never fitted", "fit it first")
    return classifier


def _is_unfitted(thing: Any) -> bool:
    base = sys.modules.get("sklearn.base")  # a model of scikit-learn has loaded it
    if base is None or not isinstance(thing, base.BaseEstimator) or not hasattr(thing, "fit"):
        return False
    validation = import_module("sklearn.utils.validation")
    try:
        validation.check_is_fitted(thing)
    except import_module("sklearn.exceptions").NotFittedError:
        return True
    return False


def _check_features(features: Any, hide: Any) -> None:
    for setting, names in (("features", [] if features is None else features), ("hide", hide)):
        check_names(setting, names)
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise SettingError(setting, names, "a list of names, each of them once")
    if features is not None and not features:
        raise SettingError("features", features, "a list of at least one name")
    if both := set(features or ()) & set(hide):
        raise SettingError("hide", hide, f"without {listed(sorted(both))}, which features names too")


def _check_needs(model: str, classifier: Classifier, features: Sequence[str] | None, hide: Sequence[str]) -> None:
    """Raise if a model that knows its features will never see all of them."""
    needs = needed_features(classifier)
    seen = None if features is None else {*features, *map(as_skl2onnx, features)}
    missing = [name for name in needs if name in hide or (seen is not None and name not in seen)]
    if missing:
        why = "hide takes away" if hide else "features does not name"
        raise ModelError(model, f"it needs {listed(missing)}, which {why}", f"its features are {listed(needs)}")
    width = getattr(getattr(classifier, "model", None), "n_features_in_", None)
    if not needs and features is not None and isinstance(width, int) and width != len(features):
        raise ModelError(model, f"it takes {width} features and features names {len(features)}: {listed(features)}")


def needed_features(classifier: Classifier) -> list[str]:
    """Return the features that a model was fitted with, or none if it does not say."""
    if isinstance(classifier, OnnxColumns):
        return classifier.names if len(classifier.names) > 1 else []
    return (classifier.features or []) if isinstance(classifier, SklearnModel) else []
