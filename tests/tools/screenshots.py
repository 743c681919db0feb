"""`make screenshots`: the pictures of dashboard and report in docs/images, each light and dark, wide and on a phone.

The demonstration runs until its sites have seen enough, then its page is taken; after it the report of the first run.
`python -m tests.tools.screenshots report` takes the report only.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser

from tests.pages.browsing import CHROMIUM, NO_BROWSER, browser

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ITEMS = 4_000  # that the site has seen before its picture is taken
LONGEST_MS = 600_000
WIDTHS = {1280: 4_400, 390: 4_600}  # and how much of the height is kept
COLOURS = 256
SETTLE_MS = 12_000  # flows are those since the page was opened


@contextmanager
def demo() -> Iterator[str]:
    """Run the demonstration; gives the address of the first site."""
    command = [sys.executable, "-m", "cosend.cli", "demo", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        assert process.stdout is not None
        try:
            for line in process.stdout:
                found = re.search(r"dashboard: (http://\S+)/dashboard/", line)
                if found:
                    break
            else:
                sys.exit("the demonstration did not start")
            yield found[1]
        finally:
            process.terminate()
            process.communicate()


def wait_for_items(running: Browser, url: str) -> None:
    """Wait until a site has seen enough to look at."""
    page = running.new_page()
    page.goto(f"{url}/dashboard/")
    seen = f"""Number(document.querySelector('[data-value="items"]')?.textContent.replace(/,/g, '')) >= {ITEMS}"""
    page.wait_for_function(seen, timeout=LONGEST_MS, polling=1_000)
    page.close()


def take(running: Browser, url: str, name: str, ready: str, last: str = "") -> None:
    """Take all pictures of a page, as soon as something is there; to the end of its `last` part if one is named."""
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
            end = page.locator(last).first.bounding_box() if last else None
            context.close()
            shrink(file, round(end["y"] + end["height"]) + 30 if end else height)


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
            with demo() as url:
                wait_for_items(running, url)
                take(running, f"{url}/dashboard/", "dashboard", '[data-part="where"] svg')
        command = [sys.executable, "-m", "cosend.cli", "run"]  # which the picture shows, without a path of this machine
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)  # noqa: S603 - our own
        take(
            running,
            (Path(folder) / "out" / "run" / "report.html").as_uri(),
            "report",
            "figure svg:visible",
            "#flow + figure",
        )


if __name__ == "__main__":
    main()
