"""A browser, a page that is watched, and a network to look at."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from tests.cli.serving import Served
from tests.tools.processes import free_port

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NO_BROWSER = "there is no Chromium on this machine"
PATIENCE_MS = 60_000
FOREIGN = "evil.example"

# Words, or parts of them, that begin on one line and end on another.
BROKEN_WORDS = """() => {
  const broken = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = new Range();
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\d]+/gu)) {
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((place) => Math.round(place.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""
NETWORK = """
call_cost = 0.05
[[context]]
feature = "age"
range = [0, 100]
[[context]]
feature = "pulse"
range = [0, 200]
[[sites]]
name = "north"
port = PORT
score_local = "all"
learnt = false
[[sites.classifiers]]
name = "young"
model = "models:young"
[[sites.classifiers]]
name = "always_without_findings"
model = "always"
label = "well"
cost = 0.02
[[sites]]
name = "south"
port = ELSEWHERE
[[sites.classifiers]]
name = "expert"
model = "models:expert"
"""
MODELS = """
def young(item):
    if item["age"] <= 50:
        return "ill" if item["age"] < 30 else "well"
    return "ill" if item["age"] % 2 else "well"  # right for every other one

def expert(item):
    return "ill" if item["age"] < 30 or item["age"] > 50 else "well"
"""


class Watched:
    """A page, and what went wrong on it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url)

    def _heard(self, message: Any) -> None:
        """Note errors; that a token was refused is one that browsers report too."""
        if message.type == "error" and not re.search(r"status of (401|403)", message.text):
            self.errors.append(message.text)

    def value(self, name: str) -> str:
        return self.page.locator(f'[data-value="{name}"]').inner_text()

    def wait_for_value(self, name: str, text: str) -> None:
        self.page.locator(f'[data-value="{name}"]', has_text=text).wait_for()

    def row(self, arm: str) -> dict[str, str]:
        cells = self.page.locator(f'tr[data-arm="{arm}"] td')
        texts = cells.evaluate_all("cells => cells.map(cell => [cell.dataset.is, cell.innerText])")
        return {name: " ".join(text.split()) for name, text in texts}

    def tip(self, arm: str, cell: str) -> str:
        return self.page.locator(f'tr[data-arm="{arm}"] td[data-is="{cell}"] [title]').get_attribute("title") or ""

    def press(self, name: str) -> None:
        button = self.page.get_by_role("button", name=name, exact=True).last
        button.press("Enter")  # focus and key at once: a dialog that opens takes the focus

    def broken_words(self) -> list[str]:
        return list(self.page.evaluate(BROKEN_WORDS))

    def is_too_wide(self) -> bool:
        """Tell whether one would have to scroll sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@contextmanager
def browser() -> Iterator[Browser]:
    """Run the system's Chromium, for which the name of another website points at this machine."""
    arguments = ["--no-sandbox", f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield running
        finally:
            running.close()


@contextmanager
def looking_at(running: Browser, url: str, width: int = 1280, scheme: Any = "light") -> Iterator[Watched]:
    """Open a page, and check at the end that nothing went wrong and nobody else was asked for anything."""
    context = running.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        watched = Watched(context.new_page(), url)
        yield watched
        assert watched.errors == []
        assert watched.hosts - {""} == {urlsplit(url).netloc} - {""}  # a file has no host
    finally:
        context.close()


def write_files(folder: Path, port: int) -> None:
    text = NETWORK.replace("PORT", str(port)).replace("ELSEWHERE", str(free_port()))
    (folder / "network.toml").write_text(text)
    (folder / "models.py").write_text(MODELS)


def teach(site: Served, rounds: int, first: int = 0) -> None:
    """Send items of all ages, ten at a time, and their labels."""
    for n in range(first, first + rounds):
        ages = [(7 * n + 10 * k) % 100 for k in range(10)]
        items = [{"features": {"age": age, "pulse": 60 + age}} for age in ages]
        status, told = site.ask("/v1/classify", {"items": items})
        assert status == 200, told
        truths = ["ill" if age < 30 or age > 50 else "well" for age in ages]
        labels = [{"id": each["id"], "label": truth} for each, truth in zip(told["decisions"], truths, strict=True)]
        assert site.ask("/v1/labels", {"labels": labels})[0] == 200


def events_of(site: Served, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind in the log of a site."""
    last = site.ask("/v1/summary")[1]["events"]
    text = site.ask(f"/v1/events?start={max(0, last - 500)}&count=600")[1]
    lines = [json.loads(line) for line in text.splitlines()] if isinstance(text, str) else [text]
    return [line for line in lines if line["event"] == kind]
