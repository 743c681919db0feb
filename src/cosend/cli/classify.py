"""`cosend classify`: one site of a network file in a pipe."""

from __future__ import annotations

import asyncio
import sys

import typer

from cosend.cli.shared import (
    Durable,
    KeepDays,
    NetworkPath,
    SiteName,
    StoreFolder,
    extra,
    new_console,
    say_errors,
    store_of,
)


def classify(
    file: NetworkPath,
    site: SiteName = None,
    store: StoreFolder = None,
    keep_days: KeepDays = 7.0,
    durable: Durable = True,
) -> None:
    """Decide for items that come on standard input, a line each, and write the decisions to standard output.

    A line is an item, {"features": {...}} with an "id" if you like, or a true label, {"id": ..., "label": ...}. There
    is a line of output for each line of input, in order. A line that is wrong gets its error, with its number, and the
    rest is processed; the exit code is then 1.
    """
    console = new_console(stderr=True)
    with say_errors():
        with extra("service"):
            from cosend.runtime.running_site import RunningSite
            from cosend.server.from_file import read_site
            from cosend.server.pipe import Pipe
        with console.status("loading models"):
            found = read_site(file, site, keep_days)
        folder = store_of(file, store, found.setup.name)
        node = RunningSite(found.setup, folder, durable=durable, link=found.link, workers=found.workers)
        with console.status("starting") as status:

            def watch(lines: int, wrong: int, rate: float) -> None:
                status.update(f"{lines:,} lines, {wrong:,} wrong, {rate:,.0f} lines/s")

            wrong = asyncio.run(Pipe(node, sys.stdin.buffer, sys.stdout.buffer, watch).run())
    if wrong:
        raise typer.Exit(1)
