"""Models from files: what they say is what the model said, and whatever is wrong with one is said in a sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import CosendError, ModelError, SettingError
from cosend.models.adapters import known_labels
from cosend.models.loading import load_model
from tests.classifiers import models
from tests.classifiers.models import FEATURES, ITEMS, TABLE


@pytest.mark.parametrize(
    ("write", "trusted"), [(models.write_skops, False), (models.write_joblib, True), (models.write_pickle, True)]
)
@pytest.mark.parametrize("names", [False, True])
def test_a_model_from_a_file_says_what_the_model_says(
    tmp_path: Path, write: Callable[[Path, Any], str], trusted: bool, names: bool
) -> None:
    fitted = models.logistic(names=names)
    said = fitted.predict(models.DataFrame(ITEMS) if names else TABLE).tolist()
    classifier = load_model(write(tmp_path, fitted), tmp_path, trusted=trusted, features=FEATURES)
    turned = [dict(reversed(item.items())) | {"station": 3} for item in ITEMS]
    assert len(set(said)) == 3
    assert classifier.predict(turned) == said
    assert known_labels(classifier) == frozenset(said)


def test_paths_are_relative_to_the_folder_or_absolute_and_endings_may_be_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    models.write_skops(tmp_path / "deep", models.logistic(), "OLD.SKOPS")
    for name in ("deep/OLD.SKOPS", str(tmp_path / "deep" / "OLD.SKOPS")):
        assert load_model(name, tmp_path).predict(ITEMS[:1]) == ["setosa"]


def test_hidden_columns_do_not_reach_a_model(tmp_path: Path) -> None:
    classifier = load_model(models.write_skops(tmp_path, models.logistic()), tmp_path, hide=["station"])
    assert classifier.predict([{"station": 3, **ITEMS[0]}, {**ITEMS[-1], "station": 3}]) == ["setosa", "virginica"]
    classifier = load_model("old.skops", tmp_path, features=FEATURES, hide=["station"])
    assert classifier.predict([{"station": 3, **ITEMS[0]}]) == ["setosa"]


class Ruins:
    """Ruins a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("write", [models.write_joblib, models.write_pickle])
@pytest.mark.parametrize("trusted", [False, 1])
def test_a_pickle_that_is_not_trusted_runs_nothing_and_the_error_shows_the_way_to_skops(
    tmp_path: Path, write: Callable[[Path, Any], str], trusted: Any
) -> None:
    name = write(tmp_path, Ruins(tmp_path / "ruined"))
    with pytest.raises(ModelError, match=r"old\..*runs whatever code is in it; set trusted = true .*skops\.io\.dump"):
        load_model(name, tmp_path, trusted=trusted)
    assert not (tmp_path / "ruined").exists()
    with pytest.raises(ModelError, match="it holds None"):  # what Path.touch returns
        load_model(name, tmp_path, trusted=True)
    assert (tmp_path / "ruined").exists()


class Home:
    """A model of a type that skops has never heard of."""

    def predict(self, rows: Any) -> list[int]:
        return [1] * len(rows)


@pytest.mark.parametrize(
    ("model", "kind"), [(Home(), "tests.classifiers.test_loading.Home"), (models.tree(), "sklearn.tree._tree.Tree")]
)
@pytest.mark.parametrize("trusted", [False, 1])
def test_types_that_skops_does_not_trust_are_refused_by_name_unless_the_file_is_trusted(
    tmp_path: Path, model: Any, kind: str, trusted: Any
) -> None:
    name = models.write_skops(tmp_path, model)
    assert load_model(name, tmp_path, trusted=True).predict(ITEMS[:1]) in ([1], models.KINDS[:1])
    with pytest.raises(ModelError) as caught:
        load_model(name, tmp_path, trusted=trusted)
    assert f"types that skops does not trust: {kind!r}; set trusted = true" in str(caught.value)
    assert f"skops.io.load(path, trusted=[{kind!r}])" in str(caught.value)


def test_what_the_error_about_types_advises_works(tmp_path: Path) -> None:
    models.write_skops(tmp_path, models.tree())
    (tmp_path / "reviewed.py").write_text(
        "from pathlib import Path\nimport skops.io\npath = Path(__file__).with_name('old.skops')\n"
        "old = skops.io.load(path, trusted=['sklearn.tree._tree.Tree'])\n"
    )
    assert load_model("reviewed:old", tmp_path).predict(ITEMS) == models.KINDS


@pytest.mark.parametrize("ending", ["skops", "onnx", "joblib", "pkl", "pickle"])
def test_missing_empty_and_corrupt_files_and_folders_are_named(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"empty.{ending}").touch()
    (tmp_path / f"corrupt.{ending}").write_bytes(b"garbage\n" * 30)
    (tmp_path / f"folder.{ending}").mkdir()
    for name, said in (
        ("missing", "there is no file .*relative to the folder"),
        ("empty", r"cannot be loaded \(EOFError|is not a readable (skops|ONNX) file"),
        ("corrupt", r"cannot be loaded \(ValueError|is not a readable (skops|ONNX) file"),
        ("folder", "cannot be read .*Is a directory"),
        ("long" * 100, "cannot be read .*File name too long"),
    ):
        with pytest.raises(ModelError, match=f"^model '{name[:50]}.*{ending}': .*({said})") as caught:
            load_model(f"{name}.{ending}", tmp_path, trusted=True)
        assert "\n" not in str(caught.value)


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    files = (models.write_skops, models.write_joblib, models.write_pickle)
    for name in [write(tmp_path, models.logistic()) for write in files] + [models.iris_onnx(tmp_path)]:
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ModelError, match=f"^model '{name}': "):
            load_model(name, tmp_path, trusted=True)


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ({"a": 1}, "it holds {'a': 1}; it must hold a model with predict"),
        (models.LogisticRegression, "it holds the class LogisticRegression, not a model"),
        (models.LogisticRegression(), "it holds a LogisticRegression that was never fitted"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, thing: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        load_model(models.write_pickle(tmp_path, thing), tmp_path, trusted=True)


@pytest.mark.parametrize("model", ["tree", "old.bin", "young.py"])
def test_what_is_neither_a_known_file_nor_a_module_is_refused_with_what_is_allowed(tmp_path: Path, model: str) -> None:
    with pytest.raises(ModelError, match=rf"^model '{model}': .*\.skops, \.onnx, .* or module:callable"):
        load_model(model, tmp_path)
    with pytest.raises(SettingError, match=r"^model must be"):
        load_model(f"{model}\0", tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"features": "age"}, "features must be a list of names"),
        ({"features": []}, "features must be a list of at least one name"),
        ({"features": [1]}, "features must be a list of names, each of them once"),
        ({"features": ["a", "a"]}, "features must be a list of names, each of them once"),
        ({"hide": "age"}, "hide must be a list of names"),
        ({"features": ["a", "b"], "hide": ["b", "c"]}, "hide must be without 'b', which features names too"),
        ({"features": FEATURES[:3]}, r"it needs 'petal width \(cm\)', which features does not name; its features are"),
        ({"hide": FEATURES[3:]}, r"it needs 'petal width \(cm\)', which hide takes away"),
        ({"names": False, "features": ["a", "b"]}, "it takes 4 features and features names 2: 'a', 'b'"),
    ],
)
def test_features_that_do_not_fit_are_found_when_the_model_is_loaded(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    fitted = models.logistic(names=options.pop("names", True))
    with pytest.raises(CosendError, match=said):
        load_model(models.write_skops(tmp_path, fitted), tmp_path, **options)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("a.skops", "skops.io", "models"), ("a.joblib", "joblib", "models"), ("a.onnx", "onnxruntime", "onnx")],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
) -> None:
    (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, module, None)
    package = module.partition(".")[0]
    with pytest.raises(ModelError, match=rf"'{name}': it needs {package}, .* pip install '\.\[{extra}\]'"):
        load_model(name, tmp_path, trusted=True)


@pytest.mark.compiled
@pytest.mark.parametrize("module", ["cosend", "cosend.models.loading", "cosend.testing"])
def test_importing_loads_no_library_of_models(module: str) -> None:
    heavy = ("skops", "onnxruntime", "onnx", "sklearn", "joblib", "river", "pandas", "pytest")
    code = f"import sys, {module}; sys.exit(' '.join(each for each in {heavy} if each in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, "")
