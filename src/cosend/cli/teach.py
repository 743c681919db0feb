"""`cosend teach`: what is known before a site decides anything, from a recording or another system's log."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cosend.cli.shared import LabelColumn, SiteColumn, extra, new_console, printable, say_errors
from cosend.cli.sites import Durable, NetworkPath, SiteName, StoreFolder
from cosend.errors import SettingError, StreamError

if TYPE_CHECKING:
    from rich.console import Console

    from cosend.engine.recording import Recording
    from cosend.runtime.running_site import RunningSite
    from cosend.streams.table import Table

SILENCE_S: Final = 2.0  # between lines of progress


def teach(
    file: NetworkPath,
    stream: Annotated[Path, typer.Option("--stream", help="The recording (CSV, JSON lines or Parquet).")],
    site: SiteName = None,
    store: StoreFolder = None,
    label: LabelColumn = None,
    arm: Annotated[
        str | None, typer.Option("--arm", help="Instead of --label: the column with the classifier that was used.")
    ] = None,
    score: Annotated[
        str | None, typer.Option("--score", help="With --arm: the column with the score of its answer.")
    ] = None,
    propensity: Annotated[
        str | None, typer.Option("--propensity", help="With --arm: the column with the probability of that choice.")
    ] = None,
    site_column: SiteColumn = None,
    durable: Durable = True,
) -> None:
    """Teach a stopped site from a recording or from the log of another system.

    With --label, every free classifier of the site is run on the rows. The labels teach the site, its models that
    learn, and its learnt arms. With --arm and --score, no classifier is run: the rows say which classifier another
    system used and how good the answer was. If you also know the probability of each choice, --propensity subsamples
    the rows to remove the bias of that system.

    Each row counts as an item of the site and is written to its log. Rows without a label or score are skipped.
    """
    console = new_console(stderr=True)
    with say_errors():
        check_columns(label, arm, score, propensity)
        with extra("service"):
            from cosend.runtime.running_site import RunningSite
            from cosend.server.from_file import read_site
        with console.status("loading models"):
            found = read_site(file, site, keep_days=36_500.0)
        name = found.setup.name
        uses = [each for each in (arm, propensity) if each is not None]
        table = rows_for(file, stream, label or score or "", site_column, name, uses)
        recording = read_rows(table, arm, propensity, found.setup.seed)
        folder = store or file.parent / "store" / name
        node = RunningSite(found.setup, folder, durable=durable)
        learnt = asyncio.run(_taught(node, recording, console))
        passed = f", {len(table) - learnt:,} skipped" if learnt < len(table) else ""
        console.print(f"site {name} has learnt from {learnt:,} of {len(table):,} rows{passed}: {printable(folder)}")


def check_columns(label: str | None, arm: str | None, score: str | None, propensity: str | None) -> None:
    if (label is None) == (arm is None):
        raise SettingError("--label", label, "given, unless --arm and --score are given")
    if (arm is None) != (score is None):
        raise SettingError("--score", score, "given together with --arm")
    if propensity is not None and arm is None:
        raise SettingError("--propensity", propensity, "given together with --arm and --score")


def rows_for(file: Path, stream: Path, known: str, site_column: str | None, site: str, others: list[str]) -> Table:
    """Return the rows of a recording that a site is taught: those that arrived there, without those for training.

    known   the column of which a row is worthless if it is missing there
    others  columns that are no features
    """
    from cosend.config.build import read_stream
    from cosend.config.network_file import load, with_stream
    from cosend.streams.read_files import read_table

    network, folder = load(file)
    if others:
        table = read_table(stream, label=known, contexts=others, site=site_column)
    else:
        network = with_stream(network, stream, known, site_column)
        table = read_stream(network, folder)
        table = table.part(network.training, len(table))
    if table.sites is None:
        return table
    there = table.sites == site
    if not there.any():
        raise StreamError(f"no row belongs to site {site!r}", f"column {site_column!r} has other sites", file=stream)
    return table.at(there)


def read_rows(table: Table, arm: str | None, propensity: str | None, seed: int) -> Recording:
    from cosend.engine.recording import read_recording

    rows, truths = zip(*table.rows(), strict=True)
    if arm is None:
        return read_recording(rows, truths, None, None, None, seed)
    used = [str(each) for each in table.contexts[arm].tolist()]
    likely = None if propensity is None else table.contexts[propensity].tolist()
    features = [{name: value for name, value in row.items() if name in table.features} for row in rows]
    return read_recording(features, None, used, truths, likely, seed)


async def _taught(node: RunningSite, recording: Recording, console: Console) -> int:
    """Start the site, teach it, and stop it with a snapshot; returns how many rows it has learnt."""
    from cosend.engine.recording import AT_ONCE

    await node.start()
    try:
        if recording.arms:  # before any row is learnt
            node.engine.check_log(recording.arms, recording.known)
        begun, done, learnt, total = time.monotonic(), 0, 0, len(recording.rows)
        said = begun
        while done < total:
            learner = node.state.learner
            part = recording.part(done, 1 if learner.registry.may_overflow(AT_ONCE, learner.arrivals) else AT_ONCE)
            learnt += await _part(node, part)
            done += len(part.rows)
            if time.monotonic() - said > SILENCE_S:
                said = time.monotonic()
                console.print(f"{done:,} of {total:,} rows, {done / (said - begun):,.0f} rows/s")
    finally:
        await node.stop()
    return learnt


async def _part(node: RunningSite, part: Recording) -> int:
    known: Any = part.known
    if not part.arms:
        return await node.begin_with(part.rows, known)
    await node.begin_with_log(part.rows, part.arms, known)
    return len(part.rows)
