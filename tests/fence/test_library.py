"""What sites and networks of the library decide, to the last bit: late labels, batches, and arms that come and go."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosend import CellKLUCB, CoS, Decision, Learnt, MixedViews, Network, Patience, Site, Zooming, ZoomingKLUCB, verify
from cosend.axes import Category, Feature
from cosend.errors import DecisionError
from tests.fence.recordings import Recordings

pytestmark = pytest.mark.compiled

ITEMS = 2_000
PART = 250  # items of which there is one digest
AGE = [Feature("age", range=(0, 100))]
BOTH = [*AGE, Category("kind")]
LATE = 12  # labels that are pending
ALL: dict[str, Any] = {"score_local": "all", "learnt": False}

SITES: dict[str, dict[str, Any]] = {
    "default": {},
    "default with a context": {"context": BOTH},
    "default, nothing learnt": {"learnt": False},
    "default with a context, nothing learnt": {"context": BOTH, "learnt": False},
    "default with a stack alone": {"context": AGE, "learnt": False, "stack": True},
    "default with patience": {"context": AGE, "patience": Patience(wait_limit=9), "learnt": False},
    "default, used arms only": {"context": AGE, "score_local": "used"},
    "MixedViews": {"context": BOTH, "policy": MixedViews(max_cells=300, share_labels="training"), **ALL},
    "CoS": {"context": AGE, "policy": CoS(slices=3, exploration_exponent=0.1)},
    "CoS, labels shared": {"context": AGE, "policy": CoS(exploration_exponent=0.1, share_labels="always")},
    "CellKLUCB": {"context": BOTH, "policy": CellKLUCB(slices=3)},
    "CellKLUCB, all are scored": {"context": AGE, "policy": CellKLUCB(slices=3), **ALL},
    "Zooming": {"context": AGE, "policy": Zooming(), "patience": Patience(max_pending=10)},
    "ZoomingKLUCB": {"context": AGE, "policy": ZoomingKLUCB()},
    "ZoomingKLUCB, all are scored": {"context": BOTH, "policy": ZoomingKLUCB(), **ALL},
}


class Majority:
    """A model that learns, in river's way."""

    def __init__(self) -> None:
        self.seen = {"well": 1}

    def predict_one(self, _: Any) -> str:
        return max(sorted(self.seen), key=self.seen.__getitem__)

    def learn_one(self, _: Any, label: str) -> None:
        self.seen[label] = self.seen.get(label, 0) + 1


def below(age: int) -> Callable[[Any], str]:
    return lambda item: "ill" if item["age"] < age else "well"


def above(age: int) -> Callable[[Any], str]:
    return lambda item: "ill" if item["age"] > age else "well"


def truth_of(item: Any, draw: random.Random) -> str:
    right = item["age"] < 30 or (item["age"] > 70 and item["kind"] != "b")
    return "ill" if right != (draw.random() < 0.1) else "well"


def an_item(draw: random.Random) -> dict[str, Any]:
    return {"age": draw.randrange(101), "weight": round(draw.uniform(2, 120), 1), "kind": draw.choice("abc")}


def sites_of(options: dict[str, Any], journal: Callable[[Any], None] | None = None) -> list[Site]:
    """Return the sites of a network; the first one may have a journal."""
    given = {key: value for key, value in options.items() if key != "stack"}
    stacks = {"stack": Learnt.STACK} if "stack" in options else {}
    models: dict[str, dict[str, Any]] = {
        "north": {"young": below(30), "half": below(50), "majority": Majority(), **stacks},
        "east": {"old": above(70), "dear": lambda item: truth_of(item, random.Random(1))},
        "south": {"kinds": lambda item: "ill" if item["kind"] == "a" else "well"},
    }
    return [
        Site(
            name,
            classifiers=own,
            costs={"dear": 0.2} if "dear" in own else None,
            seed=5,
            journal=journal if name == "north" else None,
            **given,
        )
        for name, own in models.items()
    ]


class Play:
    """Plays a network with everything that can happen to it but failures, and writes down what it decides."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.draw = random.Random(7)
        self.network = Network(sites_of(options), call_cost=0.04)
        self.pending: list[tuple[Site, Decision, Any]] = []
        self.lines: list[str] = []

    def run(self) -> None:
        changes = self.changes()
        while len(self.lines) < ITEMS:
            for number in [number for number in changes if number <= len(self.lines)]:
                changes.pop(number)()
            site = self.draw.choice([*self.network.sites.values()])
            items = [an_item(self.draw) for _ in range(self.draw.choice([1, 1, 1, 1, 2, 5]))]
            made = site.classify_many(items) if len(items) > 1 else [site.classify(items[0])]
            for item, each in zip(items, made, strict=True):
                self.lines.append(f"{site.name} {said(each)}\n")
                self.pending.append((site, each, truth_of(item, self.draw)))
            self.draw.shuffle(self.pending)
            self.learn()

    def learn(self) -> None:
        """Send all labels but the last ones: most alone, some together, and some are missing."""
        while len(self.pending) > LATE:
            site, decision, truth = self.pending.pop()
            if self.draw.random() < 0.05:
                truth = None  # it never comes
            ready = [(decision, truth)]
            if self.draw.random() < 0.3:
                more = [entry for entry in self.pending[-4:] if entry[0] is site]
                ready += [(each, label) for _, each, label in more if site.is_pending(each)]
                self.pending = [entry for entry in self.pending if entry not in more]
            costs = [0.3] * len(ready) if self.draw.random() < 0.1 else None
            try:
                missing = site.learn_many([each for each, _ in ready], [label for _, label in ready], costs)
                assert missing == (truth is None)
            except DecisionError:  # it has expired, or its arm has left
                self.lines[-1] += "expired\n"

    def changes(self) -> dict[int, Callable[[], object]]:
        """Return what happens after how many items."""
        north, east, south = self.network.sites.values()
        given = {key: value for key, value in self.options.items() if key != "stack"}
        west = Site("west", classifiers={"never": lambda _: "well", "always": lambda _: "ill"}, seed=6, **given)
        return {
            300: lambda: north.add_classifier("late", above(60), cost=0.01),
            500: lambda: self.network.add(west),
            700: lambda: north.pause("young"),
            800: lambda: north.resume("young"),
            900: lambda: north.set_cost("south", 0.2),
            1000: lambda: east.pause("north"),
            1200: lambda: south.add_classifier("another", below(30)),
            1400: lambda: self.network.remove("west"),
            1500: lambda: north.remove("late"),
            1600: lambda: east.set_cost("dear", 0.0),
            1700: lambda: east.resume("north"),
            1800: lambda: north.remove("stack" if "stack" in self.options else "half"),
        }


def said(decision: Decision) -> str:
    cell = decision.cell, decision.phase.name.lower(), tuple(map(str, decision.context))
    return repr((decision.arm, decision.label, *cell, repr(decision.propensity)))


def digests(lines: list[str]) -> list[str]:
    """Return a digest for every part, so that a difference says when it began."""
    return [digest(lines[start : start + PART]) for start in range(0, len(lines), PART)]


def digest(lines: list[str]) -> str:
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


def test_networks_decide_what_they_did(recordings: Recordings) -> None:
    steps = []
    for name, options in SITES.items():
        play = Play(options)
        play.run()
        arms = sorted({line.split("'")[1] for line in play.lines})
        steps.append([name, arms, digests(play.lines[:ITEMS])])
    recordings.check("library", steps)


def test_networks_that_are_saved_go_on_as_they_did(tmp_path: Path, recordings: Recordings) -> None:
    steps = []
    for name, options in SITES.items():
        lines = []
        for part in range(2):
            network = Network([site for site in sites_of(options) if site.name != "north"], call_cost=0.04)
            if part:
                network.load(tmp_path / name)
            draw = random.Random(part)
            rows = [(item, truth_of(item, draw)) for item in (an_item(draw) for _ in range(300))]
            streams = {"east": rows[:150], "south": rows[150:]}
            lines += [f"{turn.site} {said(turn.decision)}\n" for turn in network.run(streams, label_delay=3)]
            network.save(tmp_path / name)
        steps.append([name, digest(lines[:300]), digest(lines[300:])])
    recordings.check("saved", steps)


def test_a_log_leads_to_the_decisions_that_it_tells_of() -> None:
    for options in SITES.values():
        log: list[Any] = []
        network = Network(sites_of(options, log.append), call_cost=0.04)
        draw = random.Random(3)
        rows = [(item, truth_of(item, draw)) for item in (an_item(draw) for _ in range(100))]
        turns = list(network.run({"north": rows}, label_delay=3))
        assert len(turns) == 100
        assert verify(log) == []
