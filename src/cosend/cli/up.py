"""`cosend up`: all sites of a network file on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from cosend.cli.errors import extra, say_errors
from cosend.cli.serve import NetworkFile
from cosend.cli.show import new_console, printable


def up(
    file: NetworkFile,
    store: Annotated[
        Path | None,
        typer.Option(help="The folder with a folder for each site; by default store beside FILE."),
    ] = None,
    nats: Annotated[
        list[str] | None,
        typer.Option(help="Use this NATS server instead of those of the file or one of our own; may be repeated."),
    ] = None,
    durable: Annotated[
        bool, typer.Option(help="Answer only once it is on disk; otherwise a machine crash can lose the newest.")
    ] = True,
    log: Annotated[Literal["json", "text"], typer.Option(help="The format of the log on standard output.")] = "text",
) -> None:
    """Run all sites of a network file on this machine, each as a process of its own, with one log.

    A nats-server is started too if the file names no servers. All of it can be reached from this machine only, by
    everybody on it; each site prints its address once it listens there. A site that ends is started again. Ctrl-C stops
    everything; a second Ctrl-C does so at once.
    """
    with say_errors():
        with extra("service"):
            from cosend.local.log import Log
            from cosend.local.plan import Wishes, make_plan
            from cosend.local.up import run_plan
        plan = make_plan(file, Wishes(servers=nats, store=store, durable=durable, log=log))
        lines = Log(new_console(), [site.name for site in plan.sites], log)
        lines.say(f"{printable(file)}: {plan.in_words}; Ctrl-C stops all of it")
        code = asyncio.run(run_plan(plan, lines))
    if code:
        raise typer.Exit(code)
