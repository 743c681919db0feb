"""`cosend run`: a network of sites over a recorded stream."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from cosend.cli.errors import say_errors
from cosend.cli.show import new_console, printable
from cosend.config.parts import LARGEST_SEED, MOST_ROWS
from cosend.config.recorded import with_stream
from cosend.config.scenario import BUILT_IN, Scenario, built_in, load
from cosend.experiments.scenario import report
from cosend.experiments.scenario import run as player
from cosend.experiments.scenario.world import World, build
from cosend.reports.folder import check_ready
from cosend.reports.page import FILES, write_report

StreamFile = Annotated[
    Path | None,
    typer.Option("--stream", help="A recorded stream: CSV, JSON lines or Parquet; in place of that of FILE."),
]
LabelColumn = Annotated[str | None, typer.Option("--label", help="The column of the stream with the true labels.")]
SiteColumn = Annotated[
    str | None, typer.Option("--site-column", help="The column of the stream that says at which site a row arrives.")
]


def run(
    scenario: Annotated[
        Path | None, typer.Argument(help=f"A network file, or a built-in scenario: {', '.join(BUILT_IN)}.")
    ] = None,
    stream: StreamFile = None,
    label: LabelColumn = None,
    site_column: SiteColumn = None,
    out: Annotated[Path, typer.Option(help="Where report.html, results.json and the plots go.")] = Path("out/run"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
    items: Annotated[
        int | None, typer.Option(min=1, max=MOST_ROWS, help="Another number of items than the file says.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=LARGEST_SEED, help="Another seed than the file says.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Show the built-in scenarios and do nothing else.")] = False,
) -> None:
    """Play a network of sites over a recorded stream, with the baselines beside it, and write a report."""
    console = new_console(stderr=as_json)
    if show_list:
        for name, known in built_in().items():
            typer.echo(f"cosend run {name:9} {known.title}")
        return
    with say_errors():
        chosen, folder = load(scenario)
        chosen = changed(with_stream(chosen, stream, label, site_column), items, seed)
        check_ready(out, FILES, "--out")
        with console.status("reading the stream, loading and training the classifiers"):
            world = build(chosen, folder)
        played, outcome = play(world, console)
        result = report.result(played, outcome)
        if as_json:
            typer.echo(json.dumps(result))
        else:
            console.print(table(result))
        if played is not world:
            console.print("stopped: these are the results so far")
        for note in outcome.notes:
            console.print(note)
        console.print(f"report: {printable(write_report(result, out))}")


def changed(scenario: Scenario, items: int | None, seed: int | None) -> Scenario:
    """Return the scenario with another number of items or another seed."""
    if items is not None and scenario.stream is not None:
        scenario = scenario.model_copy(update={"stream": scenario.stream.model_copy(update={"items": items})})
    return scenario if seed is None else scenario.model_copy(update={"seed": seed})


def play(world: World, console: Console) -> tuple[World, player.Outcome]:
    """Play the scenario under a progress bar; on Ctrl-C, return only that part of the world that was played."""
    start = time.perf_counter()
    columns = ("{task.description}", "error {task.fields[error]:.2f} %", "{task.fields[speed]:,.0f} items/s")
    bars = [TextColumn(columns[0]), BarColumn(), MofNCompleteColumn(), *(TextColumn(text) for text in columns[1:])]
    reached = 0
    with Progress(*bars, console=console) as progress:
        task = progress.add_task("classify or send", total=int((world.places >= 0).sum()), error=0.0, speed=0.0)

        def watch(slots: int, errors: float) -> None:
            nonlocal reached
            reached = slots
            done = int((world.places[:slots] >= 0).sum())
            speed = done / max(1e-9, time.perf_counter() - start)
            progress.update(task, completed=done, error=100 * errors, speed=speed)
            if world.one_by_one and slots == len(world.places):
                progress.update(task, description="now the policies beside it")  # item by item too, without a bar

        try:
            return world, player.run(world, watch)
        except KeyboardInterrupt:
            pass
    part = first_slots(world, max(1, reached))
    return part, player.run(part, others=not part.one_by_one)  # who has stopped it does not want to wait for those


def first_slots(world: World, slots: int) -> World:
    """Return the world as it was after so many slots."""
    return world._replace(arrivals=world.arrivals[:slots], places=world.places[:slots])


def table(result: dict[str, Any]) -> Table:
    """Return one line for every site and policy."""
    shown = Table(
        title=f"{result['title']}: {result['items']:,} items",
        caption="error, sent, train, explore: %. reward: per item. cost, regret against the oracle: totals",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for heading in ("site", "policy", "error", "reward", "sent", "train", "explore", "cost", "regret"):
        shown.add_column(heading, justify="left" if heading in ("site", "policy") else "right", no_wrap=True)
    for n, row in enumerate(by_site(result)):
        phases = ["" if row[name] is None else f"{row[name]:.1f}" for name in ("training", "exploration")]
        shown.add_row(
            row["site"],
            row["policy"],
            f"{row['error']:.2f}",
            f"{row['mean_reward']:.3f}",
            f"{row['sent']:.1f}",
            *phases,
            f"{row['cost']:.0f}",
            "" if row["regret"] is None else f"{row['regret']:.0f}",
            end_section=n % len(result["error_curves"]) == len(result["error_curves"]) - 1,
        )
    return shown


def by_site(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows site by site: the policy of the scenario, then the others, best error first."""
    order = {site: n for n, site in enumerate(result["sites"])}
    return sorted(result["rows"], key=lambda row: (order[row["site"]], row["policy"] != result["policy"], row["error"]))
