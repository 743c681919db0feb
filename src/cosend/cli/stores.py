"""`cosend export` and `cosend verify`: what is in the folder of a site, as a file, and whether it is sound."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from cosend.cli.shared import extra, how_it_was_made, new_console, printable, say_errors, watched
from cosend.errors import SettingError, StateError

if TYPE_CHECKING:
    from rich.console import Console

    from cosend.runtime.decision_export import Export
    from cosend.runtime.store_check import Replayed

LINES: Final = (".jsonl", ".ndjson")
ALLOWED: Final = "a name that ends in .jsonl or .parquet, or - for standard output"


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The store of a site: the folder of `serve --store`.")
    ],
    to: Annotated[
        Path, typer.Option(help="The file to write: FILE.jsonl, FILE.parquet, or - for standard output.")
    ] = Path("-"),
    events: Annotated[bool, typer.Option("--events", help="Write the raw events instead of decisions.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Export the decisions of a site with their true labels and propensities.

    Each line, or row, is one decision: number, id, at, arm, phase, cell, context, propensity, cost, label,
    label_of_arm, answered_by, labelled, truth, gain, cost_paid, labelled_at, score, item. Times are seconds since 1970;
    gains and scores are fractions of the range of scores. `cost` was expected at the choice; `cost_paid` is the real
    cost, if the answer or the label named it. Values that the site does not keep are null. A site keeps the features of
    an item (`item`) only if a model learns from them; otherwise join the rows with your own data by `id`. In a Parquet
    file, items and labels of mixed types are JSON text.

    The version, date, command, site, seed and the SHA-256 of the exported events are in the metadata of a Parquet file
    under "cosend", or in FILE.jsonl.about.json next to FILE.jsonl.

    The store is not changed. A running site keeps running; a stopped site can restart when the export is done. The file
    is written completely or not at all.
    """
    console = new_console(stderr=True)
    with say_errors():
        check_target(to, events=events, force=force)
        with extra("service"):
            from cosend.runtime.decision_export import Export
            from cosend.store.event_log import LogReader
        with (
            LogReader(folder, may_run=True) as log,
            opened(to) as file,
            watched(console) as watch,
            Export(log, watch) as source,
        ):
            count = write(source, file, parquet=to.suffix == ".parquet", events=events)
            made = about(source)
        if to.suffix in LINES:
            with opened(to.with_name(f"{to.name}.about.json")) as file:
                file.write(json.dumps(made, indent=2).encode() + b"\n")
    for remark in source.remarks:
        console.print(f"note: {remark}", highlight=False, soft_wrap=True)
    if str(to) != "-":
        console.print(f"{count} written to {printable(to)}", highlight=False, soft_wrap=True)


def write(source: Export, file: IO[bytes], *, parquet: bool, events: bool) -> str:
    from cosend.runtime.decision_export import row_lines, write_lines, write_parquet
    from cosend.text import counted

    if events:
        write_lines(file, source.event_lines())
        return counted(source.events, "event")
    source.gather()
    if parquet:
        write_parquet(file, source, about(source))
    else:
        write_lines(file, row_lines(source.rows()))
    return counted(source.decisions, "decision")


def about(source: Export) -> dict[str, Any]:
    """Return what made an export, and from what, once all events are read."""
    return {**how_it_was_made(), **source.about()}


def check_target(to: Path, *, events: bool, force: bool) -> None:
    """Raise unless the file may be written, before anything is read."""
    if str(to) == "-":
        return
    if to.suffix not in (*LINES, ".parquet"):
        raise SettingError("--to", str(to), ALLOWED)
    if events and to.suffix == ".parquet":
        raise SettingError("--to", str(to), "a name that ends in .jsonl: events differ too much for a table")
    if to.is_dir() or not to.parent.is_dir():
        raise SettingError("--to", str(to), "a file in an existing folder")
    if to.exists() and not force:
        raise SettingError("--to", str(to), "a file that does not exist yet; --force overwrites it")
    if to.suffix == ".parquet":
        with extra("files"):
            import_module("pyarrow.parquet")


@contextmanager
def opened(to: Path) -> Iterator[IO[bytes]]:
    from cosend.store.atomic_file import replacing

    try:
        if str(to) == "-":
            stream = typer.get_binary_stream("stdout")
            yield stream
            stream.flush()
        else:
            with replacing(to) as file:
                yield file
    except BrokenPipeError:  # the reader has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise StateError(f"{printable(to)}: cannot be written ({why})") from error


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The store of a stopped site: the folder of `serve --store`.")
    ],
    most: Annotated[int, typer.Option(min=1, help="Show at most this many differences.")] = 10,
) -> None:
    """Verify the store of a stopped site: rebuild the state from the log and re-evaluate every decision.

    The store is not changed. The exit code is 0 if everything is the same, 1 if something differs, and 2 if the store
    cannot be read.
    """
    console = new_console()
    with say_errors():
        with extra("service"):
            from cosend.runtime.store_check import Replay
            from cosend.store.event_log import LogReader
        with LogReader(folder) as log, watched(new_console(stderr=True)) as watch:
            found = Replay(log, watch).run(most)
    show(console, found)
    raise typer.Exit(0 if found.is_same else 1)


def show(console: Console, found: Replayed) -> None:
    from cosend.runtime.store_check import told
    from cosend.text import counted

    counts = [counted(found.events, "event"), counted(found.items, "item")]
    if found.labels or not found.scores:
        counts.append(counted(found.labels, "label"))
    if found.scores:
        counts.append(counted(found.scores, "score"))
    facts = [*found.remarks, *found.checked, *(f"DIFFERENT: {sentence}" for sentence in found.wrong)]
    lines = [f"site {found.site}: {', '.join(counts)}", *(f"- {fact}" for fact in facts)]
    if found.differences:
        lines.append(
            f"- DIFFERENT: this version would decide differently, first in these {len(found.differences):,} events:"
        )
        lines += [f"  {told(difference)}" for difference in found.differences]
    else:
        lines.append("- this version would make the same decisions")
    folded, decided = (
        f"{seconds:.1f} s ({found.replayed / max(seconds, 1e-9):,.0f} events/s)"
        for seconds in (found.fold_s, found.decide_s)
    )
    lines += [
        f"state rebuilt in {folded}, decisions re-evaluated in {decided}",
        "the same" if found.is_same else "different",
    ]
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
