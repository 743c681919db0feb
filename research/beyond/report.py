"""Tables, remarks and files of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from cosend.text import short_number
from research.beyond import default, plots
from research.beyond.liar import ABSENT, LIES
from research.beyond.run import Row
from research.beyond.settings import BACK_WITHIN, CONTEXTS, EVERY_FEATURE, MAIN, RUNNING_ITEMS, STILL
from research.output import Section, TableText, as_markdown
from research.output import write as write_all

Results = dict[str, Any]

FILES: Final = ("results.json", "tables.md")  # and plots
COSTS: Final = "costs"
# Parts with a row per policy and a column per context.
ERROR_TABLES: Final = ("windows", "delays", "late", "no-context", COSTS, "unseen")
SHORT: Final = {"previous_label": "label", "src_bytes": "bytes", "together": "all 3"}
ALWAYS_WRONG: Final = [lies.name for lies in LIES if lies.wrong_from == 0.0]
CAPTION: Final = (
    "Error: % of the items of learner 1, mean over the seeds. Regret: reward (right minus paid) that learner 1 lost in "
    "total against the best function of every cell of all three contexts together, twelve slices each, known "
    "in advance; what uses no function, as persistence, can be below 0. Decisions/s: all decisions of the run divided "
    "by its time, on one core, after a warm-up; four learners decide for ours, one for all others."
)


def write(results: Results, folder: Path) -> list[str]:
    """Write results.json, tables.md and the plots for which there is something; returns the names of the files."""
    tables = [table for table in (_windows(results), everything(results), *_special(results)) if table[2]]
    text = as_markdown("Beyond the paper", CAPTION, [(table, ()) for table in tables], remarks(results))
    drawn = {f"{name}.png": lambda found, plot=plot: plot(found["rows"]) for name, plot in plots.PLOTS.items()}
    return write_all(folder, results, {"tables.md": text}, drawn)


def console_sections(results: Results) -> list[Section]:
    """Return the tables that fit into 80 columns: errors by context, the least regret and speed of every policy."""
    found = [row for row in results["rows"] if row["part"] in ERROR_TABLES]
    sections = dict.fromkeys((row["part"], row["setting"], row["scenario"]) for row in found)
    tables = [_errors(found, *section) for section in sections]
    first, *others = [table for table in (_windows(results), *tables, *_special(results)) if table[2]]
    return [(first, [CAPTION]), *((table, ()) for table in others)]


def everything(results: Results) -> TableText:
    """Return the one table with error, regret and decisions per second of every row."""
    heading = ["part", "setting", "setup", "context", "policy", "seeds", "error", "regret", "decisions/s"]
    rows = [
        [
            *(row[key] for key in ("part", "setting", "scenario")),
            row["context"] or "",
            row["policy"],
            str(row["seeds"]),
            f"{row['error']:.3f}",
            _optional(row["regret"], "{:.1f}"),
            _speed(row["decisions_per_second"]),
        ]
        for row in results["rows"]
    ]
    return "Error, regret and decisions per second", heading, rows


def _windows(results: Results) -> TableText:
    rows = [
        [each["name"], f"{each['start']:,}", f"{each['attacks']:.1f}", f"{each['switches']:.3f}"]
        for each in results["windows"]
    ]
    return (
        f"Windows of {results['settings']['rows']:,} rows",
        ["window", "first row", "attacks %", "label switches %"],
        rows,
    )


def _errors(found: list[Row], part: str, setting: str, scenario: str) -> TableText:
    own = [row for row in found if (row["part"], row["setting"], row["scenario"]) == (part, setting, scenario)]
    contexts = [
        context for context in (*CONTEXTS, EVERY_FEATURE, None) if any(row["context"] == context for row in own)
    ]
    heading = ["policy", *(SHORT.get(context, context) if context else "none" for context in contexts)]
    lines = []
    for policy in dict.fromkeys(row["policy"] for row in own):
        rows = {row["context"]: row for row in own if row["policy"] == policy}
        cells = [_error(rows[context], part) if context in rows else "" for context in contexts]
        regret = min(row["regret"] for row in rows.values())
        speeds = [row["decisions_per_second"] for row in rows.values()]
        lines.append([policy, *cells, f"{regret:.0f}", _speed(None if None in speeds else min(speeds))])
    what = "error + paid" if part == COSTS else "error"
    title = f"{part}: {setting}, {scenario}: {what} in % by context, least regret, decisions per second"
    return title, [*heading, "regret", "per s"], lines


def _error(row: Row, part: str) -> str:
    """Return the error in %, with what was paid in % of the items where calls cost something."""
    return f"{row['error']:.2f}" + (f" + {row['paid']:.2f}" if part == COSTS else "")


def _special(results: Results) -> Iterator[TableText]:
    yield _drift(results["rows"])
    yield _liar(results["rows"])
    yield _learning(results["rows"])
    yield default.table(results["rows"])


def _drift(rows: list[Row]) -> TableText:
    """Return error with and without the change, and the items until the error is back."""
    found = {(row["setting"], row["policy"], row["context"]): row for row in rows if row["part"] == "drift"}
    lines = []
    for (setting, policy, context), row in found.items():
        same = found.get((STILL, policy, context))
        if setting == STILL or same is None:
            continue
        never = f" ({row['never_back']} of {row['seeds']} never)" if row["never_back"] else ""
        errors = [f"{same['error']:.2f}", f"{row['error']:.2f}"]
        lines.append([policy, SHORT.get(context, context) or "", *errors, f"{row['recovery']:,.0f}{never}"])
    title = (
        f"drift: error in % without and with a change in the middle, and after how many items a run of {RUNNING_ITEMS} "
        f"begins whose error is at most {BACK_WITHIN:g} point above that of the second quarter"
    )
    return title, ["policy", "context", "no change", "change", "items until back"], lines


def _liar(rows: list[Row]) -> TableText:
    """Return what every kind of lie cost, beside what the arm was owed."""
    absent = {row["policy"]: row["wrong"] for row in rows if (row["part"], row["setting"]) == ("liar", ABSENT)}
    lines = []
    for row in rows:
        if row["part"] == "liar":
            more = f"{row['wrong'] - absent[row['policy']]:+.1f}" if row["policy"] in absent else ""
            lines.append(
                [
                    row["policy"],
                    row["setting"],
                    f"{row['error']:.2f}",
                    more,
                    f"{row['calls']:.1f}",
                    _optional(row["owed"], "{:.1f}"),
                ]
            )
    heading = ["policy", "learner 2 is", "error", "wrong more", "calls", "owed"]
    return "liar: wrong labels more than without learner 2, calls of it, and what a useless arm is owed", heading, lines


def _learning(rows: list[Row]) -> TableText:
    lines = [
        [
            row["setting"],
            row["policy"],
            row["context"] or "",
            f"{row['error']:.2f}",
            _speed(row["decisions_per_second"]),
        ]
        for row in rows
        if row["part"] == "learning"
    ]
    return (
        "learning: classifiers of river that learn online, error in %",
        ["peers get", "policy", "context", "error", "per s"],
        lines,
    )


def remarks(results: Results) -> list[str]:
    """Return what the numbers say about us and the field, and how far they can be trusted."""
    notes: list[Callable[[list[Row]], Iterator[str]]] = [
        _on_field,
        _on_liar,
        default.remarks,
        _on_seeds,
    ]
    return [remark for note in notes for remark in note(results["rows"])]


def _on_field(rows: list[Row]) -> Iterator[str]:
    main = [row for row in rows if (row["part"], row["setting"]) == ("windows", MAIN.name)]
    for ours in main:
        if ours["policy"] != "CellKLUCB":
            continue
        others = [
            row
            for row in main
            if row["kind"] == "field"
            and row["scenario"] == ours["scenario"]
            and row["context"] in (None, ours["context"])
        ]
        if others:
            best = min(others, key=lambda row: float(row["error"]))
            yield (
                f"Main window, {ours['scenario']}, {ours['context']}: CellKLUCB errs in {ours['error']:.3f} %, the "
                f"best of the field there, {best['policy']}, in {best['error']:.3f} %."
            )


def _on_liar(rows: list[Row]) -> Iterator[str]:
    """Say of every lie about all items what it cost, and whether that was more than the arm was owed."""
    for row in rows:
        if row["part"] == "liar" and row["setting"] in ALWAYS_WRONG and row["owed"] is not None:
            more = "more" if row["calls"] > row["owed"] else "not more"
            yield (
                f"Liar, {row['policy']}, {row['setting']}: called {row['calls']:.1f} times, which is {more} than the "
                f"{row['owed']:.1f} that an arm that is never right is owed; each call costs at most one wrong label."
            )


def _on_seeds(rows: list[Row]) -> Iterator[str]:
    counts = sorted({row["seeds"] for row in rows})
    if len(counts) > 1:
        yield (
            f"Seeds: rows are means over {', '.join(map(str, counts))} seeds, as the table says; what takes long has "
            "fewer, and differences to it are less certain."
        )


def _optional(value: float | None, pattern: str) -> str:
    return "" if value is None else pattern.format(value)


def _speed(value: float | None) -> str:
    return "" if value is None else short_number(value)
