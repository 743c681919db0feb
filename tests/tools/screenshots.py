"""`make screenshots`: the pictures of dashboard and report in docs/images, each light and dark, wide and on a phone.

The demonstration runs until its sites have seen enough; on the way, a cost is changed and a site is killed, which the
charts mark. Then the page of a site is taken; after it the report of the first run.
`python -m tests.tools.screenshots report` takes the report only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page

from tests.pages.browsing import CHROMIUM, NO_BROWSER, browser

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SITE, CHANGED = "cloud", "campus"
ITEMS = 30_000  # that the site has seen before its picture is taken
CHANGE_AT, KILL_AT = 0.55, 0.8  # of these
LONGEST_S = 3_600.0
WIDTHS = {1280: 4_400, 390: 5_600}  # and how much of the height is kept
COLOURS = 256
SETTLE_MS = 5_000
# Twice the traffic of `cosend demo`, so that it takes ten minutes and not twenty.
DEMO = "from cosend.local import demo_network as demo; demo.BATCH = 10; from cosend.cli.main import app; app()"


@contextmanager
def demo() -> Iterator[tuple[str, int]]:
    """Run the demonstration; gives the address of a site, and the process that runs all of them."""
    command = [sys.executable, "-c", DEMO, "demo", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        assert process.stdout is not None
        try:
            for line in process.stdout:
                found = re.search(rf"^{SITE} .*dashboard: (http://\S+)/dashboard/", line)
                if found:
                    break
            else:
                sys.exit("the demonstration did not start")
            Thread(target=process.stdout.read, daemon=True).start()  # else it would wait for a reader at some time
            yield found[1], process.pid
        finally:
            process.terminate()
            process.wait()


def wait_for_items(url: str, items: float) -> None:
    """Wait until a site has seen enough to look at."""
    until = time.monotonic() + LONGEST_S
    while httpx.get(f"{url}/v1/summary", timeout=60.0).json().get("items", 0) < items:
        if time.monotonic() > until:
            sys.exit("the demonstration is too slow")
        time.sleep(1.0)


def let_things_happen(url: str, parent: int) -> None:
    """Change a cost, and kill the site that was asked most since; `cosend demo` starts it again."""
    wait_for_items(url, CHANGE_AT * ITEMS)
    httpx.post(f"{url}/v1/arms/{CHANGED}", json={"cost": 0.04}).raise_for_status()
    before = asked(url)
    wait_for_items(url, KILL_AT * ITEMS)
    now = asked(url)
    os.kill(child(parent, f"--site {max(now, key=lambda peer: now[peer] - before[peer])} "), signal.SIGKILL)
    wait_for_items(url, ITEMS)


def asked(url: str) -> dict[str, int]:
    """Return how many items each peer of a site was asked about."""
    arms = httpx.get(f"{url}/v1/arms", timeout=60.0).json()["arms"]
    return {arm["name"]: sum(arm["decisions"].values()) for arm in arms if arm["kind"] == "peer"}


def child(parent: int, words: str) -> int:
    """Return the process that another one has started with some words in its command."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_child = int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent
            if is_child and words in (folder / "cmdline").read_text().replace("\0", " "):
                return int(folder.name)
        except OSError:
            continue
    sys.exit(f"no process with {words}")


def take(running: Browser, url: str, name: str, ready: str, last: str = "", upper: str = "") -> None:
    """Take all pictures of a page, as soon as something is there.

    last   the part of the page with which they end
    upper  a part with which one more wide picture ends, called NAME-top, for a page that shows it
    """
    schemes: tuple[Any, ...] = ("light", "dark")
    for width, height in WIDTHS.items():
        for scheme in schemes:
            context = running.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.goto(url)
            page.locator(ready).first.wait_for(timeout=60_000)
            page.wait_for_timeout(SETTLE_MS)
            file = IMAGES / f"{name}-{width}-{scheme}.png"
            page.screenshot(path=file, full_page=True)
            end = bottom(page, last) + 30 if last else height
            if upper and width == max(WIDTHS):
                top = IMAGES / f"{name}-top-{scheme}.png"
                shutil.copy(file, top)
                shrink(top, bottom(page, upper))
            context.close()
            shrink(file, end)


def bottom(page: Page, part: str) -> int:
    """Return where the first part that is called so ends on a page."""
    box = page.locator(part).first.bounding_box()
    assert box is not None, part
    return round(box["y"] + box["height"])


def shrink(file: Path, height: int) -> None:
    """Keep the upper part of a picture, in few colours: flat ones lose nothing by that."""
    with Image.open(file) as picture:
        part = picture.convert("RGB").crop((0, 0, picture.width, min(height, picture.height)))
    part.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


def main() -> None:
    """Make all pictures."""
    if CHROMIUM is None:
        sys.exit(NO_BROWSER)
    IMAGES.mkdir(exist_ok=True)
    with browser() as running, tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] != ["report"]:
            with demo() as (url, parent), running.new_page() as watched:
                watched.goto(f"{url}/dashboard/")  # flows are those since a page was opened
                let_things_happen(url, parent)
                take(running, f"{url}/dashboard/", "dashboard", '[data-part="where"] svg')
        command = [sys.executable, "-m", "cosend.cli", "run"]  # which the picture shows, without a path of this machine
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)  # noqa: S603 - our own
        take(
            running,
            (Path(folder) / "out" / "run" / "report.html").as_uri(),
            "report",
            "figure svg:visible",
            "#flow + figure",
            "table.overall tbody tr:nth-child(5)",
        )


if __name__ == "__main__":
    main()
