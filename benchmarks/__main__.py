"""`make bench`: how fast the core decides and how much memory it takes (benchmarks/core.py).

After it the service of a site under load, its start and its soak (benchmarks/service.py), what open pages cost
(benchmarks/dashboard.py), sites that ask each other over NATS (benchmarks/network.py), workers (benchmarks/workers.py),
and models behind endpoints (benchmarks/endpoints.py): twelve minutes or so. The rows are written to
out/bench/results.json too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from benchmarks import core, dashboard, endpoints, network, service, workers
from benchmarks.rows import save, show


def main() -> None:
    """Print the table."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    console = Console()
    shown = [*core.rows(scale), *service.measure(console, service.options(scale).parse_args([]))]
    with console.status("a site with open pages, sites over NATS, and workers"):
        shown += dashboard.rows(dashboard.ROUNDS, dashboard.ROUND_S * scale)
        shown += network.rows(network.ROUNDS, network.ROUND_S * scale)
        shown += workers.rows(workers.ROUNDS, workers.ROUND_S * scale)
        shown += endpoints.rows(endpoints.ROUNDS, endpoints.ROUND_S * scale)
    show(shown, "cosend benchmarks")
    save(shown, Path("out/bench"))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
