"""`cosend classify`: one site of a network file in a pipe."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from cosend.cli.errors import extra, say_errors
from cosend.cli.serve import KeepDays, NetworkFile, SiteName, StoreFolder, store_of
from cosend.cli.show import new_console


def classify(
    file: NetworkFile,
    site: SiteName = None,
    store: StoreFolder = None,
    keep_days: KeepDays = 7.0,
    durable: Annotated[
        bool, typer.Option(help="Answer only once it is on disk; otherwise a machine crash can lose the newest.")
    ] = True,
) -> None:
    """Decide for items that come on standard input, a line each, and write the decisions to standard output.

    A line is an item, {"features": {...}} with an "id" if you like, or a true label, {"id": ..., "label": ...}. There
    is a line of output for each line of input, in their order. A line that is wrong gets its error, with
    its number, and the rest goes on; the exit code is 1 then.
    """
    console = new_console(stderr=True)
    with say_errors():
        with extra("service"):
            from cosend.node.node import Node
            from cosend.service.from_file import read_site
            from cosend.service.pipe import Pipe
        with console.status("loading models"):
            found = read_site(file, site, keep_days)
        folder = store_of(file, store, found.setup.name)
        node = Node(found.setup, folder, durable=durable, link=found.link, workers=found.workers)
        with console.status("starting") as status:

            def watch(lines: int, wrong: int, rate: float) -> None:
                status.update(f"{lines:,} lines, {wrong:,} wrong, {rate:,.0f} lines/s")

            wrong = asyncio.run(Pipe(node, sys.stdin.buffer, sys.stdout.buffer, watch).run())
    if wrong:
        raise typer.Exit(1)
