"""`cosend run`: a network of sites over a recorded stream."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cosend.cli.completion import scenarios_like
from cosend.cli.errors import STOPPED, extra, say_errors
from cosend.cli.playing import Live, play_all
from cosend.cli.show import how_it_was_made, new_console, printable
from cosend.config.parts import LARGEST_SEED, MOST_ROWS
from cosend.config.recorded import with_stream
from cosend.config.scenario import BUILT_IN, Scenario, built_in, is_built_in, load
from cosend.errors import SettingError
from cosend.reports.folder import check_ready
from cosend.reports.page import FILES, write_report
from cosend.reports.verdict import (
    KNOWS,
    Row,
    is_best,
    knowing,
    markdown,
    more,
    playing,
    reward_text,
    sends,
    setting,
    verdict,
)

SEEDS = 5  # of a built-in scenario: enough for an interval
MOST_SEEDS = 1_000

StreamFile = Annotated[
    Path | None,
    typer.Option(
        "--stream", help="A recorded stream: CSV, JSON lines or Parquet; used in place of that of the scenario."
    ),
]
LabelColumn = Annotated[str | None, typer.Option("--label", help="The column of the stream with the true labels.")]
SiteColumn = Annotated[
    str | None, typer.Option("--site-column", help="The column of the stream that says at which site a row arrives.")
]


def run(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help=f"A network file, or a built-in scenario: {', '.join(BUILT_IN)}.", autocompletion=scenarios_like
        ),
    ] = None,
    stream: StreamFile = None,
    label: LabelColumn = None,
    site_column: SiteColumn = None,
    out: Annotated[Path, typer.Option(help="Where report.html, results.json and the figures go.")] = Path("out/run"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print verdict and table as Markdown and nothing else.")
    ] = False,
    items: Annotated[
        int | None, typer.Option(min=1, max=MOST_ROWS, help="The number of items, if not that of the file.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="The seed, if not that of the file.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_SEEDS,
            help=f"How many seeds to play, for means and intervals. {SEEDS} for a built-in scenario unless --seed is "
            "given, else 1.",
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Play the sites as separate processes that ask each other over NATS.")
    ] = False,
    show_list: Annotated[bool, typer.Option("--list", help="Show the built-in scenarios and do nothing else.")] = False,
) -> None:
    """Play a network of sites over a recorded stream, with the baselines beside it, and write a report."""
    console = new_console(stderr=as_json or as_markdown)
    if show_list:
        for name, known in built_in().items():
            typer.echo(f"cosend run {name:9} {known.title}")
        return
    with say_errors():
        chosen, folder = load(scenario)
        chosen = changed(with_stream(chosen, stream, label, site_column), items, seed)
        check_ready(out, FILES, "--out")
        progress = new_console(stderr=True)
        several = SEEDS if seed is None and stream is None and is_built_in(scenario) and not live else 1
        elsewhere = live_sites(scenario, progress, seed or seeds) if live else None
        result = play_all(with_seeds(chosen, several if seeds is None else seeds), folder, progress, elsewhere)
        result["made"] = how_it_was_made()
        page = written(result, out)
        if as_json:
            typer.echo(json.dumps(result))
        elif as_markdown:
            typer.echo(markdown(result))
        else:
            show(result, console)
        for note in result["notes"]:
            console.print(note)
        console.print(f"report: {printable(page)}")
    if "stopped" in result:
        console.print(result["stopped"])
        raise typer.Exit(STOPPED)


def written(result: dict[str, Any], out: Path) -> Path:
    """Write the report, and on Ctrl-C once more: what was played is not lost because a figure was being drawn."""
    try:
        return write_report(result, out)
    except KeyboardInterrupt:
        result.setdefault("stopped", "Stopped when all was played: nothing is missing.")
        return write_report(result, out)


def live_sites(file: Path | None, console: Console, seed: int | None) -> Live:
    """Return what runs the sites of a file as processes, for as long as a block takes."""
    if file is None:
        raise SettingError("--live", None, f"given with a network file, or one of {', '.join(BUILT_IN)}")
    if seed is not None:
        raise SettingError("--seed", seed, "that of the file with --live: its sites read it there")
    with extra("service"):
        from cosend.local.live import served

    return partial(served, file, console)


def changed(scenario: Scenario, items: int | None, seed: int | None) -> Scenario:
    """Return the scenario with another number of items or another seed."""
    if items is not None and scenario.stream is not None:
        scenario = scenario.model_copy(update={"stream": scenario.stream.model_copy(update={"items": items})})
    return scenario if seed is None else scenario.model_copy(update={"seed": seed})


def with_seeds(scenario: Scenario, seeds: int) -> list[Scenario]:
    """Return the scenario with its seed, the next one, and so on."""
    first = min(scenario.seed, LARGEST_SEED - seeds + 1)
    return [scenario.model_copy(update={"seed": first + n}) for n in range(seeds)]


def show(result: dict[str, Any], console: Console) -> None:
    """Print the verdict, a row for every policy, and below them the sites."""
    console.print()
    console.print(Text(verdict(result), style="bold"))
    console.print(Text(more(result)))
    console.print(Text(f"{result['title']} \N{MIDDLE DOT} {setting(result)}", style="dim"))
    if result["others_see"]:
        console.print(Text(result["others_see"]))
    console.print(policies_table(result))
    console.print(models_table(result) if len(result["sites"]) == 1 else sites_table(result))


def policies_table(result: dict[str, Any]) -> Table:
    """Return one row for every policy, best reward first, and set apart what knows the future."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    shown.add_column("policy", no_wrap=True)
    sent = sends(result)
    for heading in ("reward per item", "error %", *(["sent %"] if sent else [])):
        shown.add_column(heading, justify="right", no_wrap=True)
    rows = playing(result)
    for n, row in enumerate(rows):
        style = "bold green" if is_best(row, rows) else "bold" if row["policy"] == result["policy"] else ""
        mark = " (best reward)" if is_best(row, rows) else ""
        shown.add_row(*_cells(row, mark, sent), style=style, end_section=n == len(rows) - 1)
    for row in knowing(result):
        shown.add_row(*_cells(row, f" ({KNOWS})", sent), style="dim")
    return shown


def _cells(row: Row, mark: str, sent: bool) -> list[str]:
    cells = [f"{row['policy']}{mark}", reward_text(row), f"{row['error']:.1f}"]
    return [*cells, f"{row['sent']:.0f}"] if sent else cells


def models_table(result: dict[str, Any]) -> Table:
    """Return one row for every model of the only site: how often it was used, and what was paid for that."""
    ((site, rows),) = result["models"].items()
    title = f"what {result['policy']} used at {site}, and the reward of each model alone"
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("model", "items %", "paid", "error %", "alone"):
        shown.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    for row in rows:
        error = "" if row["error"] is None else f"{row['error']:.1f}"
        alone = "" if row["alone"] is None else f"{row['alone']:.3f}"
        shown.add_row(row["model"], f"{row['share']:.1f}", f"{row['cost']:,.2f}", error, alone)
    return shown


def sites_table(result: dict[str, Any]) -> Table:
    """Return one row for every site: the policy of the run beside what the site could do alone."""
    alone = [name for name in ("never send", "best local", "oracle per cell") if _rows_of(result, name)]
    title = f"{result['policy']} at each site, and the reward of others there"
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    sent = sends(result)
    for heading in ("site", "reward", "error %", *(["sent %"] if sent else []), *alone):
        shown.add_column(heading, justify="left" if heading == "site" else "right", no_wrap=True)
    for site, own in _rows_of(result, result["policy"]).items():
        rewards = [_rows_of(result, name).get(site) for name in alone]
        others = ["" if row is None else f"{row['mean_reward']:.3f}" for row in rewards]
        share = [f"{own['sent']:.0f}"] if sent else []
        shown.add_row(site, f"{own['mean_reward']:.3f}", f"{own['error']:.1f}", *share, *others)
    return shown


def _rows_of(result: dict[str, Any], policy: str) -> dict[str, Row]:
    return {row["site"]: row for row in result["rows"] if row["policy"] == policy}
