"""Commands whose help fits the terminal: paragraphs flow, and a flag does not look as if it took a value."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from typer.core import TyperCommand, TyperGroup


class _Flowing:
    """What a command and a group have in common; Typer keeps the line breaks of a docstring, and calls flags bool."""

    help: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help."""
        self.help = in_paragraphs(self.help or "")
        super().format_help(ctx, formatter)  # type: ignore[misc]  # of the class beside this one

    def get_params(self, ctx: Any) -> Any:
        """Return the options and arguments, those of Typer itself too."""
        found = super().get_params(ctx)  # type: ignore[misc]
        for each in found:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""
        return found


class Command(_Flowing, TyperCommand):
    """A command."""


class Group(_Flowing, TyperGroup):
    """A group of commands."""


def in_paragraphs(text: str) -> str:
    """Return a text with each of its paragraphs in one line."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))
