"""Write the tables of README and docs from what commands give: `make tables`. Nobody types them.

tables.py                the first run and river's example: they are played, recorded, and shown
tables.py PLACE ...      also what `make worlds`, `make budgets` and `make bench` have written into these folders, and
                         the paper's tables from kddcup.data_10_percent.gz
tables.py --pages        nothing is played: pages are written from what is recorded in research/results
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import hero
import recorded

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COLUMNS = {"previous_label": "previous label", "src_bytes": "src_bytes", "time": "time"}
Record = Mapping[str, Any]

BANDITS = {
    "mabwiser_linucb": "MABWiser, LinUCB",
    "river_linucb": "river, LinUCB",
    "river_ucb": "river, UCB",
    "vw_epsilon": "VW, epsilon-greedy",
    "vw_squarecb": "VW, SquareCB",
}
RIVERS = {"bayes": "naive Bayes", "tree": "Hoeffding tree", "linear": "linear model"}
RECORDING = "val_k4"  # of the four models
EVENTS = {
    "cut": "the most expensive model costs 95% less",
    "loss": "the last model loses 30% of its quality, silently",
    "new": "a model is added",
}
FIRST_BUDGET = 0.00023  # of the README: twice as much as the cheapest model, and less than any other
FIRST_WORLD = ("apart", "letter")
SPEEDS = (  # a row of `make bench`, how it is told, and the ratio in it
    ("durable / pydantic, 1 x 32", "32 clients, one item for each request", r"([\d.]+) x items"),
    ("durable / pydantic, 64 x 8", "8 clients, 64 items for each request", r"([\d.]+) x items"),
    ("learnt / pydantic, 64 x 8, 20 features", "the same with 20 features and learnt arms", r"([\d.]+) x items"),
    (
        "learnt / pydantic, 64 x 8, labelled, 20 features",
        "the same with a true label for each item",
        r"([\d.]+) x items",
    ),
    (
        "sites, labels not shared, batch 1, 64 in flight, log in memory",
        "a site asks a peer over NATS, compared with bare requests of the same size: one item each",
        r": ([\d.]+)$",
    ),
    ("sites, labels not shared, batch 64, 8 in flight, log in memory", "the same with 64 items each", r": ([\d.]+)$"),
    (
        "an endpoint (oip), 5 ms, 64 x 8",
        "a site asks a model behind HTTP, compared with httpx alone",
        r": ([\d.]+) times",
    ),
)


def put(page: Path, command: str, text: str) -> None:
    """Put what a command gives between the markers that name it."""
    start, end = f"<!-- {command} -->\n", "<!-- end -->"
    before, found, rest = page.read_text().partition(start)
    if not found:
        raise SystemExit(f"{page} has no place for a table called {command}")
    page.write_text(f"{before}{start}{text}{end}{rest.partition(end)[2]}")


def pages() -> dict[tuple[Path, str], str]:
    """Return every table that is made of what was recorded, by its page and its place there."""
    benchmarks, clinics_page = DOCS / "benchmarks" / "index.md", DOCS / "research" / "clinics.md"
    clinics, images, worlds, budgets, speed = map(
        recorded.read, ("clinics", "image_segments", "worlds", "budgets", "speed")
    )
    return {
        (ROOT / "README.md", "docs/_tools/tables.py"): first_numbers(clinics, images, worlds, budgets),
        (benchmarks, "three clinics"): measured(clinics) + few_policies(clinics["results"]),
        (benchmarks, "four sites"): measured(worlds) + worlds_table(worlds["results"]),
        (benchmarks, "language models"): measured(budgets) + budgets_table(budgets["results"]),
        (benchmarks, "changes"): changes_table(budgets["results"]),
        (benchmarks, "ImageSegments"): measured(images) + images_table(images["results"]),
        (benchmarks, "speed"): measured(speed) + speed_table(speed["results"]),
        (DOCS / "research" / "lab-notes.md", "budgets"): measured(budgets) + both_budgets_table(budgets["results"]),
        (clinics_page, "policies"): measured(clinics) + policies_table(clinics["results"]),
        (clinics_page, "reasons"): "".join(f"- {reason}\n" for reason in clinics["results"]["reasons"]),
    }


def measured(record: Record) -> str:
    """Return when, where and how something was measured."""
    where = f"{record['cores']} cores and {record['memory_gb']} GB"
    note = f", {record['note']}" if "note" in record else ""
    return f"Measured {record['date']} on {where} with `{record['command']}`{note}.\n\n"


def table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rows = [heading, ["---"] * len(heading), *lines]
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def policies_of(clinics: Record) -> dict[str, Record]:
    return {row["policy"]: row for row in clinics["policies"]}


def first_numbers(clinics: Record, images: Record, worlds: Record, budgets: Record) -> str:
    """Return the table of the README: the best single model, cosend, and the oracle."""
    policies = policies_of(clinics["results"])
    single, ours, best = (
        f"{policies[name]['mean_reward']:.3f}" for name in ("best single model", clinics["results"]["policy"], "oracle")
    )
    alone = dict(images["results"])
    routing = alone.pop("routing")
    (world,) = [row for row in worlds["results"]["rows"] if (row["scenario"], row["world"]) == FIRST_WORLD]
    (budget,) = [
        row
        for row in budgets["results"]["rows"]
        if (row["recording"], row["event"], row["budget"]) == (RECORDING, "", FIRST_BUDGET)
    ]
    lines = [
        (
            "three clinics, where a call costs 5% of a correct answer: reward per patient "
            "([all policies](docs/research/clinics.md))",
            single,
            f"**{ours}**",
            best,
            f"`{clinics['command']}`",
        ),
        (
            "river's ImageSegments, three models that learn online: accuracy ([script](examples/river_pipeline.py))",
            f"{max(alone.values()):.1f}%",
            f"**{routing:.1f}%**",
            "",
            f"`{images['command']}`",
        ),
        (
            "four sites that recognise letters, nothing configured: correct predictions minus the cost of calls",
            f"{world['best_local']:.1f}%",
            f"**{world['net']:.1f}%**",
            "",
            "[`make worlds`](docs/benchmarks/index.md#four-sites-with-nothing-configured)",
        ),
        (
            f"four language models for ${FIRST_BUDGET} a prompt: mean score",
            f"{budget['single']:.3f} (mixture of two: {budget['score'] - budget['beside_mixture']:.3f})",
            f"**{budget['score']:.3f}**",
            f"{budget['oracle']:.3f}",
            "[`make budgets`](docs/benchmarks/index.md#language-models-under-a-budget)",
        ),
    ]
    return table(["", "best single model", "cosend", "oracle (hindsight)", "measured with"], lines)


def few_policies(clinics: Record) -> str:
    """Return what the few policies earn that everybody compares."""
    names = {
        "best local model": "best local model of each clinic (hindsight)",
        "best single model": "best model of any clinic, paid where it is a call (hindsight)",
        "local only": "cosend at clinics without peers",
        "no learnt arms": "cosend without learnt arms",
        clinics["policy"]: "**cosend**",
        "oracle": "oracle of the given models (hindsight)",
    }
    policies = policies_of(clinics)
    lines = [(told, earned(policies[name]), f"{policies[name]['sent']:.0f}%") for name, told in names.items()]
    return table(["", "reward per patient", "sent to peers"], lines)


def earned(policy: Record) -> str:
    return f"{policy['mean_reward']:.3f} ± {policy['reward_interval']:.3f}"


def policies_table(clinics: Record) -> str:
    """Return all policies; those whose interval overlaps that of the best one are tied with it, and in bold."""
    playing = [row for row in clinics["policies"] if not row["hindsight"]]
    best = max(playing, key=lambda row: row["mean_reward"])
    least, lines = best["mean_reward"] - best["reward_interval"], []
    for row in clinics["policies"]:
        name, reward = row["policy"], earned(row)
        if row["hindsight"]:
            name = f"{name} (hindsight)"
        elif row["mean_reward"] + row["reward_interval"] >= least:
            name, reward = f"**{name}**", f"**{reward}**"
        less = f"{row['behind']:.3f} ± {row['behind_interval']:.3f}" if row["policy"] != clinics["policy"] else ""
        lines.append((name, reward, less, f"{row['error']:.1f}%", f"{row['sent']:.0f}%"))
    return table(["policy", "reward per patient", f"less than {clinics['policy']}", "error", "sent to peers"], lines)


def worlds_table(worlds: Record) -> str:
    """Return what site 1 earns in every world, in %, the most in bold."""
    lines = []
    for row in worlds["rows"]:
        bandit, reward = max(row["field"].items(), key=lambda each: each[1])
        values = [row["best_local"], reward, row["grown"], row["stack"], row["net"]]
        shown = [f"**{value:.1f}**" if value == max(values) else f"{value:.1f}" for value in values]
        shown[1] += f" ({BANDITS[bandit]})"
        lines.append((row["scenario"], row["world"], *shown, f"{row['sent']:.0f}%"))
    heading = ("scenario", "stream", "best local model", "best bandit", "grown alone", "stack alone", "cosend", "sent")
    return table(heading, lines)


def budgets_table(budgets: Record) -> str:
    """Return what is earned with four models within every budget, the most except the oracle in bold."""
    lines = []
    for row in budgets["rows"]:
        if (row["recording"], row["event"]) != (RECORDING, "") or row["budget"] is None:
            continue
        known = (row["single"], row["score"] - row["beside_mixture"], row["field"]["score"], row["score"])
        shown = [f"{value:.3f}" for value in known]
        shown = [f"**{value}**" if value == max(shown) else value for value in shown]
        budget, spent = f"{row['budget']:.6f}".rstrip("0"), (row["field"]["spent"], row["spent"])
        lines.append((budget, *shown, f"{row['oracle']:.3f}", *(f"{100 * each:.0f}%" for each in spent)))
    heading = ("USD per prompt", "best single model", "best fixed mixture", "ParetoBandit", "cosend", "oracle")
    return table([*heading, "ParetoBandit spent", "cosend spent"], lines)


def both_budgets_table(budgets: Record) -> str:
    """Return how far cosend keeps to every budget, and its score, with three and with four models."""
    found: dict[str, list[str]] = {}
    for row in budgets["rows"]:
        if row["event"] == "":
            budget = "none" if row["budget"] is None else f"{row['budget']:.6f}".rstrip("0")
            spent = "" if row["budget"] is None else f"{100 * row['spent']:.0f}%"
            found.setdefault(budget, [budget]).extend((spent, f"{row['score']:.4f}", f"{row['beside_mixture']:+.4f}"))
    heading = ("USD per prompt", "three models: spent", "score", "against mixture")
    return table((*heading, "four models: spent", "score", "against mixture"), list(found.values()))


def changes_table(budgets: Record) -> str:
    """Return how cosend compares with the best mixture after something has changed: at worst, and at best."""
    lines = []
    for event, told in EVENTS.items():
        rows = [row for row in budgets["rows"] if row["event"] == event]
        found = [[each["beside_mixture"] for each in some] for some in ([row["field"] for row in rows], rows)]
        lines.append((told, *(f"{min(each):+.3f} to {max(each):+.3f}" for each in found)))
    return table(["in the middle", "ParetoBandit", "cosend"], lines)


def images_table(accuracies: Mapping[str, float]) -> str:
    """Return the accuracy of every model, and of routing."""
    shown = [f"{accuracies[name]:.1f}%" for name in RIVERS]
    return table(["accuracy of", *RIVERS.values(), "cosend"], [("", *shown, f"**{accuracies['routing']:.1f}%**")])


def speed_table(speed: Record) -> str:
    """Return a few rows of `make bench`, as ratios: of several runs, the least and the most."""
    lines, runs = [], 0
    for what, told, ratio in SPEEDS:
        (values,) = [values for name, values in speed["rows"] if name == what]
        found = sorted(float(re.findall(ratio, value)[0]) for value in values)
        lines.append((told, " to ".join(f"{each:.2f}" for each in dict.fromkeys((found[0], found[-1])))))
        runs = len(values)
    return table(["throughput", f"ratio, {runs} runs" if runs > 1 else "ratio"], lines)


def first_reason(printed: str) -> str:
    """Return why a site asks a peer, from what `cosend run --markdown` prints, as a quotation."""
    reasons = re.findall(r"^- (\w+ asks .*)$", printed, flags=re.MULTILINE)
    paying = [reason for reason in reasons if "more than it gains" not in reason]
    return f"> {[*paying, *reasons][0]}\n"


def kdd99_table(results: dict[str, Any]) -> str:
    """Return the errors of CoS at learner 1, parameters C1, with those of the paper in brackets."""
    lines = ["| error in %, parameters C1 | " + " | ".join(COLUMNS.values()) + " |", "|---" * 4 + "|"]
    for scenario in ("S1", "S2"):
        cells = [_beside(results, scenario, context) for context in COLUMNS]
        lines.append(f"| setup {scenario} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _beside(results: dict[str, Any], scenario: str, context: str) -> str:
    wanted = {"scenario": scenario, "context": context, "parameters": "C1"}
    wanted |= {"order": "pseudocode", "training_count": "reported"}
    (row,) = [row for row in results["rows"] if wanted.items() <= row.items()]
    return f"{row['error']:.2f} ({row['paper']['error']:g})"


def run_of(words: Sequence[str]) -> str:
    """Return what a command prints."""
    return subprocess.run([sys.executable, *words], check=True, text=True, stdout=-1, cwd=ROOT).stdout


def clinics_record(run: Callable[[Sequence[str]], str], folder: Path) -> tuple[recorded.Record, str]:
    """Return the record of the first run, and what it prints."""
    printed = run(["-m", "cosend.cli", "run", "--markdown", "--out", str(folder)])
    results = json.loads((folder / "results.json").read_text())
    return recorded.recorded("cosend run", recorded.clinics(results, printed), time.time()), printed


def images_record(printed: str) -> recorded.Record:
    """Return the record of river's example."""
    return recorded.recorded("python examples/river_pipeline.py", recorded.image_segments(printed), time.time())


def play(folder: Path) -> None:
    """Play what takes a minute or two, and record it."""
    record, printed = clinics_record(run_of, folder)
    recorded.write("clinics", record)
    put(DOCS / "guides" / "how-a-site-learns.md", "a reason of cosend run", first_reason(printed))
    recorded.write("image_segments", images_record(run_of([str(ROOT / "examples" / "river_pipeline.py")])))


def main(places: Sequence[str]) -> None:
    """Play, take what has been played elsewhere, and write all pages; KDD Cup 1999 only if its file is named."""
    with tempfile.TemporaryDirectory() as name:
        if list(places) != ["--pages"]:
            play(Path(name))
            found: dict[str, list[recorded.Record]] = {}
            for place in map(Path, places):
                if place.is_dir():
                    kind, record = recorded.of_folder(place)
                    found.setdefault(kind, []).append(record)
                else:
                    run_of(["-m", "research", "paper", "--data", str(place.resolve()), "--out", name])
                    results = json.loads((Path(name) / "results.json").read_text())
                    put(DOCS / "research" / "kdd99.md", "make paper", kdd99_table(results))
            for kind, records in found.items():
                recorded.write(kind, recorded.together(records))
    for (page, place), text in pages().items():
        put(page, place, text)
    (DOCS / "images" / "run-reward.svg").write_text(hero.drawn(recorded.read("clinics")["results"]))


if __name__ == "__main__":
    main(sys.argv[1:])
