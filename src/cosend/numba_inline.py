"""Functions that only compiled functions call, translated by the internals of Numba as far as callers need."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# Numba has types for some of its functions and not for others.
codegen: Any = import_module("numba.core.codegen")
compiler: Any = import_module("numba.core.compiler")
dispatcher: Any = import_module("numba.core.dispatcher")
registry: Any = import_module("numba.core.registry")
types: Any = import_module("numba.core.types")


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]  # Numba has no types for its internals
    """A function and what it calls, translated and linked, but neither optimised as a whole nor made machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _InnerCompiler(dispatcher._FunctionCompiler):  # type: ignore[misc]  # Numba has no types for its internals
    """Translates a function for its callers."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = True
        typing, target = self.targetdescr.typing_context, self.targetdescr.target_context
        library = _Library(target.codegen(), self.py_func.__qualname__)
        made = compiler.compile_extra(
            typing, target, self.py_func, args, return_type, flags, self.locals, library, self.pipeline_class
        )
        name = object()  # by which callers find it, instead of the address that it does not have
        target.insert_user_function(name, made.fndesc, [library])
        return made._replace(entry_point=name)


class Inner(registry.CPUDispatcher):  # type: ignore[misc]  # Numba has no types for its internals
    """A function that compiled functions call."""

    def __init__(self, function: Any, options: dict[str, Any], for_python: Callable[[Any], Any]) -> None:
        super().__init__(function, {}, options)
        self._compiler = _InnerCompiler(function, self.targetdescr, options, {}, compiler.Compiler)
        self._make = for_python
        self._for_python: Any = None

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile it for the types of arguments, not for their values: a constant 0 needs no separate function."""
        return super().get_call_template([types.unliteral(each) for each in args], kws)

    def add_overload(self, made: Any) -> None:
        """Keep what callers need; Python cannot call it."""
        self.overloads[tuple(made.signature.args)] = made

    def __call__(self, *given: Any) -> Any:
        """Call it from Python, as tests do."""
        if self._for_python is None:
            self._for_python = self._make(self.py_func)
        return self._for_python(*given)
