"""Real models on small real data, and the files that people make of them."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from cosend.streams.traffic import traffic

LogisticRegression: Any = importlib.import_module("sklearn.linear_model").LogisticRegression
DecisionTree: Any = importlib.import_module("sklearn.tree").DecisionTreeClassifier
StandardScaler: Any = importlib.import_module("sklearn.preprocessing").StandardScaler
OneHotEncoder: Any = importlib.import_module("sklearn.preprocessing").OneHotEncoder
ColumnTransformer: Any = importlib.import_module("sklearn.compose").ColumnTransformer
make_pipeline: Any = importlib.import_module("sklearn.pipeline").make_pipeline
load_iris: Any = importlib.import_module("sklearn.datasets").load_iris
DataFrame: Any = importlib.import_module("pandas").DataFrame
skops: Any = importlib.import_module("skops.io")
joblib: Any = importlib.import_module("joblib")
GaussianNB: Any = importlib.import_module("river.naive_bayes").GaussianNB

_iris = load_iris()
FEATURES: list[str] = [str(name) for name in _iris.feature_names]  # "sepal length (cm)" and three more
KINDS: list[str] = [str(_iris.target_names[k]) for k in _iris.target]
TABLE = np.asarray(_iris.data, dtype=np.float64)
ITEMS = [dict(zip(FEATURES, row, strict=True)) for row in TABLE.tolist()]
SOME = slice(0, 150, 11)  # of every kind

COLUMNS = ("service", "src_bytes", "serror_rate")
_rows = list(traffic(400, seed=1).rows())
CONNECTIONS = [{name: row[name] for name in COLUMNS} for row, _ in _rows]
ATTACKS = [label for _, label in _rows]


def logistic(*, names: bool = False) -> Any:
    """Return a model of the iris data that skops trusts."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return model.fit(DataFrame(ITEMS) if names else TABLE, KINDS)


def tree() -> Any:
    return DecisionTree(random_state=0).fit(TABLE, KINDS)


def river_model() -> Any:
    model = GaussianNB()
    for item, kind in zip(ITEMS, KINDS, strict=True):
        model.learn_one(item, kind)
    return model


def of_connections() -> Any:
    """Return a model of columns of several types."""
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["src_bytes", "serror_rate"]), ("text", OneHotEncoder(), ["service"])]
    )
    return make_pipeline(columns, DecisionTree(random_state=0)).fit(DataFrame(CONNECTIONS), ATTACKS)


def write_skops(folder: Path, model: Any, name: str = "old.skops") -> str:
    skops.dump(model, folder / name)
    return name


def write_joblib(folder: Path, model: Any, name: str = "old.joblib") -> str:
    joblib.dump(model, folder / name)
    return name


def write_pickle(folder: Path, model: Any, name: str = "old.pkl") -> str:
    (folder / name).write_bytes(pickle.dumps(model))
    return name


def write_onnx(folder: Path, model: Any, sample: Any, name: str = "old.onnx", **options: Any) -> str:
    """Write what skl2onnx makes of a model; imported here because it takes a second."""
    convert = importlib.import_module("skl2onnx").to_onnx
    (folder / name).write_bytes(convert(model, sample, **options).SerializeToString())
    return name


def iris_onnx(folder: Path) -> str:
    return write_onnx(folder, logistic(), TABLE[:1].astype(np.float32))


def connections_onnx(folder: Path) -> str:
    sample = DataFrame(CONNECTIONS[:1]).astype({"src_bytes": np.float32, "serror_rate": np.float32})
    return write_onnx(folder, of_connections(), sample)
