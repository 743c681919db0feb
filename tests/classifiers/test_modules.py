"""Models that a module holds: what becomes of each kind of callable, and what importing leaves behind."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosend.errors import ModelError
from cosend.models.adapters import Function, RiverModel, SklearnModel
from cosend.models.loading import load_model

MODELS = """
import river.naive_bayes
import sklearn.dummy

class Mine:
    learns = False
    def predict(self, items):
        return ["mine"] * len(items)
    def learn(self, item, label):
        pass

class Needs:
    def __init__(self, setting):
        pass

class Uncopied(river.naive_bayes.GaussianNB):
    def __deepcopy__(self, memo):
        raise RuntimeError("one only")

def young(item):
    return item["age"] < 40

def named(item, *, limit=40):
    return item["age"] < limit

def any_number(*values):
    return len(values)

def online():
    return river.naive_bayes.GaussianNB()

def with_default(seed=0):
    return river.naive_bayes.GaussianNB()

def closure():
    return lambda item: "closure"

async def later(item):
    return 1

def two(item, label):
    return 1

def gives_none():
    return None

def breaks():
    raise ValueError("no\\nway")

bayes = river.naive_bayes.GaussianNB()
uncopied = Uncopied()
dummy = sklearn.dummy.DummyClassifier(strategy="constant", constant="c").fit([[0]], ["c"])
unfitted = sklearn.dummy.DummyClassifier()
bound = Mine().predict
number = 5
"""
ITEM = {"age": 31}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder with modules, and have Python as it was before when the test is over."""
    before, path = set(sys.modules), list(sys.path)
    (tmp_path / "models.py").write_text(MODELS)
    yield tmp_path
    assert sys.path == path
    for name in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "kind", "label"),
    [
        ("young", Function, True),
        ("named", Function, True),
        ("any_number", Function, 1),
        ("closure", Function, "closure"),
        ("bound", Function, ["mine"]),
        ("online", RiverModel, None),
        ("with_default", RiverModel, None),
        ("bayes", RiverModel, None),
        ("dummy", SklearnModel, "c"),
    ],
)
def test_a_callable_becomes_what_it_can_do(folder: Path, name: str, kind: type, label: object) -> None:
    classifier = load_model(f"models:{name}", folder)
    assert type(classifier) is kind
    assert classifier.predict([ITEM] if name != "bound" else [[ITEM]]) == [label]
    assert classifier.learns == (kind is RiverModel)


def test_a_class_makes_a_model_and_installed_modules_are_found_too(folder: Path) -> None:
    assert load_model("models:Mine", folder).predict([ITEM]) == ["mine"]
    assert isinstance(load_model("river.naive_bayes:GaussianNB", folder), RiverModel)
    assert load_model("models:Mine", folder, features=["age"]).predict([ITEM]) == ["mine"]


@pytest.mark.parametrize("name", ["bayes", "online"])
def test_a_model_that_learns_is_taught_for_one_classifier_only(folder: Path, name: str) -> None:
    one, other = (load_model(f"models:{name}", folder) for _ in range(2))
    one.learn(ITEM, "ill")
    assert one.predict([ITEM]) == ["ill"]
    assert other.predict([ITEM]) == [None]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Needs", "it needs 1 argument; a function takes the item, and a class"),
        ("two", "it needs 2 arguments; a function takes the item"),
        ("later", "it is an async function"),
        ("gives_none", "it holds None; it must hold a model"),
        ("number", "it holds 5; it must hold a model"),
        ("unfitted", "it holds a DummyClassifier that was never fitted"),
        ("breaks", r"called to make a model, and failed \(ValueError: no way, models\.py line 48\)"),
        ("uncopied", r"copying it failed \(RuntimeError: one only, models\.py line 18\)"),
        ("yung", r"models\.py has no 'yung'; it has 'Mine', .*'young'"),
        ("young.old", r"models\.py has no 'young\.old'"),
        ("", r"not the name of something in a module; write module:callable"),
        ("a b", r"not the name of something in a module"),
    ],
)
def test_what_is_no_model_is_refused_with_the_reason(folder: Path, name: str, said: str) -> None:
    with pytest.raises(ModelError, match=f"^model 'models:{name}': .*{said}"):
        load_model(f"models:{name}", folder)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\n\n1 / 0\n", r"ZeroDivisionError: division by zero, broken\.py line 3"),
        ("def x(:\n", r"SyntaxError: .*broken\.py, line 1"),
        ("import sys\nsys.exit(3)\n", r"SystemExit: 3, broken\.py line 2"),
        ("import no_such_thing\n", r"No module named 'no_such_thing', broken\.py line 1"),
        ("import deeper\n", r"RuntimeError: deep down, deeper\.py line 2"),
    ],
)
def test_the_users_own_error_is_shown_in_one_line_with_its_place(folder: Path, source: str, said: str) -> None:
    (folder / "broken.py").write_text(source)
    (folder / "deeper.py").write_text("def f():\n    raise RuntimeError('deep\\n down')\nf()\n")
    for _ in range(2):  # a module that failed is not kept
        with pytest.raises(ModelError, match=f"^model 'broken:x': importing broken failed .*{said}") as caught:
            load_model("broken:x", folder)
        assert "\n" not in str(caught.value)
        assert "broken" not in sys.modules


@pytest.mark.parametrize("name", ["nowhere", "nowhere.inner", "package.nowhere"])
def test_a_module_that_is_nowhere_is_named_with_where_it_was_looked_for(folder: Path, name: str) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    with pytest.raises(ModelError, match=f"there is no .*{name}.py, and no installed module '{name}'"):
        load_model(f"{name}:x", folder)


def test_a_module_may_import_its_neighbours_and_packages_beside_the_file_are_found(folder: Path) -> None:
    (folder / "neighbour_7.py").write_text("seven = 7\n")
    (folder / "uses_7.py").write_text("import neighbour_7\n\ndef seven(item):\n    return neighbour_7.seven\n")
    (folder / "package_7").mkdir()
    (folder / "package_7" / "__init__.py").touch()
    (folder / "package_7" / "inner.py").write_text("from neighbour_7 import seven\n\ndef f(item):\n    return seven\n")
    assert load_model("uses_7:seven", folder).predict([ITEM]) == [7]
    assert load_model("package_7.inner:f", folder).predict([ITEM]) == [7]


def test_modules_of_one_name_in_two_folders_are_two_modules(folder: Path) -> None:
    for number in (1, 2):
        (folder / str(number)).mkdir()
        (folder / str(number) / "same.py").write_text(
            f"loads = []\ndef f(item):\n    return {number}\nloads.append(1)\n"
        )
    one, two, again = (load_model("same:f", folder / number) for number in ("1", "2", "1"))
    assert [each.predict([ITEM]) for each in (one, two, again)] == [[1], [2], [1]]
    assert sum(name.startswith("same") for name in sys.modules) == 2


def test_a_file_with_the_name_of_a_loaded_module_leaves_that_one_alone(folder: Path) -> None:
    (folder / "pickle.py").write_text("def f(item):\n    return 'mine'\n")
    assert load_model("pickle:f", folder).predict([ITEM]) == ["mine"]
    assert sys.modules["pickle"] is pickle


def test_a_package_with_the_name_of_a_loaded_module_is_refused(folder: Path) -> None:
    (folder / "json").mkdir()
    (folder / "json" / "__init__.py").write_text("def f(item):\n    return 1\n")
    with pytest.raises(ModelError, match=r"has the name of another module, .*give it another name"):
        load_model("json:f", folder)


def test_a_trusted_pickle_finds_the_classes_of_a_module_beside_it(folder: Path) -> None:
    (folder / "home_made.py").write_text(
        "class Home:\n    def predict(self, rows):\n        return ['home'] * len(rows)\n"
    )
    load_model("home_made:Home", folder)
    (folder / "home.pkl").write_bytes(pickle.dumps(sys.modules["home_made"].Home()))
    del sys.modules["home_made"]
    assert load_model("home.pkl", folder, trusted=True).predict([ITEM]) == ["home"]
