"""`cosend`: the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from cosend.cli.run import run
from cosend.cli.sites import classify, demo, serve, up, worker
from cosend.cli.stores import export, verify
from cosend.cli.teach import teach
from cosend.cli.validate import validate
from cosend.cli.warmup import warmup
from cosend.version import VERSION

app = typer.Typer(
    name="cosend",
    help="Route each item to a local model or a peer, at a cost, and learn from true labels that arrive late.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
for command in (run, validate, serve, up, demo, worker, classify, teach, verify, export, warmup):
    app.command(command.__name__)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cosend {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Route each item to a local model or a peer."""
