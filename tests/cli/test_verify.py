"""`cosend verify` as a user types it, over folders that running sites have left."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from cosend import fold
from cosend.cli.main import app
from cosend.engine import events
from cosend.engine.events import encode
from cosend.engine.snapshot import state_of
from cosend.runtime.running_site import RunningSite
from cosend.store.event_log import EventLog, LogReader
from cosend.store.recovery import read_events, write_snapshot
from tests.cli.folders import a_folder, a_killed_folder, a_pruned_folder, a_setup, contents, live


def verified(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, ["verify", *map(str, arguments)])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_folder(tmp_path_factory.mktemp("stopped") / "north")


def happened(folder: Path) -> list[events.Event]:
    with LogReader(folder) as log:
        return [event for _, event in read_events(log)]


def written(folder: Path, log: list[events.Event]) -> Path:
    with EventLog(folder, site="north") as opened:
        opened.append([encode(event) for event in log])
    return folder


def test_a_site_that_was_stopped_is_the_same_again_and_nothing_is_changed(stopped: Path) -> None:
    before = contents(stopped)
    result = verified(stopped)
    assert result.exit_code == 0, result.output
    assert contents(stopped) == before
    said = result.stdout.splitlines()
    assert said[0].startswith("site north: ")
    assert ", 100 items, " in said[0]
    assert sum("is what the events lead to, byte for byte" in line for line in said) == 3
    assert "- models that learn were not compared: learns" in said
    assert "- this version would make the same decisions" in said
    assert said[-1] == "the same"


def test_a_site_that_was_killed_is_looked_at_without_putting_its_log_in_order(tmp_path: Path) -> None:
    folder = a_killed_folder(tmp_path / "north")
    before = contents(folder)
    result = verified(folder)
    assert (result.exit_code, contents(folder)) == (0, before), result.output
    assert "what the site would start from is what the events lead to" in result.stdout


def test_where_events_were_removed_it_begins_with_the_oldest_snapshot(tmp_path: Path) -> None:
    folder = a_pruned_folder(tmp_path)
    with LogReader(folder) as log:
        assert log.oldest > 1
    result = verified(folder)
    assert result.exit_code == 0, result.output
    assert "were removed: begun with the snapshot of position" in result.stdout
    assert "what the site would start from is what the events lead to" in result.stdout
    oldest = min(folder.glob("state-*.npz"))
    for other in set(folder.glob("state-*.npz")) - {oldest}:
        other.unlink()
    result = verified(folder)
    assert result.exit_code == 0, result.output
    assert "there is no second state to compare with" in result.stdout
    oldest.unlink()
    result = verified(folder)
    assert (result.exit_code, "it has no good snapshot" in result.stderr) == (2, True)


def test_decisions_that_would_be_others_are_shown(tmp_path: Path, stopped: Path) -> None:
    log = happened(stopped)
    places = [n for n, event in enumerate(log) if isinstance(event, events.Chosen) and len(event.arms) == 4]
    for place in places[-12:]:
        chosen = log[place]
        assert isinstance(chosen, events.Chosen)
        log[place] = replace(chosen, propensities=(*chosen.propensities[:2], 0.123, chosen.propensities[3]))
    (tmp_path / "as it was").mkdir()
    result = verified(written(tmp_path / "as it was", happened(stopped)))
    assert result.exit_code == 0, result.output
    assert "there is no second state to compare with" in result.stdout
    result = verified(written(tmp_path, log), "--most", "3")
    assert result.exit_code == 1, result.output
    assert "this version would decide differently, first in these 3 events" in result.stdout
    chosen = log[places[-12]]
    assert isinstance(chosen, events.Chosen)
    assert f"event {places[-12]}, Chosen, decision {chosen.first + 2}: was {chosen.arms[2]}" in result.stdout
    assert "propensity 0.123" in result.stdout
    assert result.stdout.splitlines()[-1] == "different"


def test_a_snapshot_that_is_not_of_these_events_is_found_out(tmp_path: Path, stopped: Path) -> None:
    log = happened(stopped)
    with EventLog(written(tmp_path, log), site="north") as opened:
        half = fold(log[: len(log) // 2])
        write_snapshot(opened, state_of(half), len(log) - 4)
    result = verified(tmp_path)
    assert result.exit_code == 1, result.output
    assert f"DIFFERENT: the snapshot of position {len(log) - 4} is not what the events lead to: " in result.stdout
    assert "DIFFERENT: the site cannot start from its newest snapshot: event" in result.stdout
    assert "this version would make the same decisions" in result.stdout


def test_a_damaged_snapshot_is_a_remark_because_the_log_has_everything(tmp_path: Path, stopped: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "north")
    newest = max(folder.glob("state-*.npz"))
    newest.write_bytes(newest.read_bytes()[:-100])
    result = verified(folder)
    assert result.exit_code == 0, result.output
    assert "not a whole saved state" in result.stdout


def test_a_site_that_runs_must_stop_first(tmp_path: Path) -> None:
    async def run() -> Result:
        node = RunningSite(a_setup(), tmp_path)
        await node.start()
        await live(node, 0, 2)
        try:
            return await asyncio.to_thread(verified, tmp_path)
        finally:
            await node.stop()

    result = asyncio.run(run())
    assert (result.exit_code, "its site is running, and must stop first" in result.stderr) == (2, True)
    assert verified(tmp_path).exit_code == 0


def test_what_cannot_be_read_is_said_in_a_line(tmp_path: Path, stopped: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "events.sqlite").write_bytes(b"something else" * 100)
    damaged = shutil.copytree(stopped, tmp_path / "damaged")
    data = bytearray((damaged / "events.sqlite").read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    (damaged / "events.sqlite").write_bytes(data)
    with EventLog(tmp_path / "empty", site="north"):
        pass
    for folder, said in (
        (tmp_path / "nothing", "not the folder of a site"),
        (foreign, "not an event log of cosend"),
        (damaged, "damaged"),
        (tmp_path / "empty", "the log is empty"),
    ):
        result = verified(folder)
        assert (result.exit_code, result.stdout, said in result.stderr) == (2, "", True), result.output
        assert isinstance(result.exception, SystemExit)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "empty", "foreign"]
