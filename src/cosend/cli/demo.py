"""`cosend demo`: four sites with live traffic on this machine."""

from __future__ import annotations

import asyncio
from importlib.resources import as_file
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cosend.cli.errors import extra, say_errors
from cosend.cli.show import new_console


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Stop after this many seconds of traffic; otherwise at Ctrl-C.")
    ] = None,
) -> None:
    """Run four sites that ask each other on this machine, send them live traffic, and show how they fare.

    The table says for each site how many items it had, how many of late were wrong, and to whom it sent how many. Kill
    one of the processes and see what the others do. Nothing is kept.
    """
    console = new_console()
    with say_errors():
        with extra("service"):
            from cosend.local.log import Log
            from cosend.local.plan import Wishes, make_plan
            from cosend.local.up import run_plan
        with extra("client"):
            from cosend.local.demo import FILE, Demo
        with as_file(FILE) as file, TemporaryDirectory(prefix="cosend-demo-") as folder:
            plan = make_plan(file, Wishes(store=Path(folder), any_ports=True))
            log = Log(console, [site.name for site in plan.sites], "text")
            log.say(f"{plan.in_words}; Ctrl-C stops all of it")
            code = asyncio.run(run_plan(plan, log, Demo(plan.sites, console, seconds).run))
    if code:
        raise typer.Exit(code)
