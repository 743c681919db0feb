"""`cosend run`: four sites in one process over a generated stream of network traffic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cosend.core.policy import CoS
from cosend.core.values import Phase
from cosend.simulation.network import Event, Network
from cosend.site.context import Context
from cosend.site.site import Site
from cosend.streams.traffic import traffic

CALL_COST: Final = 0.02
REDRAW: Final = 256  # items between two looks of the progress bar


def attack_if(condition: Callable[[dict[str, Any]], bool]) -> Callable[[dict[str, Any]], str]:
    """Return a classifier that calls an item an attack if a condition holds."""
    return lambda item: "attack" if condition(item) else "normal"


# What each site looks at. None of these sees every kind of attack.
CLASSIFIERS: Final = {
    "gateway": {
        "errors": attack_if(lambda item: item["serror_rate"] > 0.5),
        "volume": attack_if(lambda item: item["count"] > 90),
    },
    "branch": {
        "uploads": attack_if(lambda item: item["src_bytes"] > 20_000),
        "silence": attack_if(lambda item: item["dst_bytes"] == 0),
    },
    "campus": {
        "strangers": attack_if(lambda item: not item["logged_in"]),
        "pings": attack_if(lambda item: item["service"] in ("ecr_i", "eco_i")),
    },
    "cloud": {
        "mixture": attack_if(lambda item: item["same_srv_rate"] < 0.5),
        "calm": attack_if(lambda item: False),
    },
}


@dataclass
class Tally:
    """What is counted for one site."""

    items: int = 0
    errors: int = 0
    sent: int = 0
    cost: float = 0.0
    phases: Counter[Phase] = field(default_factory=Counter)

    def add(self, event: Event, is_peer: bool) -> None:
        """Count one decision."""
        self.items += 1
        self.errors += event.decision.label != event.truth
        self.sent += is_peer
        self.cost += CALL_COST * is_peer
        self.phases[event.decision.phase] += 1


def run(
    items: Annotated[int, typer.Option(min=1, help="How many items arrive at every site.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
) -> None:
    """Run four sites that help each other over generated network traffic and show what they learnt."""
    console = Console()
    network = build_network(items, seed)
    streams = {name: traffic(items, seed=seed * len(network.sites) + n).rows() for n, name in enumerate(network.sites)}
    tallies = {name: Tally() for name in network.sites}
    try:
        with _progress(console) as progress:
            task = progress.add_task("classify or send", total=items * len(streams), error=0.0)
            for n, event in enumerate(network.run(streams), start=1):
                tallies[event.site].add(event, event.decision.arm in network.sites)
                if n % REDRAW == 0 or n == items * len(streams):
                    errors = sum(tally.errors for tally in tallies.values())
                    progress.update(task, completed=n, error=100 * errors / n)
    except KeyboardInterrupt:
        console.print("stopped; these are the results so far")
    console.print(_table(network, tallies))


def build_network(items: int, seed: int) -> Network:
    """Return the four sites of the default run."""
    context = Context("count", scale="log", range=(0, 600))
    policy = CoS(horizon=items, exploration_exponent=0.125)
    sites = [
        Site(name, classifiers=classifiers, context=context, policy=policy, seed=seed)
        for name, classifiers in CLASSIFIERS.items()
    ]
    return Network(sites, call_cost=CALL_COST)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("error {task.fields[error]:.1f} %"),
        TimeRemainingColumn(),
        console=console,
    )


def _table(network: Network, tallies: dict[str, Tally]) -> Table:
    table = Table(title="CoS at four sites, in % of the site's items")
    for heading in ("site", "error", "sent to peers", "train", "explore", "exploit", "cost per item", "favourite arms"):
        table.add_column(heading, justify="left" if heading in ("site", "favourite arms") else "right")
    for name, tally in tallies.items():
        shares = [100 * tally.phases[phase] / max(1, tally.items) for phase in Phase]
        table.add_row(
            name,
            f"{100 * tally.errors / max(1, tally.items):.2f}",
            f"{100 * tally.sent / max(1, tally.items):.1f}",
            *(f"{share:.1f}" for share in shares),
            f"{tally.cost / max(1, tally.items):.4f}",
            ", ".join(_favourites(network.sites[name])),
        )
    return table


def _favourites(site: Site) -> list[str]:
    """Return the arms that are best in some cell, the most frequent first."""
    best: Counter[str] = Counter()
    for cell in site.learner.cells().values():
        arm = max(cell.estimates, key=lambda name: cell.estimates[name].mean_reward)
        best[arm] += cell.labelled.arrivals
    return [arm for arm, _ in best.most_common(3)]
