"""Models that a Python module holds: `module:callable`.

The folder of the network file is first on `sys.path` while the module is imported, and only then: whatever else the
program imports later is found as usual. So a module next to the file may import its neighbours at its top, not later
inside a function. The module stays in `sys.modules` under its name, so that two models of one module share it and
pickles find its classes. If that name is taken by a module from elsewhere, both are loaded, this one under another
name.

The kind of the callable follows from its methods and arguments:

    has predict_one or predict      a river or scikit-learn model, or a classifier of cosend; copied if it learns
    takes one argument              a function from an item to a label
    takes no argument, or a class   makes one of the above; called once, here
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from cosend.errors import ModelError, in_one_line, listed

USERS_ERRORS: Final = (Exception, SystemExit)  # a module may also call sys.exit() when it is imported


@contextmanager
def first_on_the_path(folder: Path) -> Iterator[None]:
    """Let modules be found in this folder before anywhere else, for as long as this is open."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    importlib.invalidate_caches()  # the folder may be newer than what Python remembers of it
    try:
        yield
    finally:
        if entry in sys.path:  # the user's code may have changed it too
            sys.path.remove(entry)


def from_module(model: str, folder: Path) -> Any:
    """Return the model that a module next to the file, or an installed one, has under a name."""
    return _made(model, found_in_module(model, folder))


def found_in_module(model: str, folder: Path) -> Any:
    """Return what a module next to the file, or an installed one, has under a name."""
    name, _, attribute = model.partition(":")
    if not all(part.isidentifier() for part in (*name.split("."), *attribute.split("."))):
        raise ModelError(model, "not the name of something in a module", "write module:callable, as in 'models:young'")
    module = _imported(model, name, folder)
    try:
        return attrgetter(attribute)(module)
    except AttributeError as error:
        has = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise ModelError(model, f"{_place(module)} has no {attribute!r}", f"it has {listed(has)}") from error


def function_of_two(model: str, folder: Path) -> Any:
    """Return a function of two arguments from a module, such as (label, truth) -> gain."""
    found = found_in_module(model, folder)
    if not callable(found) or isinstance(found, type) or not _takes_two(found):
        raise ModelError(model, "it is not a function of two arguments", "a function (label, truth) -> gain in [0, 1]")
    return found


def _takes_two(found: Any) -> bool:
    try:
        inspect.signature(found).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # it has no signature that Python knows
        return True
    return True


def _imported(model: str, name: str, folder: Path) -> ModuleType:
    file = folder / f"{name}.py"
    try:
        with first_on_the_path(folder):
            module = _from_file(name, file.resolve()) if file.is_file() else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _blame(model, error, f"importing {name} failed") from error
        raise ModelError(model, f"there is no {file}, and no installed module {name!r}") from error
    except USERS_ERRORS as error:
        raise _blame(model, error, f"importing {name} failed") from error
    package = folder / name.partition(".")[0]
    if (package / "__init__.py").is_file() and package.resolve() not in Path(_place(module)).parents:
        raise ModelError(model, f"{package} has the name of another module, {_place(module)}", "give it another name")
    return module


def _from_file(name: str, file: Path) -> ModuleType:
    own_name = f"{name}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    for known in (sys.modules.get(name), sys.modules.get(own_name)):
        if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == file:
            return known
    chosen = own_name if name in sys.modules else name
    spec = importlib.util.spec_from_file_location(chosen, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = sys.modules[chosen] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[chosen]
        raise
    return module


def _made(model: str, found: Any) -> Any:
    """Return what was found, or what it makes if it is there to make something."""
    is_class = isinstance(found, type)
    if not is_class and (not callable(found) or any(hasattr(found, verb) for verb in ("predict", "predict_one"))):
        return _own(model, found)
    if inspect.iscoroutinefunction(found):
        raise ModelError(model, "it is an async function", "a model is a plain function from an item to a label")
    needs = _needed_arguments(found)
    if needs > 1 or (is_class and needs):
        allowed = "a function takes the item, and a class or function that makes a model takes nothing"
        raise ModelError(model, f"it needs {needs} argument{'s' * (needs > 1)}", allowed)
    if needs and not is_class:
        return found
    try:
        return found()
    except USERS_ERRORS as error:
        raise _blame(model, error, "it takes no argument, so it was called to make a model, and failed") from error


def _own(model: str, found: Any) -> Any:
    """Return a model for this classifier alone if it learns: what one site is taught must not reach another."""
    if not (hasattr(found, "learn_one") or getattr(found, "learns", False)):
        return found
    try:
        return deepcopy(found)
    except Exception as error:  # a user's model may raise anything
        raise _blame(model, error, "it learns, so every classifier needs a copy, and copying it failed") from error


def _needed_arguments(found: Any) -> int:
    """Return how many arguments it cannot be called without; one if that is not known, or if it takes any number."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (ValueError, TypeError):
        return 0 if isinstance(found, type) else 1
    named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if not named and any(each.kind is each.VAR_POSITIONAL for each in parameters) and not isinstance(found, type):
        return 1
    return sum(each.default is each.empty for each in named)


def _place(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or f"module {module.__name__!r}"


def _blame(model: str, error: BaseException, what: str) -> ModelError:
    """Return the user's own error in one line, with the last place in the user's code that it went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    where = f", {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    return ModelError(model, f"{what} ({in_one_line(error)}{where})")


def _is_users(filename: str) -> bool:
    return not filename.startswith("<") and Path(filename) != Path(__file__) and "importlib" not in filename
