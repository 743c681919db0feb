"""What was measured for README and docs, in research/results: small files with date, machine and command.

A file may have a note, written by hand, about how the measurement was made.

Experiments write a results.json that is large, or takes hours to make. What pages show of it is kept here, so that a
page can be checked against it, and anybody can see when and where it was measured.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "research" / "results"
# The names of the glossary for baselines that an older run calls otherwise.
NAMES = {
    "never send": "local only",
    "nothing learnt": "no learnt arms",
    "best local": "best local model",
    "best fixed": "best single model",
    "oracle per cell": "oracle",
}
DRAWN = ("best local model", "oracle")  # beside the policy of the run
GIGABYTE = 1e9
BENCH = "make bench"

Results = Mapping[str, Any]
Record = dict[str, Any]


def read(name: str) -> Record:
    """Return what was recorded under a name."""
    found: Record = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def write(name: str, record: Record) -> None:
    """Record something."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def recorded(command: str, results: Any, measured: float) -> Record:
    """Return a record of results that a command gave on this machine at a time, in seconds since 1970."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE
    return {
        "command": command,
        "date": datetime.fromtimestamp(measured, UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory),
        "results": results,
    }


def of_folder(folder: Path) -> tuple[str, Record]:
    """Return the name and the record of what `make worlds`, `make budgets` or `make bench` has written."""
    path = folder / "results.json"
    results = json.loads(path.read_text())
    first = results["rows"][0]
    for key, (name, condensed, command) in KINDS.items():
        if key in first:
            return name, recorded(command(results), condensed(results), path.stat().st_mtime)
    raise SystemExit(f"{path} is of no experiment whose table stands in the docs")


def clinics(results: Results, printed: str) -> Record:
    """Return what is shown of the first run: every policy, three curves, and why sites ask each other.

    printed  by `cosend run --markdown`
    """
    keys = ("mean_reward", "reward_interval", "behind", "behind_interval")
    policies = [
        {
            "policy": NAMES.get(row["policy"], row["policy"]),
            **{key: round(row[key], 6) for key in keys},
            **{key: round(row[key], 4) for key in ("error", "sent")},
            "hindsight": row["hindsight"],
        }
        for row in results["overall"]
    ]
    policies.sort(key=lambda row: (row["hindsight"], -row["mean_reward"]))
    curves = {NAMES.get(name, name): curve for name, curve in results["curves"].items()}
    parts = {NAMES.get(name, name): part for name, part in results["change"]["reward"].items()}
    drawn = (results["policy"], *DRAWN)
    return {
        "policy": results["policy"],
        "policies": policies,
        "items": curves[results["policy"]]["item"],
        "rewards": {name: [round(each, 4) for each in curves[name]["reward"]] for name in drawn},
        "change": results["change"]["item"],
        "part": results["change"]["part"],
        "around": {name: [round(each, 3) for each in parts[name]] for name in drawn},
        "reasons": re.findall(r"^- (\w+ (?:asks|keeps) .*)$", printed, flags=re.MULTILINE),
    }


def image_segments(printed: str) -> dict[str, float]:
    """Return the accuracy of every model and of routing, from what examples/river_pipeline.py prints."""
    return {name: float(share) for name, share in re.findall(r"(\w+): Accuracy: ([\d.]+)%", printed)}


def worlds(results: Results) -> Record:
    """Return the means over the draws, for every scenario and world."""
    places: dict[tuple[Any, ...], list[Any]] = {}
    for row in results["rows"]:
        places.setdefault((row["scenario"], row["world"], row["delay"], row["cost"]), []).append(row)
    shown = ("best_local", "grown", "stack", "net", "sent")
    return {
        "items": results["settings"]["items"],
        "rows": [
            {
                **dict(zip(("scenario", "world", "delay", "cost"), place, strict=True)),
                **{key: _mean([row[key] for row in own]) for key in shown},
                "field": {key: _mean([row["field"][key] for row in own]) for key in own[0]["field"]},
                "seeds": len(own),
            }
            for place, own in places.items()
        ],
    }


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


def _worlds_command(results: Results) -> str:
    rows, most = results["rows"], results["settings"]["items"]
    words = [f"--late {delay}" for delay in dict.fromkeys(row["delay"] for row in rows)]
    words += [f"--cost {cost:g}" for cost in dict.fromkeys(row["cost"] for row in rows)]
    words += [f"--scenario {scenario}" for scenario in dict.fromkeys(row["scenario"] for row in rows)]
    words += [f"--items {most}"] if most else []
    return f'make worlds DATA=streams OPTIONS="--field {" ".join(words)}"'


def budgets(results: Results) -> Record:
    """Return every row, of a run with `--field`."""
    named = ("recording", "event", "budget")
    return {
        "orders": results["orders"],
        "rows": [{key: row[key] for key in named} | _rounded(row, named) for row in results["rows"]],
    }


def _rounded(row: Results, named: Sequence[str] = ()) -> Results:
    """Return the numbers of a row of budgets, those of ParetoBandit among them."""
    return {
        key: _rounded(value) if isinstance(value, dict) else round(value, 6)
        for key, value in row.items()
        if key not in named
    }


def speed(results: Results) -> Record:
    """Return what was measured in every row; goals are for those who change it."""
    return {"rows": [[row["what"], [row["measured"]]] for row in results["rows"]]}


def together(records: Sequence[Record]) -> Record:
    """Return one record of several runs of `make bench`; of any other experiment, the last one."""
    last = records[-1]
    if last["command"] != BENCH:
        return last
    runs = [record["results"]["rows"] for record in records]
    rows = [[row[0][0], [each[1][0] for each in row]] for row in zip(*runs, strict=True)]
    return {**last, "results": {"rows": rows}}


KINDS = {  # by a key that only their rows have
    "world": ("worlds", worlds, _worlds_command),
    "recording": ("budgets", budgets, lambda _: "make budgets DATA=recordings OPTIONS=--field"),
    "what": ("speed", speed, lambda _: BENCH),
}
