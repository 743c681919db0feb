"""Commands whose help fits the terminal: paragraphs flow, and a flag does not look as if it took a value."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help."""
        self.help = in_paragraphs(self.help or "")
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> Any:
        """Return the options and arguments, those of Typer itself too."""
        return without_bool(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options and arguments, those of Typer itself too."""
        return without_bool(super().get_params(ctx))


def in_paragraphs(text: str) -> str:
    """Return a text with each of its paragraphs in one line: Typer keeps the line breaks of a docstring."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))


def without_bool(options: Any) -> Any:
    """Return options of which flags say nothing of a value: Typer says that they take a truth value."""
    for each in options:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return options
