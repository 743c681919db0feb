"""`cosend worker`: models of a site in a process of their own."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from cosend.cli.shared import LogFormat, NetworkPath, SiteName, extra, new_console, say_errors

if TYPE_CHECKING:
    from cosend.server.from_file import Lent


def worker(
    file: NetworkPath,
    site: SiteName = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option(help="Run only this classifier instead of all that have workers; may be repeated."),
    ] = None,
    nats: Annotated[
        list[str] | None,
        typer.Option(help="Reach the site through this NATS server instead of those of the file; may be repeated."),
    ] = None,
    log: LogFormat = "text",
) -> None:
    """Run the models of a site that have workers = true in the network file, for the site to use.

    Start as many as the work takes, on any machines that reach the NATS server, before or after the site itself. If one
    ends or dies, the site continues without it. Stop it with Ctrl-C.
    """
    console = new_console(stderr=True)
    with say_errors():
        with extra("network"):
            from cosend.server.from_file import read_worker
            from cosend.server.logs import set_up_logs
        with console.status("loading models"):
            lent = read_worker(file, site, classifier or [], nats)
        models = ", ".join(each.name for each in lent.workers.values())
        console.print(f"worker of site {lent.site} for {models}; Ctrl-C stops it")
        set_up_logs(lent.site, log)
        asyncio.run(_lend_until_told(lent))


async def _lend_until_told(lent: Lent) -> None:
    """Lend models until the process is told to end."""
    from cosend.runtime.remote_workers import lend

    loop = asyncio.get_running_loop()
    lending = loop.create_task(lend(lent.workers, lent.links))
    for sign in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows has no such handlers; Ctrl-C raises there
            loop.add_signal_handler(sign, lending.cancel)
    with suppress(asyncio.CancelledError):
        await lending
