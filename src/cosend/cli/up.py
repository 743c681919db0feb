"""`cosend up`: all sites of a network file on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from cosend.cli.shared import Durable, NetworkPath, extra, new_console, printable, say_errors


def up(
    file: NetworkPath,
    store: Annotated[
        Path | None,
        typer.Option(help="The folder with a folder for each site; by default store beside FILE."),
    ] = None,
    nats: Annotated[
        list[str] | None,
        typer.Option(help="Use this NATS server instead of those of the file or one of our own; may be repeated."),
    ] = None,
    durable: Durable = True,
    log: Annotated[Literal["json", "text"], typer.Option(help="The format of the log on standard output.")] = "text",
) -> None:
    """Run all sites of a network file on this machine, each as a process of its own, with one log.

    A nats-server is started too if the file names no servers. All of it can be reached from this machine only, by
    everybody on it; each site prints its address once it listens there. A site that ends is restarted. Ctrl-C stops
    everything; a second Ctrl-C kills it.
    """
    with say_errors():
        with extra("service"):
            from cosend.local.plan import PlanOptions, make_plan
            from cosend.local.process_log import ProcessLog
            from cosend.local.supervisor import run_plan
        plan = make_plan(file, PlanOptions(servers=nats, store=store, durable=durable, log=log))
        lines = ProcessLog(new_console(), [site.name for site in plan.sites], log)
        lines.say(f"{printable(file)}: {plan.in_words}; Ctrl-C stops all of it")
        code = asyncio.run(run_plan(plan, lines))
    if code:
        raise typer.Exit(code)
