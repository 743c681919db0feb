"""From the table of a model in a network file to a classifier.

    model = "old.skops"       a scikit-learn model as skops writes it; trees and neighbours only with trusted = true
    model = "old.joblib"      a pickle, also .pkl and .pickle: runs code, so only with trusted = true
    model = "old.onnx"        ONNX Runtime
    model = "models:young"    something in a Python module next to the file: see `python_modules.py`
    model = "oip:https://..." something that answers over HTTP, also openai:, mlflow: and http: see `endpoints.py`
    model = "return:large"    only a name, for programs that call the model themselves

Paths are relative to the folder of the file. A mistake is a `ModelError` with the words of the file, or a
`SettingError` with the key.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from cosend.checks import check_path, check_text
from cosend.errors import ModelError, SettingError, in_one_line, install, listed, shown
from cosend.models.adapters import (
    Classifier,
    Returns,
    SeesAllBut,
    SeesOnly,
    SklearnModel,
    as_classifier,
    check_names,
)
from cosend.models.endpoints import Endpoint, kind_of
from cosend.models.onnx_model import OnnxColumns, as_skl2onnx, from_onnx
from cosend.models.python_modules import first_on_the_path, from_module

PICKLES: Final = (".joblib", ".pkl", ".pickle")
MOST_UNPACKED: Final = 2**28  # bytes of a skops file, once it is unpacked, however small it is;
MOST_TIMES: Final = 20  # a larger one may be this many times as large as the file
MOST_SCHEMA: Final = 2**25  # bytes that say what is in it: these are read before anything else
TO_SKOPS: Final = "skops.io.dump(fitted, 'file.skops') writes a file that runs nothing"
RETURN: Final = "return:"
ALLOWED: Final = (
    "a model is a file that ends in .skops, .onnx, .joblib, .pkl or .pickle, or module:callable, as in 'models:young', "
    "or an endpoint, as in 'openai:https://host/v1#name', or return:NAME"
)


def load_model(
    model: str,
    folder: Path,
    *,
    trusted: bool = False,
    features: Sequence[str] | None = None,
    hide: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Classifier:
    """Return the classifier that a file in this folder names.

    `trusted` lets a pickle run, and a skops file have types that skops does not trust; it changes nothing for others.
    The model sees only `features`, in this order, or else all without `hide`. `options` are for an endpoint.
    """
    check_text("model", model)
    check_path("model", model)
    _check_features(features, hide)
    if kind_of(model) is not None:
        return Endpoint(model, features=features, hide=hide, folder=folder, **(options or {}))
    if model.startswith(RETURN):
        return Returns(model.removeprefix(RETURN))
    classifier = _load(model, Path(folder), trusted)
    _check_needs(model, classifier, features, hide)
    if features is not None:
        return SeesOnly(classifier, features)
    return SeesAllBut(classifier, hide) if hide else classifier


def _load(model: str, folder: Path, trusted: bool) -> Classifier:
    path = folder / model
    suffix = path.suffix.lower()
    if suffix == ".skops":
        return _fitted(model, _from_skops(model, path, trusted))
    if suffix in PICKLES:
        return _fitted(model, _from_pickle(model, path, trusted))
    if suffix == ".onnx":
        return from_onnx(model, path, _contents(model, path), _needed(model, "onnxruntime", "onnx"))
    if ":" in model:
        return _fitted(model, from_module(model, folder))
    raise ModelError(model, "unsupported file type" if suffix else "neither a file nor a module", ALLOWED)


def _contents(model: str, path: Path) -> bytes:
    """Return what is in the file of a model."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(model, f"there is no file {path}", "paths are relative to the folder of the file") from error
    except OSError as error:
        raise ModelError(model, f"{path} cannot be read ({in_one_line(error)})") from error


def _needed(model: str, module: str, extra: str) -> Any:
    """Return a module that only this kind of model needs, or say what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ModelError(model, f"it needs {package}, which is not installed", install(extra)) from error


def _from_skops(model: str, path: Path, trusted: bool) -> Any:
    """Return the model of a skops file, if it is made of types that skops trusts by itself, or is trusted as a whole.

    skops trusts what cannot harm, which trees and neighbours of scikit-learn are not among: what is in them goes to
    compiled code as it is.
    """
    data = _contents(model, path)
    skops = _needed(model, "skops.io", "models")
    try:
        _check_unpacked(model, path, data)
        unknown = skops.get_untrusted_types(data=data)
        with first_on_the_path(path.parent):  # of the user's own classes
            fitted = skops.loads(data, trusted=unknown) if trusted is True or not unknown else None
    except ModelError:
        raise
    except Exception as error:  # a file that anyone may have written: whatever does not fit in it raises anything
        raise ModelError(model, f"{path} is not a readable skops file ({in_one_line(error)})") from error
    if unknown and trusted is not True:
        load = f"skops.io.load(path, trusted=[{listed(unknown)}])"
        raise ModelError(
            model,
            f"{path} has types that skops does not trust: {listed(unknown)}",
            "set trusted = true if you know who wrote it, or, to trust no more than these types, load it in a module "
            f"with {load} and name that, as in model = 'models:old'",
        )
    return fitted


def _check_unpacked(model: str, path: Path, data: bytes) -> None:
    """Raise if a zip file would fill the memory: a few bytes can be packed that unpack into as many as one likes."""
    with ZipFile(BytesIO(data)) as packed:  # which never unpacks more than it says here
        sizes = {each.filename: each.file_size for each in packed.infolist()}
    if sum(sizes.values()) > max(MOST_UNPACKED, MOST_TIMES * len(data)) or sizes.get("schema.json", 0) > MOST_SCHEMA:
        raise ModelError(
            model,
            f"{path} has {len(data):,} bytes and would unpack into {sum(sizes.values()):,}",
            "skops.io.dump(fitted, 'file.skops') without compression writes a file that can be loaded",
        )


def _from_pickle(model: str, path: Path, trusted: bool) -> Any:
    """Return the model of a pickle, if it is trusted."""
    if trusted is not True:
        raise ModelError(
            model,
            "loading a pickle runs whatever code is in it",
            f"set trusted = true if you know who wrote it, or use skops: {TO_SKOPS}",
        )
    data = _contents(model, path)
    joblib = _needed(model, "joblib", "models") if path.suffix.lower() == ".joblib" else None
    try:
        with first_on_the_path(path.parent):  # of the user's own classes
            return joblib.load(BytesIO(data)) if joblib else pickle.loads(data)  # noqa: S301 - the user has said so
    except Exception as error:  # a pickle runs code, which may raise anything
        raise ModelError(model, f"{path} cannot be loaded ({in_one_line(error)})") from error


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
