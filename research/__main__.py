"""`python -m research`, or `make paper`, `make beyond`, `make regret`, `make worlds` and `make budgets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from cosend.cli.shared import (
    STOPPED,
    check_installed,
    new_console,
    printable,
    say_errors,
    saying_when_compiling,
    steps_bar,
)
from cosend.report.html_report import check_ready, writing
from research import budgets as of_budgets
from research import worlds as of_worlds
from research.beyond import report as beyond_report
from research.beyond import run as beyond_run
from research.beyond.settings import PARTS
from research.beyond.settings import Settings as BeyondSettings
from research.budgets import Settings as BudgetsSettings
from research.output import print_sections
from research.paper import report as paper_report
from research.paper import run as paper_run
from research.paper.settings import WINDOW_ROWS, WINDOW_START
from research.paper.settings import Settings as PaperSettings
from research.regret import report as regret_report
from research.regret import run as regret_run
from research.regret.settings import FEWEST_ITEMS, POLICIES, PROBLEMS
from research.regret.settings import Settings as RegretSettings
from research.worlds import Settings as WorldsSettings

T = TypeVar("T")
Progress = Callable[[str, float, float | None], None]  # what is being done, how much is done, of how much
Find = Callable[[Progress], tuple[Any, bool]]  # to the results, and whether they are all there
Data = Annotated[
    Path | None, typer.Option(help="The KDD Cup 99 file, .gz or plain; without it scikit-learn downloads it.")
]

READING: Final = "reading the data"  # before the first step of an experiment
PROBLEM_NAMES: Final = tuple(problem.name for problem in PROBLEMS)
POLICY_NAMES: Final = tuple(policy.name for policy in POLICIES)
QUICK_BEYOND: Final = BeyondSettings(seeds=1, rows=2_000, parts=("windows",))
QUICK_REGRET: Final = RegretSettings(seeds=2, items=20_000)

app = typer.Typer(
    name="research",
    help="Run the experiments of the paper, and those that go beyond it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


def names_like(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function from the beginning of a name to all names that begin like it, in any case."""
    known = list(names)
    return lambda incomplete: [name for name in known if name.lower().startswith(incomplete.lower())]


def in_their_case(given: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return names as they are written, for names in any case; unknown ones stay as they are, to be refused."""
    written = {name.lower(): name for name in known}
    return tuple(written.get(name.lower(), name) for name in given)


def _seeds(default: int, meaning: str) -> Any:
    return typer.Option(min=1, help=meaning, show_default=str(default))


@app.command("paper")
def paper(
    data: Data = None,
    seeds: Annotated[int | None, _seeds(PaperSettings().seeds, "How many runs each number is averaged over.")] = None,
    out: Annotated[Path, typer.Option(help="Where results.json, tables.md and the plots go.")] = Path("out/paper"),
    start: Annotated[int, typer.Option(help="First row of the window, counted from 0.")] = WINDOW_START,
    rows: Annotated[int, typer.Option(min=10, help="Length of the window.")] = WINDOW_ROWS,
    quick: Annotated[bool, typer.Option("--quick", help="A first answer: 1 seed.")] = False,
) -> None:
    """Reproduce the paper's tables: two setups, two parameters, three contexts, all orders, and the baselines.

    Needs the extras models and reports. Its tables need every row: Ctrl-C ends it, and nothing is written.
    """
    with say_errors():
        check_installed("sklearn", "matplotlib")
        settings = PaperSettings(
            data=data, seeds=seeds or (1 if quick else PaperSettings().seeds), start=start, rows=rows
        )
        _play(out, paper_report, lambda progress: (paper_run.run(settings, progress), True))


@app.command("beyond")
def beyond(
    data: Data = None,
    seeds: Annotated[
        int | None, _seeds(BeyondSettings().seeds, "How many runs a number is averaged over; slow ones have fewer.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results.json, tables.md and the plots go.")] = Path("out/beyond"),
    part: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this part; may be repeated: {', '.join(PARTS)}.", autocompletion=names_like(PARTS)),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Length of every window.", show_default=f"{WINDOW_ROWS:,}")] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help=f"A first answer: {QUICK_BEYOND.parts[0]}, of {QUICK_BEYOND.rows:,} rows, with 1 seed."
        ),
    ] = False,
) -> None:
    """Compare all policies with other libraries: windows, late labels, costs, drift, liars, models that learn.

    Needs the extras models and reports; some parts need field too.
    """

    def find(progress: Progress) -> tuple[Any, bool]:
        found: list[beyond_run.Row] = []
        finished = _collect(beyond_run.rows(settings, lambda what, total: progress(what, len(found), total)), found)
        return beyond_run.results(settings, found), finished

    with say_errors():
        check_installed("sklearn", "matplotlib")
        few = QUICK_BEYOND if quick else BeyondSettings()
        parts = in_their_case(part, PARTS) if part else few.parts
        settings = BeyondSettings(data=data, seeds=seeds or few.seeds, rows=rows or few.rows, parts=parts)
        _play(out, beyond_report, find)


@app.command("regret")
def regret(
    out: Annotated[Path, typer.Option(help="Where results.json, table.md and the plots go.")] = Path("out/regret"),
    seeds: Annotated[int | None, _seeds(RegretSettings().seeds, "How many times each problem is drawn.")] = None,
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
        bool,
        typer.Option("--quick", help=f"A first answer: {QUICK_REGRET.seeds} seeds and {QUICK_REGRET.items:,} items."),
    ] = False,
) -> None:
    """Measure the regret of every policy and compare its growth with the theorems. Needs the extra reports."""

    def find(progress: Progress) -> tuple[Any, bool]:
        total, done = regret_run.decisions_of(settings), list[regret_run.Run]()
        finished = _collect(regret_run.runs(settings, lambda what, made: progress(what, made, total)), done)
        if not done:
            raise KeyboardInterrupt  # stopped before there was anything to show
        return regret_report.results(done), finished

    with say_errors():
        check_installed("matplotlib", "scipy")
        few = QUICK_REGRET if quick else RegretSettings()
        settings = RegretSettings(
            seeds=seeds or few.seeds,
            problems=in_their_case(problem or (), PROBLEM_NAMES),
            policies=in_their_case(policy or (), POLICY_NAMES),
            items=items or few.items,
        )
        _play(out, regret_report, find)


@app.command("worlds")
def worlds(
    data: Annotated[
        Path, typer.Option(help=f"The folder of the streams, with {of_worlds.SCRIPT} or what that makes.")
    ] = of_worlds.STREAMS,
    out: Annotated[Path, typer.Option(help="Where results.json and tables.md go.")] = Path("out/worlds"),
    seeds: Annotated[int | None, _seeds(WorldsSettings().seeds, "How many draws of each world.")] = None,
    world: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only this world; may be repeated: {', '.join(of_worlds.WORLDS)}.",
            autocompletion=names_like(of_worlds.WORLDS),
        ),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help=f"What arrives where; may be repeated: {', '.join(of_worlds.SCENARIOS)}. The first unless given.",
            autocompletion=names_like(of_worlds.SCENARIOS),
        ),
    ] = None,
    late: Annotated[
        list[int] | None, typer.Option(help="Labels are known so many items later; may be repeated: 1, 100 and 1000.")
    ] = None,
    cost: Annotated[
        list[float] | None, typer.Option(help="What a call costs; may be repeated: 0, 0.05 and 0.2.")
    ] = None,
    items: Annotated[int | None, typer.Option(help="At most this many items of every world.")] = None,
    without_learnt: Annotated[bool, typer.Option("--without-learnt", help="Sites learn no models.")] = False,
    field: Annotated[
        bool,
        typer.Option("--field", help="Bandits of other libraries play the items of site 1 too; needs the extra field."),
    ] = False,
    processes: Annotated[int, typer.Option(help="How many runs are played at once.")] = of_worlds.PROCESSES,
) -> None:
    """Play four sites with nothing configured on three public streams that do not come with cosend.

    Site 1 is compared with each of its learnt arms alone, and with its best model.
    """

    def find(progress: Progress) -> tuple[Any, bool]:
        found: list[of_worlds.Row] = []
        finished = _collect(of_worlds.rows(settings, out, progress), found)
        if not found:
            raise KeyboardInterrupt  # stopped before there was anything to show
        return of_worlds.results(settings, found), finished

    with say_errors():
        settings = WorldsSettings(
            data=data,
            worlds=in_their_case(world, of_worlds.WORLDS) if world else of_worlds.WORLDS,
            scenarios=in_their_case(scenario or of_worlds.SCENARIOS[:1], of_worlds.SCENARIOS),
            delays=tuple(late or of_worlds.DELAYS),
            costs=of_worlds.COSTS if cost is None else tuple(cost),
            seeds=seeds or WorldsSettings().seeds,
            items=items,
            learnt=not without_learnt,
            field=field,
            processes=processes,
        )
        _play(out, of_worlds, find)


@app.command("budgets")
def budgets(
    data: Annotated[Path, typer.Option(help="The folder of the recordings, with budgets.json.")] = of_budgets.FOLDER,
    out: Annotated[Path, typer.Option(help="Where results.json and tables.md go.")] = Path("out/budgets"),
    seeds: Annotated[int | None, _seeds(BudgetsSettings().orders, "In how many orders prompts come.")] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(help="Only what happens in the middle; may be repeated: cut, loss, new, or '' for nothing."),
    ] = None,
    items: Annotated[int | None, typer.Option(min=2, help="At most this many prompts.")] = None,
    field: Annotated[bool, typer.Option("--field", help="Also the router of ParetoBandit.")] = False,
) -> None:
    """Route prompts to language models within a budget, beside the best mixture of two models known in hindsight.

    The recordings do not come with cosend.
    """

    def find(progress: Progress) -> tuple[Any, bool]:
        found: list[of_budgets.Row] = []
        finished = _collect(of_budgets.rows(settings, data, progress), found)
        if not found:
            raise KeyboardInterrupt  # stopped before there was anything to show
        return of_budgets.results(settings, found), finished

    with say_errors():
        events = of_budgets.EVENTS if event is None else tuple(event)
        orders = seeds or BudgetsSettings().orders
        settings = BudgetsSettings(orders=orders, events=events, prompts=items, field=field)
        _play(out, of_budgets, find)


def _play(out: Path, report: Any, find: Find) -> None:
    """Run an experiment, write its results, print them, and say where the files are."""
    console = new_console()
    check_ready(out, report.FILES, "--out")
    with _progress(console) as progress:
        results, finished = find(progress)
    with writing(out, "--out"):
        files = report.write(results, out)
    print_sections(console, report.console_sections(results), report.remarks(results))
    if not finished:
        console.print("stopped: these are the results so far")
    console.print(f"written to {printable(out)}: {', '.join(files)}")
    if not finished:
        raise typer.Exit(STOPPED)


@contextmanager
def _progress(console: Console) -> Any:
    """Show a progress bar, and say when something is being compiled."""
    with steps_bar(console) as bar, saying_when_compiling(console):
        task = bar.add_task(READING, total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
        bar.update(task, description="done")


def _collect(results: Iterable[T], found: list[T]) -> bool:
    """Add results to a list as they come; False if Ctrl-C ended that: what came before it stays in the list."""
    try:
        found.extend(results)
    except KeyboardInterrupt:
        return False
    return True


if __name__ == "__main__":
    app()
