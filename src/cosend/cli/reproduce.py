"""`cosend reproduce`: experiments that give the tables of the paper, and more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosend.cli import beyond as beyond_command
from cosend.cli.errors import say_errors
from cosend.cli.extras import check_installed
from cosend.cli.help import Command, Group
from cosend.cli.show import READING, new_console, print_tables, printable, saying_when_compiling, steps_bar
from cosend.experiments.kdd99 import report as kdd99_report
from cosend.experiments.kdd99 import run as kdd99_run
from cosend.experiments.kdd99.settings import WINDOW_ROWS, WINDOW_START, Settings
from cosend.reports.folder import check_ready, writing

FILES = ("results.json", "tables.md", "errors_over_time.png", "phase_shares.png", "error_per_baseline.png")
app = typer.Typer(
    help="Run the experiments again and put our numbers beside those of the paper.", no_args_is_help=True, cls=Group
)


@app.callback()
def reproduce() -> None:
    """Run the experiments again and put our numbers beside those of the paper."""


@app.command("kdd99", cls=Command)
def kdd99(
    data: Annotated[
        Path | None, typer.Option(help="The KDD Cup 99 file, .gz or plain; without it scikit-learn downloads it.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many runs each number is averaged over.", show_default=str(Settings().seeds)),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results.json, tables.md and the plots go.")] = Path("out/kdd99"),
    start: Annotated[int, typer.Option(help="First row of the window, counted from 0.")] = WINDOW_START,
    rows: Annotated[int, typer.Option(min=10, help="Length of the window.")] = WINDOW_ROWS,
    quick: Annotated[bool, typer.Option("--quick", help="A first answer: 1 seed.")] = False,
) -> None:
    """Reproduce the paper's tables: two setups, two parameters, three contexts, all orders, and the baselines.

    Needs the extras models and reports. Its tables need every row: Ctrl-C ends it, and nothing is written.
    """
    console = new_console()
    with say_errors():
        check_installed("sklearn", "matplotlib")
        settings = Settings(data=data, seeds=seeds or (1 if quick else Settings().seeds), start=start, rows=rows)
        check_ready(out, FILES, "--out")
        with steps_bar(console) as progress, saying_when_compiling(console):
            task = progress.add_task(READING, total=None)
            results, curves = kdd99_run.run(
                settings, lambda what, done, total: progress.update(task, description=what, completed=done, total=total)
            )
            progress.update(task, description="done", completed=1, total=1)
        with writing(out, "--out"):
            kdd99_report.write(results, curves, out)
    print_tables(console, kdd99_report.console_tables(results))
    for remark in kdd99_report.remarks(results):
        console.print(f"- {remark}", highlight=False)
    console.print(f"written to {printable(out)}: results.json, tables.md and three plots")


app.command("beyond", cls=Command)(beyond_command.beyond)
