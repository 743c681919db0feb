"""`cosend`: the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from cosend import __version__
from cosend.cli import classify as classify_command
from cosend.cli import demo as demo_command
from cosend.cli import export as export_command
from cosend.cli import replay as replay_command
from cosend.cli import run as run_command
from cosend.cli import serve as serve_command
from cosend.cli import up as up_command
from cosend.cli import validate as validate_command
from cosend.cli import warmup as warmup_command
from cosend.cli import worker as worker_command
from cosend.cli.help import Command, Group

app = typer.Typer(
    name="cosend",
    help="Classify or send: sites that learn, for every item, whether to use a local classifier or a peer.",
    no_args_is_help=True,
    cls=Group,
)
app.command("run", cls=Command)(run_command.run)
app.command("validate", cls=Command)(validate_command.validate)
app.command("serve", cls=Command)(serve_command.serve)
app.command("up", cls=Command)(up_command.up)
app.command("demo", cls=Command)(demo_command.demo)
app.command("worker", cls=Command)(worker_command.worker)
app.command("classify", cls=Command)(classify_command.classify)
app.command("replay", cls=Command)(replay_command.replay)
app.command("export", cls=Command)(export_command.export)
app.command("warmup", cls=Command)(warmup_command.warmup)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cosend {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Show what all commands share."""
