"""`cosend reproduce beyond`: everything that the paper leaves open, and the best of the field beside us."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cosend.cli.completion import in_their_case, names_like
from cosend.cli.errors import STOPPED, say_errors
from cosend.cli.extras import check_installed
from cosend.cli.show import READING, new_console, print_tables, printable, saying_when_compiling, steps_bar
from cosend.experiments.beyond import report
from cosend.experiments.beyond import run as experiment
from cosend.experiments.beyond.settings import PARTS, Settings
from cosend.experiments.kdd99.settings import WINDOW_ROWS
from cosend.reports.folder import check_ready, writing

QUICK = Settings(seeds=1, rows=2_000, parts=("windows",))


def beyond(
    data: Annotated[
        Path | None, typer.Option(help="The KDD Cup 99 file, .gz or plain; without it scikit-learn downloads it.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many runs a number is averaged over; slow ones have fewer.",
            show_default=str(Settings().seeds),
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results.json, tables.md and the plots go.")] = Path("out/beyond"),
    part: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this part; may be repeated: {', '.join(PARTS)}.", autocompletion=names_like(PARTS)),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Length of every window.", show_default=f"{WINDOW_ROWS:,}")] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help=f"A first answer: {QUICK.parts[0]}, of {QUICK.rows:,} rows, with 1 seed."),
    ] = False,
) -> None:
    """Measure all policies beside the field: windows, late labels, costs, drift, liars, classifiers that learn.

    Needs the extras models and reports, and some parts field.
    """
    console = new_console()
    with say_errors():
        check_installed("sklearn", "matplotlib")
        few = QUICK if quick else Settings()
        parts = in_their_case(part, PARTS) if part else few.parts
        settings = Settings(data=data, seeds=seeds or few.seeds, rows=rows or few.rows, parts=parts)
        check_ready(out, ("results.json", "tables.md"), "--out")
        found, done = collected(settings, console)
        results = experiment.results(settings, found)
        with writing(out, "--out"):
            files = report.write(results, out)
        print_tables(console, report.console_tables(results))
        console.print(report.CAPTION, highlight=False)
        for remark in report.remarks(results):
            console.print(f"- {remark}", highlight=False)
        if not done:
            console.print("stopped: these are the results so far")
        console.print(f"written to {printable(out)}: {', '.join(files)}")
    if not done:
        raise typer.Exit(STOPPED)


def collected(settings: Settings, console: Console) -> tuple[list[experiment.Row], bool]:
    """Return the rows of the results, and whether these are all: Ctrl-C ends the run with what is there."""
    found: list[experiment.Row] = []
    with steps_bar(console) as progress, saying_when_compiling(console):
        task = progress.add_task(READING, total=None)
        try:
            for row in experiment.rows(
                settings, lambda what, total: progress.update(task, description=what, total=total)
            ):
                found.append(row)
                progress.update(task, description="done", completed=len(found))
        except KeyboardInterrupt:
            return found, False
    return found, True
