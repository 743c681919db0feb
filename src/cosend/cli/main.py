"""`cosend`: the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from cosend.cli.classify import classify
from cosend.cli.demo import demo
from cosend.cli.export import export
from cosend.cli.run import run
from cosend.cli.serve import serve
from cosend.cli.shared import Command, Group
from cosend.cli.up import up
from cosend.cli.validate import validate
from cosend.cli.verify import verify
from cosend.cli.warmup import warmup
from cosend.cli.worker import worker
from cosend.version import VERSION

app = typer.Typer(
    name="cosend",
    help="Classify or send: sites that learn, for every item, whether to use a local model or ask a peer.",
    no_args_is_help=True,
    cls=Group,
)
for command in (run, validate, serve, up, demo, worker, classify, verify, export, warmup):
    app.command(command.__name__, cls=Command)(command)


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
    """Show what all commands share."""
