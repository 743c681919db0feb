"""`cosend run` as a user types it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import Result

from cosend.cli.run import changed
from cosend.config.network_file import load
from cosend.run import result as report
from cosend.run.play import play
from cosend.run.prepare import prepare
from tests.cli.commands import called, refused

pytestmark = pytest.mark.compiled

SITES = ("school", "town", "seniors")
POLICIES = (
    "MixedViews",
    "CoS",
    "CellKLUCB",
    "ZoomingKLUCB",
    "oracle",
    "best single model",
    "best local model",
    "local only",
    "AdaBoost",
    "SWA 100",
    "previous label",
    "commonest label",
    "epsilon-greedy",
    "LinUCB",
)
COMMAND = [sys.executable, "-m", "cosend.cli"]
PATIENCE_S = 240  # on a slow machine, with nothing compiled yet


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """Return a short run of the default network and the folder that it has written to."""
    folder = tmp_path_factory.mktemp("run")
    return called("run", "--items", "600", "--seeds", "2", "--out", folder, columns=120), folder


def test_the_verdict_comes_first_then_a_row_for_every_policy_then_the_sites(finished: tuple[Result, Path]) -> None:
    done, folder = finished
    assert done.exit_code == 0, done.stderr
    shown = done.stdout
    assert re.match(r"Routing earns 0\.\d{3} per item, .* of the oracle\. MixedViews,", " ".join(shown.split()))
    assert shown.index(" per item, ") < shown.index("reward per item") < shown.index(f"report: {folder}/report.html")
    for policy in (*POLICIES, "uniform random"):
        row = rf"^ *{policy}(?: \([\w, ]+\))? +0\.\d{{3}} \N{{PLUS-MINUS SIGN}} 0\.\d{{3}} "
        assert len(re.findall(row, shown, re.MULTILINE)) == 1, policy
    assert shown.count("best reward)") == 1 or shown.count("tied for best)") > 1
    assert len(re.findall(r"MixedViews \(this run", shown)) == 1
    assert shown.count(" (hindsight) ") == 3
    assert "Reward per item: 1 for a correct prediction, minus costs." in shown
    for site in SITES:
        assert re.search(rf"^ *{site} +0\.\d{{3}} ", shown, re.MULTILINE)
    for site in SITES:
        assert re.search(rf"^- {site} (asks|keeps) ", shown, re.MULTILINE)
    assert "600 items" in shown
    assert "2 seeds" in shown
    assert "stream 2 of 2: " in done.stderr
    assert "items/s" in done.stderr


def test_the_report_folder_has_the_page_the_result_and_the_plots(finished: tuple[Result, Path]) -> None:
    _, folder = finished
    page = (folder / "report.html").read_text()
    assert "<svg" in page
    assert '<h2 id="why">Calls to peers</h2>' in page
    for site in SITES:
        assert re.search(rf"<li>{site} (asks|keeps) ", page)
    assert "<small>all free models combined, learnt here, from 1" in page  # of 200 items, 50 late
    assert "<small>trees learnt here, " in page
    assert not re.search(r"(?:src|href)=\"https?:", page)
    assert json.loads((folder / "results.json").read_text())["sites"] == list(SITES)
    plots = sorted((folder / "plots").iterdir())
    assert [plot.stem for plot in plots] == ["error", "flow", "phases", "reward", "use"]
    assert all(plot.read_text().startswith("<svg") for plot in plots)


def test_a_network_file_with_mistakes_is_refused_with_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('call_cost = 2\nseed = "x"\n[stream]\nkind = "traffic"\n[[context]]\nkind = "time"\n[[sites]]\n')
    said = refused("run", file, "--out", tmp_path / "out")
    for key in ("call_cost: ", "seed: ", "sites.1.name: ", "sites.1.classifiers: "):
        assert f"- {key}" in said
    assert "4 mistakes" in said
    assert not (tmp_path / "out").exists()


def test_help_and_version() -> None:
    text = called("run", "--help").stdout
    for option in ("--out", "--json", "--items", "--seed", "network"):
        assert option in text.lower()
    listed = called("run", "--list")
    assert [line.split()[2] for line in listed.stdout.splitlines()] == ["clinics", "traffic"]
    assert re.fullmatch(r"cosend \d+\.\d+\.\d+\n", called("--version").stdout)


def test_what_was_played_before_a_stop_is_the_beginning_of_the_whole() -> None:
    """The results so far count the items so far, and the decisions are those that a whole run begins with."""
    network, folder = load(None)
    prepared = prepare(changed(network, 600, None), folder)
    begun = prepared.first_slots(50)
    whole, part = play(prepared), play(begun)
    assert part.first.arms[0].tolist() == whole.first.arms[0][:50].tolist()
    result = report.result(begun, part)
    assert result["error_curves"]["MixedViews"]["item"][-1] == 50
    assert result["items"] == 150


def test_interrupt_ends_cleanly_with_the_results_so_far(tmp_path: Path) -> None:
    """Ctrl-C as soon as the progress bar has moved, as a user at a terminal would press it."""
    ours, theirs = pty.openpty()
    command = [*COMMAND, "run", "--items", "80000", "--out", str(tmp_path)]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)  # noqa: S603 - our own
    os.close(theirs)
    try:
        shown = read_until(ours, re.compile(r"[1-9][\d,]* items/s"))
        process.send_signal(signal.SIGINT)
        shown += read_until(ours, None)
        assert process.wait(PATIENCE_S) == 130, shown[-2_000:]
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert "these are the results so far" in " ".join(shown.split())
    assert "Traceback" not in shown
    for site in SITES:
        assert re.search(rf"{site} +0\.\d\d\d ", shown)
    result = json.loads((tmp_path / "results.json").read_text())
    assert 1 <= result["error_curves"]["MixedViews"]["item"][-1] <= 80_000
    assert re.search(r'class="stopped">Stopped after [\d,]+ of 80,000 items', (tmp_path / "report.html").read_text())


def read_until(terminal: int, pattern: re.Pattern[str] | None) -> str:
    """Return what a terminal shows until a pattern is there, or until whoever writes to it has ended."""
    shown = ""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            read = os.read(terminal, 65_536)
        except OSError:  # how Linux says that nobody has the other side open
            read = b""
        shown += read.decode(errors="replace")
        if not read or (pattern is not None and pattern.search(shown)):
            return shown
    raise AssertionError(f"nothing more came for {PATIENCE_S} s: {shown[-2_000:]}")
