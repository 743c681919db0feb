"""`cosend serve`: one site of a network file as a service."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from cosend.cli.shared import (
    Durable,
    KeepDays,
    LogFormat,
    NetworkPath,
    SiteName,
    StoreFolder,
    extra,
    new_console,
    printable,
    say_errors,
    store_of,
)


def serve(
    file: NetworkPath,
    site: SiteName = None,
    store: StoreFolder = None,
    host: Annotated[
        str | None, typer.Option(help="The address, if not that of the file; 127.0.0.1 if there is none.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="The port, if not that of the file; 8800 if there is none.")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="A file with a token and its scopes on each line; otherwise COSEND_TOKENS.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="The certificate (PEM) to serve HTTPS with.")] = None,
    key: Annotated[Path | None, typer.Option(help="The key of the certificate (PEM).")] = None,
    nats: Annotated[
        list[str] | None,
        typer.Option(help="Reach peers through this NATS server instead of those of the file; may be repeated."),
    ] = None,
    insecure: Annotated[bool, typer.Option(help="Let anyone who can reach the address use the site.")] = False,
    keep_days: KeepDays = 7.0,
    durable: Durable = True,
    dashboard: Annotated[
        bool, typer.Option(help="Let people look at the site in a browser, at /dashboard/; needs the extra dashboard.")
    ] = True,
    log: LogFormat = "text",
) -> None:
    """Run one site of a network file as an HTTP service: it decides, learns, and survives being killed.

    Items go to POST /v1/classify, true labels to POST /v1/labels, as JSON; /docs shows all routes, /dashboard/ how the
    site is doing. The address is printed once something listens there. Stop it with Ctrl-C.
    """
    console = new_console(stderr=True)
    with say_errors():
        with extra("service"):
            from cosend.runtime.running_site import RunningSite
            from cosend.server import http_server, logs
            from cosend.server.auth import read_tokens
            from cosend.server.from_file import read_site
            from cosend.text import counted
        with console.status("loading models"):
            found = read_site(file, site, keep_days, nats)
        setup, setting = found.setup, found.setting
        allowed = read_tokens(tokens, os.environ)
        address = http_server.Address(
            host=host or setting.host or "127.0.0.1",
            port=port or setting.port or 8800,
            certificate=certificate,
            key=key,
        )
        http_server.check_address(address, allowed, insecure=insecure)
        folder = store_of(file, store, setup.name)
        console.print(
            f"site {setup.name}: {counted(len(setup.classifiers), 'classifier')}, "
            f"keeps what it knows in {printable(folder)}"
        )
        if found.link is None and found.others:
            console.print(
                f"no peers: {', '.join(found.others)} cannot be asked, as the file names no servers in [network]; "
                "give --nats URL"
            )
        logs.set_up_logs(setup.name, log)
        node = RunningSite(setup, folder, durable=durable, link=found.link, workers=found.workers)
        pages = None
        if dashboard:
            from cosend.pages.dashboard import Dashboard

            pages = Dashboard(node, allowed)
        shown = f", dashboard: {address.url}/dashboard/" if pages is not None else ""
        words = f"listening on {address.url} (routes: {address.url}/docs{shown}); Ctrl-C stops it"
        http_server.serve(node, address, allowed, pages, lambda: console.print(words, soft_wrap=True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: one Ctrl-C more must not end it with a traceback
