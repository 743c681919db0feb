"""`cosend serve`, `worker`, `classify`: a site of a network file; `up`, `demo`: all sites of one on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import webbrowser
from contextlib import suppress
from importlib.resources import as_file
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cosend.cli.shared import (
    NETWORK,
    SERVER,
    SERVICE,
    check_installed,
    extra,
    new_console,
    printable,
    say_errors,
)

if TYPE_CHECKING:
    from cosend.server.from_file import Lent

NetworkPath = Annotated[Path, typer.Argument(metavar="FILE", help="The network file.")]
SiteName = Annotated[str | None, typer.Option("--site", help="The site of the file; optional if there is only one.")]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store", help="The folder for the state of the site; by default store/SITE next to FILE."),
]
KeepDays = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=36_500,
        help="Keep decisions for this many days; within that time repeated ids return the same answer.",
    ),
]
Durable = Annotated[
    bool,
    typer.Option(
        help="Reply only after a decision is on disk; otherwise a machine crash can lose the newest decisions."
    ),
]
LogFormat = Annotated[Literal["json", "text"], typer.Option(help="The format of the log.")]
Servers = Annotated[
    list[str] | None,
    typer.Option(help="The NATS server to use; overrides the file. May be repeated."),
]


def serve(
    file: NetworkPath,
    site: SiteName = None,
    store: StoreFolder = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; overrides the file. The default is 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="The port to listen on; overrides the file. The default is 8800."),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="A file with one token and its scopes per line; otherwise COSEND_TOKENS.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="The certificate (PEM) to serve HTTPS with.")] = None,
    key: Annotated[Path | None, typer.Option(help="The key of the certificate (PEM).")] = None,
    nats: Servers = None,
    insecure: Annotated[
        bool, typer.Option(help="Serve without tokens: anyone who can reach the address may use the site.")
    ] = False,
    keep_days: KeepDays = 7.0,
    durable: Durable = True,
    dashboard: Annotated[bool, typer.Option(help="Serve the dashboard of the site at /dashboard/.")] = True,
    log: LogFormat = "text",
    site_at: Annotated[list[str] | None, typer.Option(hidden=True, help="NAME=URL of another site.")] = None,
) -> None:
    """Run one site of a network file as an HTTP service that keeps its state on disk.

    Send items to POST /v1/classify and true labels to POST /v1/labels, as JSON. Open /docs for all routes and
    /dashboard/ for the state of the site. The address is printed once the service accepts requests. Ctrl-C stops it.
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
        folder = store or file.parent / "store" / setup.name
        console.print(
            f"site {setup.name}: {counted(len(setup.classifiers), 'classifier')}, state in {printable(folder)}"
        )
        if found.link is None and found.others:
            console.print(
                f"no peers: cannot ask {', '.join(found.others)}, because the file names no servers in [network]; "
                "use --nats URL"
            )
        logs.set_up_logs(setup.name, log)
        node = RunningSite(setup, folder, durable=durable, link=found.link, workers=found.workers)
        pages = None
        if dashboard:
            from cosend.pages.dashboard import Dashboard

            told = dict(each.rsplit("=", 1) for each in site_at or [] if "=" in each)
            pages = Dashboard(node, allowed, {**found.addresses, **told})
        shown = f", dashboard: {address.url}/dashboard/" if pages is not None else ""
        words = f"listening on {address.url} (routes: {address.url}/docs{shown}); Ctrl-C stops it"
        http_server.serve(node, address, allowed, pages, lambda: console.print(words, soft_wrap=True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: one Ctrl-C more must not end it with a traceback


def worker(
    file: NetworkPath,
    site: SiteName = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option(help="Run only this classifier, not all that have workers. May be repeated."),
    ] = None,
    nats: Servers = None,
    log: LogFormat = "text",
) -> None:
    """Run the models of a site that have workers = true in the network file.

    Start as many workers as you need, on any machine that can reach the NATS server, before or after the site. If one
    stops or crashes, the site continues without it. Ctrl-C stops the worker.
    """
    console = new_console(stderr=True)
    with say_errors():
        with extra("network,service"):
            from cosend.server.from_file import read_worker
            from cosend.server.logs import set_up_logs
        with console.status("loading models"):
            lent = read_worker(file, site, classifier or [], nats)
        models = ", ".join(each.name for each in lent.workers.values())
        console.print(f"worker of site {lent.site} for {models}; Ctrl-C stops it")
        set_up_logs(lent.site, log)
        asyncio.run(_lend_until_told(lent))


async def _lend_until_told(lent: Lent) -> None:
    from cosend.runtime.remote_workers import lend

    loop = asyncio.get_running_loop()
    lending = loop.create_task(lend(lent.workers, lent.links))
    for sign in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows has no such handlers; Ctrl-C raises there
            loop.add_signal_handler(sign, lending.cancel)
    with suppress(asyncio.CancelledError):
        await lending


def classify(
    file: NetworkPath,
    site: SiteName = None,
    store: StoreFolder = None,
    keep_days: KeepDays = 7.0,
    durable: Durable = True,
) -> None:
    """Classify items from standard input, one per line, and write the decisions to standard output.

    A line is an item, {"features": {...}} with an optional "id", or a true label, {"id": ..., "label": ...}. Each line
    of input gets one line of output, in order. An invalid line gets an error with its line number, the rest is
    processed, and the exit code is 1.
    """
    console = new_console(stderr=True)
    with say_errors():
        with extra("service"):
            from cosend.runtime.running_site import RunningSite
            from cosend.server.from_file import read_site
            from cosend.server.pipe import Pipe
        with console.status("loading models"):
            found = read_site(file, site, keep_days)
        folder = store or file.parent / "store" / found.setup.name
        node = RunningSite(found.setup, folder, durable=durable, link=found.link, workers=found.workers)
        with console.status("starting") as status:

            def watch(lines: int, wrong: int, rate: float) -> None:
                status.update(f"{lines:,} lines, {wrong:,} invalid, {rate:,.0f} lines/s")

            wrong = asyncio.run(Pipe(node, sys.stdin.buffer, sys.stdout.buffer, watch).run())
    if wrong:
        raise typer.Exit(1)


def up(
    file: NetworkPath,
    store: Annotated[
        Path | None,
        typer.Option(help="The folder for the state of all sites; by default store next to FILE."),
    ] = None,
    nats: Servers = None,
    durable: Durable = True,
    log: LogFormat = "text",
) -> None:
    """Run all sites of a network file on this machine, one process per site, with one log.

    If the file names no servers, a nats-server is started too. Sites and server accept connections from this machine
    only, from any user. Each site prints its address once it accepts requests. A site that stops is restarted. Ctrl-C
    stops everything; a second Ctrl-C kills it.
    """
    with say_errors():
        with extra("service"):
            from cosend.local.plan import make_plan
            from cosend.local.supervisor import ProcessLog, run_plan
        plan = make_plan(file, servers=nats, store=store, durable=durable, log=log)
        lines = ProcessLog(new_console(), [site.name for site in plan.sites], log)
        lines.say(f"{printable(file)}: {plan.in_words}; Ctrl-C stops everything")
        code = run_plan(plan, lines)
    if code:
        raise typer.Exit(code)


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Stop after this many seconds of traffic; by default, on Ctrl-C.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the dashboard in a browser if there is a display.")] = True,
) -> None:
    """Run four sites on this machine that ask each other, with live traffic and dashboards.

    The address of the first dashboard is printed. For each site, the table shows its items, its recent error rate, and
    how many items it sent to which peer. Press a key to kill or restart a site, or to let the traffic drift, and watch
    how the others react. Nothing is kept.

    Needs the extra demo.
    """
    console = new_console()
    with say_errors():
        check_installed(*SERVICE, *NETWORK, "httpx", "sklearn", SERVER, extra="demo")
        from cosend.local.demo_network import FILE, Demo
        from cosend.local.plan import make_plan
        from cosend.local.supervisor import ProcessLog, run_plan

        with as_file(FILE) as file, TemporaryDirectory(prefix="cosend-demo-") as folder:
            plan = make_plan(file, store=Path(folder), any_ports=True)
            log = ProcessLog(console, [site.name for site in plan.sites])
            log.say(f"{plan.in_words}; Ctrl-C stops everything")
            page = f"{plan.sites[0].url}/dashboard/" if browser else ""
            ready = (lambda: open_page(page)) if page else (lambda: None)
            code = run_plan(plan, log, Demo(plan.sites, console, seconds, ready).run)
    if code:
        raise typer.Exit(code)


def open_page(url: str) -> None:
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()
