"""Folders that a running site has left: with names, failures, labels that come late or never, and much else."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cosend.axes import Category, Feature
from cosend.errors import NoAnswer
from cosend.models.adapters import as_classifier
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup


class Counts:
    """A model that learns."""

    learns = True

    def __init__(self) -> None:
        self.seen: dict[str, int] = {"well": 1}

    def predict(self, items: Any) -> list[str]:
        return [max(self.seen, key=self.seen.__getitem__) for _ in items]

    def learn(self, item: Any, label: Any) -> None:
        self.seen[label] = self.seen.get(label, 0) + 1


def fails_for_some(item: dict[str, Any]) -> str:
    if item["age"] % 3 == 1:
        raise ValueError("not this one")
    return "ill" if item["age"] > 60 else "well"


def a_setup(**options: Any) -> Setup:
    models = {
        "old": as_classifier(lambda item: "ill" if item["age"] > 60 else "well"),
        "fails": as_classifier(fails_for_some),
        "learns": Counts(),
    }
    axes = [Feature("age", range=(0, 100)), Category("ward")]
    return Setup(**{"name": "north", "classifiers": models, "axes": axes, "costs": {"fails": 0.1}, **options})


async def live(node: RunningSite, begin: int, end: int) -> list[str]:
    """Let a site decide for items, label most of them, and return the ids."""
    ids = []
    for n in range(begin, end):
        items: list[dict[str, Any]] = [{"age": (n * 13 + k * 29) % 100, "ward": "AB"[n % 2]} for k in range(4)]
        decided = await node.classify(items, [f"visit {n}", None, None, f"other/{n}"])
        assert not any(isinstance(each, NoAnswer) for each in decided)
        told = [each.id for each in decided if not isinstance(each, NoAnswer)]
        truths = ["ill" if item["age"] > 50 else "well" for item in items]
        given = [Given(name, truth) for name, truth in zip(told, truths, strict=True)]
        await node.label([given[2], given[0]])
        if n % 3:
            await node.label([Given(told[3], truths[3], 0.25)])
        ids += told
    return ids


async def much(node: RunningSite) -> None:
    """Let a site do a bit of everything."""
    await live(node, 0, 12)
    await node.snapshot()
    await node.set_mode("observe", "learns")
    await live(node, 12, 16)
    await node.set_mode("apply")
    await node.change_arm("old", cost=0.05)
    await live(node, 16, 25)


def a_folder(folder: Path, work: Callable[[RunningSite], Awaitable[Any]] = much, **options: Any) -> Path:
    """Return the folder of a site that has done its work and was stopped."""

    async def run() -> None:
        node = RunningSite(a_setup(**options), folder, durable=False)
        await node.start()
        try:
            await work(node)
        finally:
            await node.stop()

    asyncio.run(run())
    return folder


def a_killed_folder(folder: Path) -> Path:
    """Return the folder of a site that was killed: part of its log is still beside the file."""

    async def work(node: RunningSite) -> None:
        await much(node)
        await node.commits.done()
        shutil.copytree(node.folder, folder)

    a_folder(folder.with_name(f"{folder.name}-before"), work)
    assert (folder / "events.sqlite-wal").stat().st_size > 0
    return folder


async def pruned(node: RunningSite) -> None:
    """Let a site forget what is old."""
    await much(node)
    await node.snapshot()
    await live(node, 25, 28)
    await node.prune()
    await live(node, 28, 30)
    assert (await node.label([Given("other/0", "ill")])).learnt


def a_pruned_folder(folder: Path) -> Path:
    """Return the folder of a site that has forgotten what is old."""
    return a_folder(folder, pruned, keep_s=0.0)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return all files of a folder: what is in them, and when they were changed."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}
