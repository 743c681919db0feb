"""A web page of somebody else in the same browser: it can neither operate a site on this machine nor read it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests.cli.serving import Served, served, write_network
from tests.dashboard.browsing import CHROMIUM, NO_BROWSER

pytestmark = [pytest.mark.claims, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)]

NAME = "evil.example"
# Whatever a page may send to an address without asking it first; a Blob has no type.
PAGE = """<script>
const send = (path, body) => fetch(SITE + path, {method: "POST", mode: "no-cors", body});
const untyped = (value) => new Blob([JSON.stringify(value)]);
async function go() {
  const said = {mode: "observe", classifier: "young"}, item = {id: "from-elsewhere", features: {age: 1}};
  for (const make of [untyped, JSON.stringify]) {
    await send("/v1/mode", make(said));
    await send("/v1/arms/old", make({action: "pause", cost: 0.77}));
    await send("/v1/classify", make({items: [item]}));
    await send("/v1/labels", make({labels: [{id: "from-elsewhere", label: "ill"}]}));
  }
  document.title = "done";
}
go().catch((error) => document.title = "failed: " + error);
</script>"""
READ = """async () => {
  const found = {};
  for (const path of ["/v1/events", "/v1/summary", "/dashboard/", "/health/live"]) {
    found[path] = (await fetch(path)).status;
  }
  const headers = {"Content-Type": "application/json"};
  found["/v1/arms/old"] = (await fetch("/v1/arms/old", {method: "POST", headers, body: '{"cost": 0.5}'})).status;
  return found;
}"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Served]:
    write_network(tmp_path)
    with served(tmp_path, "--site", "north", "--no-durable") as running:
        running.wait_until_ready()
        yield running


@pytest.fixture
def elsewhere(site: Served) -> Iterator[int]:
    """Serve a page that attacks the site, and give its port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.replace("SITE", json.dumps(site.url)).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def chromium() -> Iterator[Any]:
    """Run a browser for which a name of somebody else points at this machine."""
    options = ["--no-sandbox", f"--host-resolver-rules=MAP {NAME} 127.0.0.1"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield running
        running.close()


def test_a_page_of_somebody_else_operates_nothing_and_reads_nothing(
    site: Served, elsewhere: int, chromium: Any
) -> None:
    before = site.ask("/v1/summary")[1], site.ask("/v1/arms")[1]
    page = chromium.new_page()
    page.goto(f"http://{NAME}:{elsewhere}/")
    page.wait_for_function("document.title != ''")
    assert page.title() == "done"  # it was let through by the browser, and cannot see what became of it
    rebound = chromium.new_page()
    port = site.url.rpartition(":")[2]
    rebound.goto(f"http://{NAME}:{port}/health/live")  # its name points at the site now
    found = rebound.evaluate(READ)
    assert found == dict.fromkeys(found, 403)
    assert "name of this site" in rebound.inner_text("body")
    after = site.ask("/v1/summary")[1], site.ask("/v1/arms")[1]
    assert (after[0]["events"], after[0]["mode"], after[1]) == (before[0]["events"], before[0]["mode"], before[1])


def test_the_page_of_the_site_itself_works_as_before(site: Served, chromium: Any) -> None:
    for host in ("127.0.0.1", "localhost"):
        page = chromium.new_page()
        page.goto(f"http://{host}:{site.url.rpartition(':')[2]}/dashboard/")
        page.locator('[data-value="items"]').wait_for(timeout=60_000)
        page.close()
