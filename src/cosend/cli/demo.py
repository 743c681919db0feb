"""`cosend demo`: four sites with live traffic on this machine."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import webbrowser
from importlib.resources import as_file
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cosend.cli.shared import NETWORK, SERVER, SERVICE, lacking, new_console, say_errors
from cosend.errors import CosendError


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Stop after this many seconds of traffic; otherwise on Ctrl-C.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the dashboard in a browser, if there is a display.")] = True,
) -> None:
    """Run four sites that ask each other on this machine, send them live traffic, and show how they are doing.

    Every site has a dashboard; the address of the first is printed. The table says for each site how many items it had,
    how many of the last were wrong, and how many it sent to which peer. Keys kill a site, start it again, and let the
    traffic drift: see what the others do. Nothing is kept.

    Needs the extra demo.
    """
    console = new_console()
    with say_errors():
        check_all_installed()
        from cosend.local.demo_network import FILE, Demo
        from cosend.local.plan import PlanOptions, make_plan
        from cosend.local.process_log import ProcessLog
        from cosend.local.supervisor import run_plan

        with as_file(FILE) as file, TemporaryDirectory(prefix="cosend-demo-") as folder:
            plan = make_plan(file, PlanOptions(store=Path(folder), any_ports=True))
            log = ProcessLog(console, [site.name for site in plan.sites])
            log.say(f"{plan.in_words}; Ctrl-C stops all of it")
            page = f"{plan.sites[0].url}/dashboard/" if browser else ""
            ready = (lambda: open_page(page)) if page else (lambda: None)
            code = asyncio.run(run_plan(plan, log, Demo(plan.sites, console, seconds, ready).run))
    if code:
        raise typer.Exit(code)


def check_all_installed() -> None:
    """Raise unless all that the sites need is installed."""
    missing = lacking([*SERVICE, *NETWORK, "httpx", "sklearn", SERVER], "demo")
    if missing:
        raise CosendError(missing)


def open_page(url: str) -> None:
    """Open a page in a browser, if there is a display."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()
