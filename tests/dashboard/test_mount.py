"""The pages as a part of the service: what they let in, and what they never load or tell."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from cosend.dashboard import mount
from cosend.dashboard.mount import Pages
from cosend.node.node import Node
from cosend.service.app import build_app
from cosend.service.server import Address, config_of
from cosend.service.tokens import Tokens
from tests.cli.serving import free_port
from tests.dashboard.browsing import CHROMIUM, NO_BROWSER, browser, looking_at
from tests.service.live import a_setup

TOKEN = "reader-0123456789"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a site with tokens and pages; NiceGUI is one for a process, so that there is one for all tests."""
    tokens = Tokens({TOKEN: frozenset({"read"})})
    node, address = Node(a_setup(), tmp_path_factory.mktemp("site")), Address(port=free_port())
    server = uvicorn.Server(config_of(build_app(node, tokens, pages=Pages(node, tokens)), address, with_pages=True))
    server.config.port = address.port
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    assert server.started
    yield address.url
    server.should_exit = True
    thread.join()


def test_the_root_leads_to_dashboard_and_description_and_unknown_routes_are_problems_as_ever(url: str) -> None:
    start = httpx.get(f"{url}/")
    assert start.status_code == 200
    links = re.findall(r'href="([^"]+)"', start.text)
    assert links == ["/dashboard/", "/docs", "/openapi.json"]
    assert [httpx.get(f"{url}{link}", timeout=60.0).status_code for link in links] == [200, 200, 200]
    assert httpx.get(f"{url}/v1/nothing").headers["content-type"] == "application/problem+json"
    assert httpx.get(f"{url}/v1/summary").status_code == 401


def test_the_page_loads_nothing_from_elsewhere_and_tells_nothing_before_a_token(url: str) -> None:
    page = httpx.get(f"{url}/dashboard/", timeout=60.0)
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "https://" not in policy
    assert 'class="tiles"' not in page.text
    assert TOKEN not in page.text


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/_nicegui_ws/socket.io/?EIO=4&transport=polling"])
def test_a_page_from_elsewhere_is_refused(url: str, path: str) -> None:
    assert httpx.get(f"{url}{path}", headers={"Origin": "https://elsewhere.example"}).status_code == 403
    assert httpx.get(f"{url}{path}", headers={"Origin": url}, timeout=60.0).status_code in (200, 400)


def test_web_sockets_lead_to_pages_only_and_not_from_elsewhere(url: str) -> None:
    socket = url.replace("http", "ws")
    for path, origin in (("/dashboard/_nicegui_ws/socket.io/", "https://elsewhere.example"), ("/v1/summary", url)):
        with pytest.raises(InvalidStatus):
            connect(f"{socket}{path}?EIO=4&transport=websocket", origin=Origin(origin)).close()


@pytest.mark.claims
@pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)
def test_there_are_only_so_many_pages_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount, "MOST_PAGES", 3)
    for _ in range(5):  # nobody has opened them
        assert httpx.get(f"{url}/dashboard/", timeout=60.0).status_code == 200
    monkeypatch.setattr(mount, "MOST_PAGES", 2)
    with browser() as chromium, looking_at(chromium, f"{url}/dashboard/") as watched:
        watched.page.get_by_label("token").fill(TOKEN)
        watched.page.keyboard.press("Enter")
        watched.wait_for_value("items", "0")
        assert httpx.get(f"{url}/dashboard/", timeout=60.0).status_code == 200
        monkeypatch.setattr(mount, "MOST_PAGES", 1)
        refused = httpx.get(f"{url}/dashboard/")
        assert refused.status_code == 503
        assert "close one" in refused.json()["detail"]


def test_pages_that_somebody_asks_for_without_end_shut_nobody_out(url: str) -> None:
    with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=60.0) as elsewhere:
        asked = [elsewhere.get(f"{url}/dashboard/").status_code for _ in range(110)]
    assert set(asked) == {200}
    assert httpx.get(f"{url}/dashboard/", timeout=60.0).status_code == 200


def test_nothing_of_nicegui_is_loaded_before_somebody_looks() -> None:
    code = (
        "import sys; from cosend.dashboard.mount import Pages; from cosend.service import server; "
        "sys.exit('nicegui' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - our own
