"""`cosend regret`: measured regret beside the theorems, on problems whose accuracies are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from cosend.cli.completion import in_their_case, names_like
from cosend.cli.errors import STOPPED, say_errors
from cosend.cli.extras import PLOTS, check_installed
from cosend.cli.show import new_console, printable, saying_when_compiling
from cosend.experiments.regret import report
from cosend.experiments.regret.run import Run, decisions_of, runs
from cosend.experiments.regret.settings import FEWEST_ITEMS, POLICIES, PROBLEMS, Settings
from cosend.reports.folder import check_ready, writing

PROBLEM_NAMES = tuple(problem.name for problem in PROBLEMS)
WORDS = ("problem", "policy", "verdict", "where", "zooming", "against", "claim")  # the rest are numbers
POLICY_NAMES = tuple(policy.name for policy in POLICIES)
QUICK = Settings(seeds=2, items=20_000)


def regret(
    out: Annotated[Path, typer.Option(help="Where results.json, table.md and the plots go.")] = Path("out/regret"),
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many times each problem is drawn.", show_default=str(Settings().seeds)),
    ] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only this problem; may be repeated. {', '.join(PROBLEM_NAMES)}.",
            autocompletion=names_like(PROBLEM_NAMES),
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only this policy; may be repeated. {', '.join(POLICY_NAMES)}.",
            autocompletion=names_like(POLICY_NAMES),
        ),
    ] = None,
    items: Annotated[int | None, typer.Option(min=FEWEST_ITEMS, help="At most this many items per site.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"A first answer: {QUICK.seeds} seeds and {QUICK.items:,} items.")
    ] = False,
) -> None:
    """Measure the regret of every policy and compare its growth with the theorems. Needs the extra reports."""
    console = new_console()
    with say_errors():
        check_installed(*PLOTS)
        few = QUICK if quick else Settings()
        settings = Settings(
            seeds=seeds or few.seeds,
            problems=in_their_case(problem or (), PROBLEM_NAMES),
            policies=in_their_case(policy or (), POLICY_NAMES),
            items=items or few.items,
        )
        check_ready(out, ("results.json", "table.md", "regret.png", "parts.png"), "--out")
        done, finished = measure(settings, console)
        if not done:
            raise KeyboardInterrupt  # stopped before there was anything to show
        found = report.results(done)
        with writing(out, "--out"):
            report.write(found, out)
    show(found, console)
    if not finished:
        console.print("stopped: these are the results so far")
    console.print(f"written to {printable(out)}: results.json, table.md, regret.png and parts.png")
    if not finished:
        raise typer.Exit(STOPPED)


def measure(settings: Settings, console: Console) -> tuple[list[Run], bool]:
    """Run everything under a progress bar; on Ctrl-C, return the runs that were done by then, and False."""
    bars = (TextColumn("{task.description:>22}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    done: list[Run] = []
    with Progress(*bars, console=console) as progress, saying_when_compiling(console):
        task = progress.add_task("drawing a problem", total=decisions_of(settings))

        def watch(what: str, decisions: int) -> None:
            progress.update(task, description=what, completed=decisions)

        try:
            done.extend(runs(settings, watch))  # one by one: what came before Ctrl-C stays in the list
        except KeyboardInterrupt:
            return done, False
        progress.update(task, description="done")
    return done, True


def show(found: dict[str, object], console: Console) -> None:
    """Print the tables, below each what its columns mean, and last, where it is seen, what all of it comes to."""
    for (title, heading, lines), remarks in report.sections(found):
        show_table(title, heading, lines, console)
        for remark in remarks:
            console.print(f"- {remark}", highlight=False)
    if report.in_short(found):
        console.print(f"\n{report.in_short(found)}", highlight=False)


def show_table(title: str, heading: Sequence[str], lines: Sequence[Sequence[str]], console: Console) -> None:
    """Print one table."""
    table = Table(title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False)  # nothing else fits into 80 columns
    for name in heading:
        words = name in WORDS
        table.add_column(name, justify="left" if words else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    console.print(table)
