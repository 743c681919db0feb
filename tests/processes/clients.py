"""Clients of servers that are killed again and again: they ask and tell until they are answered, and write it down.

About a third of what they tell are scores in place of labels.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import httpx

Facts = dict[str, Any]
LONGEST_S = 120.0  # until a server is back
MOST_PENDING = 30  # decisions whose label a client still owes


class Client:
    """Asks for decisions, mostly under its own ids, and tells all labels late; again, until it is answered.

    items   the features of an item by its number
    truth   the true label of an item
    named   the share of the items that have ids
    """

    def __init__(
        self,
        url: str,
        number: int,
        ended: threading.Event,
        items: Callable[[int], Facts],
        truth: Callable[[Facts], Any],
        named: float = 1.0,
    ) -> None:
        self.url, self.number, self.ended = url, number, ended
        self.items, self.truth, self.named = items, truth, named
        self.draw = random.Random(f"{url} {number}")
        self.decided: dict[str, Facts] = {}  # acknowledged
        self.labelled: dict[str, Any] = {}  # acknowledged
        self.scores: dict[str, float] = {}  # for these there is no label
        self.took: list[float] = []  # of items that were answered at the first attempt
        self.retries = 0
        self.wrong: list[str] = []
        self._owed: dict[str, Any] = {}
        self._asked = 0

    def run(self) -> None:
        """Go on until it is over, and tell what is owed then; in a thread of its own."""
        try:
            with httpx.Client(base_url=self.url, timeout=20.0) as http:
                while not self.ended.is_set():
                    self._ask(http)
                    if len(self._owed) > self.draw.randrange(MOST_PENDING):
                        self._tell(http)
                while self._owed:
                    self._tell(http)
        except Exception as error:  # the test must hear of it
            self.wrong.append(repr(error))

    def _ask(self, http: httpx.Client) -> None:
        items = []
        for _ in range(self.draw.choice((1, 1, 1, 5))):
            self._asked += 1
            name = {"id": f"{self.number}-{self._asked}"} if self.draw.random() < self.named else {}
            items.append({"features": self.items(1000 * self._asked + self.number), **name})
        if self.draw.random() < 0.1:
            items.append(items[0])  # the same once more
        start, before = time.monotonic(), self.retries
        told = self._until_answered(http, "/v1/classify", {"items": items}, again=all("id" in each for each in items))
        if told is not None and self.retries == before:
            self.took.append(time.monotonic() - start)
        for item, decision in zip(items, told["decisions"], strict=True) if told else ():
            self._note(item, decision)

    def _note(self, item: Facts, decision: Facts) -> None:
        name = decision.get("id", "")
        if "error" in decision or item.get("id", name) != name or self.decided.get(name, decision) != decision:
            self.wrong.append(f"{item} got {decision}, and before {self.decided.get(name)}")
        elif name not in self.decided:
            self.decided[name] = decision
            self._owed[name] = self.truth(item["features"])
            if self.draw.random() < 0.3:
                self.scores[name] = self.draw.random()

    def _tell(self, http: httpx.Client) -> None:
        names: Sequence[str] = self.draw.sample([*self._owed], min(len(self._owed), self.draw.randint(1, 20)))
        labels, before = [self._known(name) for name in names], self.retries
        told = self._until_answered(http, "/v1/labels", {"labels": labels}, again=True)
        if sorted([*told["learnt"], *told["duplicate"]]) != sorted(names) or (
            told["duplicate"] and self.retries == before
        ):
            self.wrong.append(f"labels of {names} became {told}")
        for name in names:
            self.labelled[name] = self._owed.pop(name)

    def _known(self, name: str) -> Facts:
        if name in self.scores:
            return {"id": name, "score": self.scores[name]}
        return {"id": name, "label": self._owed[name]}

    def _until_answered(self, http: httpx.Client, path: str, body: Facts, *, again: bool) -> Any:
        """Return the answer; None if it does not come and what was asked for cannot be repeated."""
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until:
            with suppress(httpx.TransportError):  # it was killed, or is frozen
                response = http.post(path, json=body)
                if response.status_code == 200:
                    return response.json()
                if response.status_code != 503:
                    raise AssertionError(f"{response.status_code} {response.text}")
            if not again:
                return None
            self.retries += 1
            time.sleep(0.02)
        raise AssertionError("no answer for too long")
