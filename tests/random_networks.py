"""Small random networks of real sites, played one by one or in batches: the same seed, the same network and items."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from cosend import CellKLUCB, CoS, MixedViews, Network, Patience, Site, Zooming, ZoomingKLUCB
from cosend.algorithm.policies import Policy
from cosend.axes import Axis, Category, Feature, PreviousLabel, Time
from cosend.engine.needs import Decision

Item = dict[str, Any]
ITEMS = 40  # of a network, more or less
LONG = 25  # every so many networks one has ten times as many
KINDS = ("a", "b", "c")


def some_policy(draw: random.Random) -> Policy:
    """Draw a policy of any kind."""
    share: Any = draw.choice([{}, {"share_labels": "training"}, {"share_labels": "always"}])
    quota: dict[str, Any] = {
        "order": draw.choice(["pseudocode", "random", "train_first"]),
        "training_count": draw.choice(["reported", "own_and_mine"]),
        **share,
    }
    mixed = MixedViews(
        max_cells=draw.choice([None, 30]), share=draw.choice([0.01, 0.1]), adds_up=draw.random() < 0.5, **share
    )
    return draw.choice(
        [
            ZoomingKLUCB(split_after=4),
            ZoomingKLUCB(split_after=2, inherit=draw.choice([0.0, 4.0]), max_cells=6, **share),
            ZoomingKLUCB(lipschitz=1.0, split_after=3),
            Zooming(split_after=3, inherit=draw.choice([0.0, 2.0]), **quota),
            CoS(slices=2, exploration_exponent=0.05, **quota),
            CoS(exploration_exponent=0.05, **quota),
            CellKLUCB(**share),
            CellKLUCB(slices=2, **share),
            mixed,
            mixed,
        ]
    )


def some_axes(draw: random.Random) -> list[Axis]:
    """Draw one to three axes: scaled, ranked, by category, by the newest label or by time."""
    axes: list[Axis] = [
        Feature("x", range=(0, 1)),
        Feature("y", window=8),
        Category("kind"),
        PreviousLabel(0, 1),
        Time(50),
    ]
    return draw.sample(axes, draw.randint(1, 3))


def some_patience(draw: random.Random) -> Patience:
    """Draw how long a site waits; half of them wait for ever."""
    overdue: Any = draw.choice(["drop", 0.5])
    return draw.choice(
        [Patience(), Patience(), Patience(wait_limit=6, overdue=overdue), Patience(max_pending=5, overdue=overdue)]
    )


def some_classifier(draw: random.Random) -> Callable[[Item], int]:
    """Draw a classifier that is right in a part of the context only."""
    feature, edge, side = draw.choice(["x", "y"]), draw.random(), draw.randrange(2)
    return lambda item: int((item[feature] > edge) == bool(side))


def some_item(draw: random.Random) -> Item:
    """Draw an item with its true label."""
    item: Item = {"x": draw.randrange(9) / 8, "y": draw.random(), "kind": draw.choice(KINDS)}
    return {**item, "truth": int(item["x"] > 0.5) if draw.random() < 0.9 else draw.randrange(2)}


def some_network(draw: random.Random) -> dict[str, Site]:
    """Draw two or three sites that are each other's peers; they need not have the same policy."""
    axes, policies = some_axes(draw), [some_policy(draw) for _ in range(2)]
    sites = [
        Site(
            f"site{n}",
            classifiers={f"f{number}": some_classifier(draw) for number in range(draw.randint(1, 3))},
            context=axes,
            policy=draw.choice(policies),
            patience=some_patience(draw),
            seed=draw.randrange(100),
            score_local=draw.choice(["used", "all"]),
        )
        for n in range(draw.randint(2, 3))
    ]
    Network(sites, call_cost=draw.choice([0.0, 0.05]))
    return {site.name: site for site in sites}


def classified(site: Site, items: Sequence[Item], batched: bool) -> list[Decision]:
    """Let a site label items, all at once or one by one."""
    return site.classify_many(items) if batched else [site.classify(item) for item in items]


def learnt(site: Site, labels: Sequence[tuple[int, int]], batched: bool) -> int:
    """Let a site learn labels for those ids that still wait, all at once or one by one; returns how many came late."""
    wanted = [(ticket, truth) for ticket, truth in labels if site.is_pending(ticket)]
    if batched:
        site.learn_many([ticket for ticket, _ in wanted], [truth for _, truth in wanted])
    else:
        for ticket, truth in wanted:
            site.learn(ticket, truth)
    return len(labels) - len(wanted)


def pause_or_resume(site: Site, draw: random.Random) -> None:
    """Pause an arm of a site now and then, or let it be used again; the first classifier stays."""
    arm = draw.choice(site.learner.arms.names[1:] or [""])
    if arm and draw.random() < 0.2:
        (site.resume if arm in site.learner.arms.paused else site.pause)(arm)


def play(seed: int, batched: bool) -> tuple[list[Any], dict[str, Site], int]:
    """Play a network; returns all that was decided, the sites, and how many labels were overdue when they came."""
    draw, is_long = random.Random(seed), seed % LONG == 0
    sites = some_network(draw)
    said: list[Any] = []
    overdue, items_wanted = 0, 10 * ITEMS if is_long else ITEMS
    late: dict[str, list[tuple[int, int]]] = {name: [] for name in sites}
    while len(said) < items_wanted:
        for name, site in sites.items():
            pause_or_resume(site, draw)
            items = [some_item(draw) for _ in range(draw.choice([1, 2, 4, 8]))]
            made = classified(site, items, batched)
            said += [(name, *map(str, decision)) for decision in made]
            late[name] += [(decision.id, item["truth"]) for decision, item in zip(made, items, strict=True)]
            draw.shuffle(late[name])
            count = draw.randint(0, len(late[name]))
            overdue += learnt(site, late[name][:count], batched)
            del late[name][:count]
    return said, sites, overdue


def played(seed: int, batched: bool) -> int:
    """Play a network; returns a checksum of all that was decided, and of the whole state of all sites."""
    said, sites, _ = play(seed, batched)
    total = zlib.crc32(repr(said).encode())
    for site in sites.values():
        state = site.state()
        total = zlib.crc32(repr(state.facts).encode(), total)
        for name, array in sorted(state.arrays.items()):
            total = zlib.crc32(f"{name}{array.shape}{array.dtype}".encode() + array.tobytes(), total)
    return total
