"""`cosend verify`: whether the event log of a site leads to its state, and would be decided the same again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosend.cli.shared import extra, new_console, say_errors, steps_bar

if TYPE_CHECKING:
    from rich.console import Console

    from cosend.runtime.store_check import Replayed


def verify(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a site that has stopped: what `serve --store` was given.")
    ],
    most: Annotated[int, typer.Option(min=1, help="Show at most this many differences.")] = 10,
) -> None:
    """Check the store of a site: fold its whole event log, compare the states, and decide everything again.

    Nothing in the folder is changed. The exit code is 0 if all is the same, 1 if something differs, and 2 if the folder
    cannot be read.
    """
    console = new_console()
    with say_errors():
        with extra("service"):
            from cosend.runtime.store_check import Replay
            from cosend.store.event_log import LogReader
        with LogReader(folder) as log, steps_bar(new_console(stderr=True)) as progress:
            task = progress.add_task("", total=1)

            def watch(what: str, done: int, total: int) -> None:
                progress.update(task, description=what, completed=done, total=total)

            found = Replay(log, watch).run(most)
    show(console, found)
    raise typer.Exit(0 if found.is_same else 1)


def show(console: Console, found: Replayed) -> None:
    from cosend.runtime.store_check import told
    from cosend.text import counted

    counts = (counted(found.events, "event"), counted(found.items, "item"), counted(found.labels, "label"))
    lines = [f"site {found.site}: {', '.join(counts)}"]
    lines += [f"- {remark}" for remark in found.remarks]
    lines += [f"- {sentence}" for sentence in found.checked]
    lines += [f"- DIFFERENT: {sentence}" for sentence in found.wrong]
    if found.differences:
        lines.append(
            f"- DIFFERENT: today's rules would decide differently, first in these {len(found.differences):,} events:"
        )
        lines += [f"  {told(difference)}" for difference in found.differences]
    else:
        lines.append("- every decision would be the same again")
    folded, decided = (_speed(found, seconds) for seconds in (found.fold_s, found.decide_s))
    lines.append(f"folded in {folded}, decided again in {decided}")
    lines.append("the same" if found.is_same else "different")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _speed(found: Replayed, seconds: float) -> str:
    events, items = (f"{count / max(seconds, 1e-9):,.0f}" for count in (found.replayed, found.items))
    return f"{seconds:.1f} s ({events} events/s, {items} items/s)"
