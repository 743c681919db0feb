"""Write the tables of README and docs that commands give: `make tables`. Nobody types them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COLUMNS = {"previous_label": "previous label", "src_bytes": "src_bytes", "time": "time"}


def put(page: Path, command: str, text: str) -> None:
    """Put what a command gives between the markers that name it."""
    start, end = f"<!-- {command} -->\n", "<!-- end -->"
    before, _, rest = page.read_text().partition(start)
    page.write_text(f"{before}{start}{text}{end}{rest.partition(end)[2]}")


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
        put(ROOT / "README.md", "cosend run --markdown", subprocess.run(run, check=True, text=True, stdout=-1).stdout)
        shutil.copy(Path(folder) / "plots" / "reward.svg", ROOT / "docs" / "images" / "run-reward.svg")
        for data in sys.argv[1:]:
            subprocess.run(
                [sys.executable, "-m", "research", "paper", "--data", data, "--out", folder], check=True, cwd=ROOT
            )
            results = json.loads((Path(folder) / "results.json").read_text())
            put(ROOT / "docs" / "kdd99.md", "make paper", kdd99_table(results))


if __name__ == "__main__":
    main()
