"""`cosend serve`: one site of a network file as a service."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated, Literal

import typer

from cosend.cli.errors import extra, say_errors
from cosend.cli.show import new_console, printable
from cosend.dashboard import is_installed
from cosend.errors import install
from cosend.reports.text import counted

NetworkFile = Annotated[Path, typer.Argument(help="The network file.")]
SiteName = Annotated[
    str | None, typer.Option("--site", help="Which site of the file; not needed if there is only one.")
]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store", help="The folder where the site keeps what it knows; by default store/SITE beside FILE."),
]
KeepDays = Annotated[
    float,
    typer.Option(
        min=0.0, max=36_500, help="Remember decisions for this many days: until then, an id gets the same answer."
    ),
]


def serve(
    file: NetworkFile,
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
    durable: Annotated[
        bool, typer.Option(help="Answer only once it is on disk; otherwise a machine crash can lose the newest.")
    ] = True,
    dashboard: Annotated[
        bool, typer.Option(help="Let people look at the site in a browser, at /dashboard/; needs the extra dashboard.")
    ] = True,
    log: Annotated[Literal["json", "text"], typer.Option(help="The format of the log on standard error.")] = "text",
) -> None:
    """Run one site of a network file as an HTTP service: it decides, learns, and survives being killed.

    Items go to POST /v1/classify, true labels to POST /v1/labels, as JSON; /docs shows all routes, /dashboard/ how the
    site is doing. The address is printed once something listens there. Stop it with Ctrl-C.
    """
    console = new_console(stderr=True)
    with say_errors():
        with extra("service"):
            from cosend.node.node import Node
            from cosend.service import logs, server
            from cosend.service.from_file import read_site
            from cosend.service.tokens import read_tokens
        with console.status("loading models"):
            found = read_site(file, site, keep_days, nats)
        setup, setting = found.setup, found.setting
        allowed = read_tokens(tokens, os.environ)
        address = server.Address(
            host=host or setting.host or "127.0.0.1",
            port=port or setting.port or 8800,
            certificate=certificate,
            key=key,
        )
        server.check_address(address, allowed, insecure=insecure)
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
        node = Node(setup, folder, durable=durable, link=found.link, workers=found.workers)
        pages = None
        if dashboard and not is_installed():
            console.print(f"no dashboard: {install('dashboard')}")
        elif dashboard:
            from cosend.dashboard.mount import Pages

            pages = Pages(node, allowed)
        shown = f", dashboard: {address.url}/dashboard/" if pages is not None else ""
        words = f"listening on {address.url} (routes: {address.url}/docs{shown}); Ctrl-C stops it"
        server.serve(node, address, allowed, pages, lambda: console.print(words, soft_wrap=True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: one Ctrl-C more must not end it with a traceback


def store_of(file: Path, store: Path | None, site: str) -> Path:
    """Return the folder of a site."""
    return file.parent / "store" / site if store is None else store
