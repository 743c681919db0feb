"""Write the tables of README and docs that commands give: `make tables`. Nobody types them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[2]
COLUMNS = {"previous_label": "previous label", "src_bytes": "src_bytes", "time": "time"}


def put(page: Path, command: str, text: str) -> None:
    """Put what a command gives between the markers that name it."""
    start, end = f"<!-- {command} -->\n", "<!-- end -->"
    before, _, rest = page.read_text().partition(start)
    page.write_text(f"{before}{start}{text}{end}{rest.partition(end)[2]}")


def first_numbers(results: dict[str, Any], accuracies: str) -> str:
    """Return the table of the README: the best single model, cosend, and the oracle.

    results     of `cosend run`
    accuracies  what examples/river_pipeline.py prints
    """
    rewards: dict[str, list[float]] = {}
    for row in results["rows"]:
        rewards.setdefault(row["policy"], []).append(row["mean_reward"])
    single, ours, best = (fmean(rewards[name]) for name in ("best single model", results["policy"], "oracle"))
    alone = {name: float(share) for name, share in re.findall(r"(\w+): Accuracy: ([\d.]+)%", accuracies)}
    routing = alone.pop("routing")
    lines = [
        "| | best single model | cosend | oracle (hindsight) |",
        "|---|---|---|---|",
        "| three clinics, where a call costs 5% of a correct answer: reward per patient "
        f"([all policies](docs/research/clinics.md)) | {single:.3f} | **{ours:.3f}** | {best:.3f} |",
        "| river's ImageSegments, with three models that learn online: accuracy "
        f"([script](examples/river_pipeline.py)) | {max(alone.values()):.1f}% | **{routing:.1f}%** | |",
    ]
    return "\n".join(lines) + "\n"


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


def main() -> None:
    """Run the commands; KDD Cup 1999 only if its file is named."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "cosend.cli"]
        run = [*words, "run", "--markdown", "--out", folder]
        table = subprocess.run(run, check=True, text=True, stdout=-1).stdout
        put(ROOT / "docs" / "research" / "clinics.md", "cosend run --markdown", table)
        put(ROOT / "docs" / "guides" / "how-a-site-learns.md", "a reason of cosend run", first_reason(table))
        results = json.loads((Path(folder) / "results.json").read_text())
        river = [sys.executable, str(ROOT / "examples" / "river_pipeline.py")]
        accuracies = subprocess.run(river, check=True, text=True, stdout=-1).stdout
        put(ROOT / "README.md", "docs/_tools/tables.py", first_numbers(results, accuracies))
        shutil.copy(Path(folder) / "plots" / "reward.svg", ROOT / "docs" / "images" / "run-reward.svg")
        for data in sys.argv[1:]:
            subprocess.run(
                [sys.executable, "-m", "research", "paper", "--data", data, "--out", folder], check=True, cwd=ROOT
            )
            results = json.loads((Path(folder) / "results.json").read_text())
            put(ROOT / "docs" / "research" / "kdd99.md", "make paper", kdd99_table(results))


if __name__ == "__main__":
    main()
