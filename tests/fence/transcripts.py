"""A client that writes down what a service replies, one request at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.fence.recordings import cleaned
from tests.tools.processes import JSON, Service

DECISION = ("id", "arm", "label", "phase", "cell", "cost", "answered_by")  # and the propensity, to the last bit
Item = dict[str, Any]


def items(count: int, seed: int = 0) -> list[Item]:
    """Return items without any order."""
    draw = random.Random(seed)
    return [
        {"age": draw.randrange(101), "weight": round(draw.uniform(2, 120), 1), "kind": draw.choice("abc")}
        for _ in range(count)
    ]


def truth_of(item: Item) -> str:
    """Return the true label: no model of the networks here is right everywhere."""
    if item["age"] < 30:
        return "ill"
    return "ill" if item["age"] > 70 and item["kind"] != "b" else "well"


class Transcript:
    """Requests to a service, and what it replied."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.steps: list[Any] = []

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] = JSON,
        name: str = "",
    ) -> Any:
        """Send a request, write the reply down, and return its body."""
        status, reply = self.service.request(method, path, body, raw=raw, headers=headers)
        self.steps.append([name or f"{method} {path}", status, cleaned(reply)])
        return reply

    def get(self, *paths: str) -> None:
        """Look at some paths."""
        for path in paths:
            self.request("GET", path)

    def post(self, path: str, body: Any, name: str = "") -> Any:
        """Send a body."""
        return self.request("POST", path, body, name=name)

    def classify(self, *items: Item, ids: Sequence[str | None] = ()) -> list[Any]:
        """Have items labelled in one request, and return the decisions."""
        asked: list[dict[str, Any]] = [{"features": item} for item in items]
        for each, name in zip(asked, ids, strict=False):
            each.update({"id": name} if name is not None else {})
        decided: list[Any] = self.post("/v1/classify", {"items": asked}).get("decisions", [])
        return decided

    def learn(self, *labels: tuple[str, Any], **more: Any) -> Any:
        """Send true labels in one request."""
        return self.post("/v1/labels", {"labels": [{"id": name, "label": label} for name, label in labels], **more})

    def play(
        self,
        items: Sequence[Item],
        late: int = 0,
        truth: Callable[[Item], Any] = truth_of,
        *,
        wait_for_peers: bool = False,
    ) -> list[Any]:
        """Have items labelled one by one, each true label some items later, and write the decisions as columns."""
        decisions, pending = list[Any](), list[tuple[str, Any]]()
        for item in items:
            (decision,) = self.service.ask("/v1/classify", {"items": [{"features": item}]})["decisions"]
            decisions.append(decision)
            pending.append((decision["id"], truth(item)))
            if len(pending) > late:
                name, label = pending.pop(0)
                body = {"labels": [{"id": name, "label": label}], "wait_for_peers": wait_for_peers}
                self.service.ask("/v1/labels", body)
        columns = {field: cleaned([each.get(field) for each in decisions], exact=True) for field in DECISION}
        columns["propensity"] = [repr(each["propensity"]) for each in decisions]
        self.steps.append(["play", len(items), {field: short(column) for field, column in columns.items()}])
        return decisions

    def cells(self) -> None:
        """Look at the cells, and write the first one down, and the counts of all."""
        cells = cleaned(self.service.ask("/v1/cells?count=1000")["cells"])
        counts = [[cell["key"], cell["view"], cell["arrivals"], cell["taught"]] for cell in cells]
        rewards = [[[*arm.values()] for arm in cell["arms"].values()] for cell in cells[:40]]
        self.steps.append(
            ["GET /v1/cells", cells[:1], {"counts": counts[:100], "number": len(counts), "arms": rewards}]
        )


def short(column: list[Any]) -> Any:
    """Return a column with [value, times] for values that stay the same."""
    runs: list[list[Any]] = []
    for value in column:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return [value if times == 1 else [value, times] for value, times in runs]
