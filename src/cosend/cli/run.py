"""`cosend run`: a network of sites over recorded or generated data."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosend.cli.shared import (
    STOPPED,
    LabelColumn,
    ScoreColumns,
    SiteColumn,
    StreamFile,
    check_installed,
    how_it_was_made,
    network_files_like,
    new_console,
    printable,
    say_errors,
    saying_when_compiling,
)
from cosend.config import BUILT_IN, LARGEST_SEED, MOST_ROWS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from cosend.config.network_file import NetworkFile
    from cosend.engine.scoring import Range
    from cosend.report.verdict import Row
    from cosend.run.prepare import Prepared

SEEDS = 5  # of a built-in network file: enough for an interval
MOST_SEEDS = 1_000
SO_FAR = "these are the results so far."
SILENCE_S = 5.0  # after which a line shows the progress where no bar is seen


def run(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help=f"A network file, or a built-in one: {', '.join(BUILT_IN)}.",
            autocompletion=network_files_like,
        ),
    ] = None,
    stream: StreamFile = None,
    label: LabelColumn = None,
    score: ScoreColumns = None,
    site_column: SiteColumn = None,
    out: Annotated[Path, typer.Option(help="The folder to write report.html, results.json and the figures to.")] = Path(
        "out/run"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print only the verdict and the table, as Markdown.")
    ] = False,
    items: Annotated[
        int | None, typer.Option(min=1, max=MOST_ROWS, help="The number of items; overrides the file.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=LARGEST_SEED, help="The seed; overrides the file.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_SEEDS,
            help="The number of seeds to simulate, for means and, with generated data, intervals. "
            f"The default is {SEEDS} for a built-in network file without --seed, otherwise 1.",
        ),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the built-in network files and exit.")] = False,
) -> None:
    """Simulate a network of sites on recorded or generated data, compare it with baselines, and write a report."""
    from cosend.config.network_file import built_in, is_built_in, load, with_stream
    from cosend.report.html_report import FILES, check_ready
    from cosend.report.verdict import markdown

    console = new_console(stderr=as_json or as_markdown)
    if show_list:
        for name, known in built_in().items():
            typer.echo(f"cosend run {name:9} {known.title}")
        return
    with say_errors():
        network, folder = load(file)
        network = changed(with_stream(network, stream, label, site_column, score or ()), items, seed)
        check_ready(out, FILES, "--out")
        several = SEEDS if seed is None and stream is None and is_built_in(file) else 1
        networks = with_seeds(network, seeds or several)
        # the models of the built-in files, and the intervals
        check_installed(*["sklearn"] * is_built_in(file), *["scipy"] * (len(networks) > 1))
        result = play_all(networks, folder, new_console(stderr=True))
        result["made"] = how_it_was_made() | files_of(file, stream, network)
        page = write(result, out)
        if as_json:
            typer.echo(json.dumps(result))
        elif as_markdown:
            typer.echo(markdown(result))
        else:
            show(result, console)
        if result["notes"]:
            console.print()
        for note in result["notes"]:
            console.print(f"{note[:1].upper()}{note[1:]}.")
        console.print(f"\nreport: {printable(page)}")
    if "stopped" in result:
        console.print(result["stopped"])
        raise typer.Exit(STOPPED)


def write(result: dict[str, Any], out: Path) -> Path:
    """Write the report; repeat it after a Ctrl-C, so that a figure that was being drawn loses nothing."""
    from cosend.report.html_report import write_report

    try:
        return write_report(result, out)
    except KeyboardInterrupt:
        result.setdefault("stopped", "Stopped after the last item: the results are complete.")
        return write_report(result, out)


def files_of(file: Path | None, stream: Path | None, network: NetworkFile) -> dict[str, str]:
    """Return the names of the files of a run, as its report shows them."""
    from cosend.config.network_file import is_built_in

    name = f"{file or BUILT_IN[0]} (built-in)" if is_built_in(file) else printable(Path(str(file)))
    recorded = stream or getattr(network.stream, "path", None)
    return {"network file": name} | ({"recorded data": printable(Path(recorded))} if recorded else {})


def changed(network: NetworkFile, items: int | None, seed: int | None) -> NetworkFile:
    if items is not None and network.stream is not None:
        network = network.model_copy(update={"stream": network.stream.model_copy(update={"items": items})})
    return network if seed is None else network.model_copy(update={"seed": seed})


def with_seeds(network: NetworkFile, seeds: int) -> list[NetworkFile]:
    first = min(network.seed, LARGEST_SEED - seeds + 1)
    return [network.model_copy(update={"seed": first + n}) for n in range(seeds)]


# Playing several streams under one progress bar, until the end or until Ctrl-C


class Bar:
    """A progress bar over the items of all streams; where no bar is seen, as in a file, a line every few seconds."""

    def __init__(self, progress: Progress, streams: int) -> None:
        self._progress, self._streams = progress, streams
        self._task = progress.add_task("", total=None, words="")
        self._before, self._items, self._start = 0, 0, 0.0
        self.units: Range | None = None  # of scores; None where there are labels
        self._stream, self._what, self._words = "", "", ""
        self._said, self._said_at = ("", ""), time.monotonic()

    def begin(self, number: int, what: str, items: int = 0) -> None:
        """Begin a step of a stream, or, with a number of items, play it."""
        self._stream = f"stream {number + 1} of {self._streams}: " if self._streams > 1 else ""
        self._what = f"{self._stream}{what}"
        self._before, self._items, self._start = number * items, items, time.perf_counter()
        self._progress.update(self._task, description=self._what, total=items * self._streams or None)

    def asking(self, model: str, done: int, rows: int) -> None:
        self._show(f"{model}, {done:,} of {rows:,} rows", 0)

    def comparing(self, policy: str) -> None:
        """Say what is played for comparison, after all items of the stream."""
        compared = f"{self._stream}comparison with"
        if self._what != compared:
            self._end()
            self._what = compared
            self._progress.update(self._task, description=compared)
        self._show(policy, self._items)

    def reached(self, items: int, errors: float) -> None:
        speed = items / max(1e-9, time.perf_counter() - self._start)
        counts = f"{items:,} of {self._items:,} items, " if self._progress.disable else ""
        how_good = f"error rate {100 * errors:.1f}%"
        if self.units is not None:
            from cosend.engine.scoring import as_score

            how_good = f"mean score {as_score(1 - errors, self.units):.3f}"
        self._show(f"{counts}{how_good}, {speed:,.0f} items/s", items)

    def _end(self) -> None:
        if self._progress.disable and self._said != (self._what, self._words):
            self._said = self._what, self._words
            self._progress.console.print(f"{self._what}: {self._words}", soft_wrap=True)

    def _show(self, words: str, items: int) -> None:
        self._words = words
        self._progress.update(self._task, completed=self._before + items, words=words)
        if self._progress.disable and time.monotonic() - self._said_at >= SILENCE_S:
            self._said_at = time.monotonic()
            self._end()


@contextmanager
def progress_bar(console: Console, streams: int) -> Iterator[Bar]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[words]}"))
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    with bar as progress, saying_when_compiling(console):
        yield Bar(progress, streams)


def play_all(networks: Sequence[NetworkFile], folder: Path, console: Console) -> dict[str, Any]:
    """Play every stream and return one result; after Ctrl-C, the result so far, and why it is not complete."""
    from cosend.run.prepare import prepare
    from cosend.run.result import averaged

    done: list[dict[str, Any]] = []
    stopped = ""
    try:
        with progress_bar(console, len(networks)) as bar:
            for number, network in enumerate(networks):
                bar.begin(number, "predictions of all models")
                prepared = prepare(network, folder, bar.asking)
                bar.units = prepared.units
                bar.begin(number, "routing", int((prepared.places >= 0).sum()))
                result, stopped = play_one(prepared, bar, first_of=0 if done else len(networks))
                done.append(result)
                if stopped:
                    break
    except KeyboardInterrupt:
        if not done:
            raise
        stopped = stopped or f"Stopped after {len(done)} of {len(networks)} streams: {SO_FAR}"
    return averaged(done) | ({"stopped": stopped} if stopped else {})


def play_one(prepared: Prepared, bar: Bar, *, first_of: int) -> tuple[dict[str, Any], str]:
    """Play one stream; return its result, and, if Ctrl-C has stopped it, where.

    first_of  of how many streams it is the first: then the part that was reached counts; 0 if it is a later one
    """
    from cosend.run.play import play
    from cosend.run.result import one_stream

    reached = 0

    def watch(slots: int, errors: float) -> None:
        nonlocal reached
        reached = slots
        bar.reached(int((prepared.places[:slots] >= 0).sum()), errors)

    try:
        return one_stream(prepared, play(prepared, watch, comparing=bar.comparing)), ""
    except KeyboardInterrupt:
        if not first_of:
            raise
    part = prepared.first_slots(max(1, reached))  # played again, without other policies if they take long
    result = one_stream(part, play(part, others=not part.one_by_one))
    if first_of > 1 and len(part.arrivals) == len(prepared.arrivals):
        return result, f"Stopped after 1 of {first_of} streams: {SO_FAR}"
    where = f" in the first of {first_of} streams" if first_of > 1 else ""
    return result, f"Stopped after {result['items']:,} of {len(prepared.items):,} items{where}: {SO_FAR}"


# Printed results


def show(result: dict[str, Any], console: Console) -> None:
    """Print the verdict, a row for every policy, and below them the sites."""
    from rich.text import Text

    from cosend.report.verdict import WHEN, more, setting, verdict, what_costs_are, what_rewards_are, why

    console.print()
    console.print(Text(verdict(result), style="bold"))
    console.print(Text(more(result)))
    console.print(Text(f"{result['title']} \N{MIDDLE DOT} {setting(result)}", style="dim"))
    if result["others_see"]:
        console.print(Text(result["others_see"]))
    console.print(policies_table(result))
    console.print(Text(what_rewards_are(result), style="dim"))
    console.print()
    if len(result["sites"]) > 1:
        console.print(sites_table(result))
    else:
        console.print(models_table(result))
        alone = "Alone: the reward per item if the model answered every item."
        console.print(Text(f"Total cost: {what_costs_are(result)}. {alone}", style="dim"))
    reasons = why(result)
    if reasons:
        console.print(Text(WHEN, style="italic"))
        for reason in reasons:
            console.print(Text(f"- {reason}"))


def _new_table(headings: Sequence[str], title: str | None = None) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for n, heading in enumerate(headings):
        table.add_column(heading, justify="right" if n else "left", no_wrap=True)
    return table


def _quality(result: dict[str, Any]) -> str:
    """Return the heading of what says how good answers were."""
    return "mean score" if result["known_by"] == "score" else "error %"


def policies_table(result: dict[str, Any]) -> Table:
    """Return one row for every policy, best reward first, and below them those in hindsight."""
    from cosend.report.verdict import is_best, knowing, mark_of_best, playing, sends

    sent, rows = sends(result), playing(result)
    table = _new_table(["policy", "reward per item", _quality(result), *(["sent %"] if sent else [])])
    for n, row in enumerate(rows):
        is_own, is_first = row["policy"] == result["policy"], is_best(row, rows)
        marks = ", ".join(["this run"] * is_own + [mark_of_best(rows)] * is_first)
        mark = f" ({marks})" if marks else ""
        style = " ".join(["bold"] * is_own + ["green"] * is_first)
        table.add_row(*_cells(row, mark, sent), style=style, end_section=n == len(rows) - 1)
    for row in knowing(result):
        table.add_row(*_cells(row, "", sent), style="dim")
    return table


def _cells(row: Row, mark: str, sent: bool) -> list[str]:
    from cosend.report.verdict import quality, reward_text, shown

    cells = [f"{shown(row)}{mark}", reward_text(row), quality(row)]
    return [*cells, f"{row['sent']:.0f}"] if sent else cells


def models_table(result: dict[str, Any]) -> Table:
    """Return one row for every model of the only site: how often it was used, and what it cost."""
    from cosend.report.verdict import learnt_words, price, price_heading, quality

    ((site, rows),) = result["models"].items()
    title = f"Use of models by {result['policy']} at {site}"
    money = price_heading(result, "total cost")
    table = _new_table(
        ["model", "items %", "total cost", *([money] if money else []), _quality(result), "alone"], title
    )
    is_any_learnt = any(map(learnt_words, rows))
    if is_any_learnt:
        table.add_column("")
    for row in rows:
        error = "" if row["error"] is None and row["score"] is None else quality(row)
        alone = "" if row["alone"] is None else f"{row['alone']:.3f}"
        words = [learnt_words(row)] if is_any_learnt else []
        paid = [f"{row['cost']:,.2f}", *([price(result, row["cost"])] if money else [])]
        table.add_row(row["model"], f"{row['share']:.1f}", *paid, error, alone, *words)
    return table


def sites_table(result: dict[str, Any]) -> Table:
    """Return one row for every site: the policy of the run, and what the site could do alone."""
    from cosend.report.verdict import quality, sends

    alone = [name for name in ("local only", "best single model", "oracle") if _rows_of(result, name)]
    sent = sends(result)
    headings = ["site", "reward", _quality(result), *(["sent %"] if sent else []), *alone]
    table = _new_table(headings, f"{result['policy']} at each site, and the rewards of others there")
    for site, own in _rows_of(result, result["policy"]).items():
        rewards = [_rows_of(result, name).get(site) for name in alone]
        others = ["" if row is None else f"{row['mean_reward']:.3f}" for row in rewards]
        share = [f"{own['sent']:.0f}"] if sent else []
        table.add_row(site, f"{own['mean_reward']:.3f}", quality(own), *share, *others)
    return table


def _rows_of(result: dict[str, Any], policy: str) -> dict[str, Row]:
    return {row["site"]: row for row in result["rows"] if row["policy"] == policy}
