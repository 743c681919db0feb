"""Clients of a server that is killed again and again: they ask and tell until they are answered, and write it down."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import httpx

from tests.processes.server import truth_of

Facts = dict[str, Any]
LONGEST_S = 120.0  # until a server is back
MOST_PENDING = 60  # decisions whose label a client still owes


def item_of(n: int) -> Facts:
    """Return an item; the same number gives the same item."""
    draw = random.Random(n)
    return {"n": n, "x": draw.random(), "y": draw.random(), "kind": draw.choice("abc")}


class Client:
    """Asks for decisions under its own ids, sometimes without, and tells labels late; again, until it is answered."""

    def __init__(self, url: str, number: int, ended: threading.Event) -> None:
        self.url, self.number, self.ended = url, number, ended
        self.draw = random.Random(number)
        self.decided: dict[str, Facts] = {}  # acknowledged
        self.labelled: dict[str, bool] = {}  # acknowledged
        self.doubtful = 0  # labels that were sent once and never acknowledged: they may have been learnt
        self.retries = 0
        self.wrong: list[str] = []
        self._owed: dict[str, bool] = {}
        self._asked = 0

    def run(self) -> None:
        """Go on until it is over; in a thread of its own."""
        try:
            with httpx.Client(base_url=self.url, timeout=20.0) as http:
                while not self.ended.is_set():
                    self._ask(http)
                    if len(self._owed) > self.draw.randrange(MOST_PENDING):
                        self._tell(http)
        except Exception as error:  # the test must hear of it
            self.wrong.append(repr(error))

    def _ask(self, http: httpx.Client) -> None:
        items = []
        for _ in range(self.draw.randint(1, 5)):
            self._asked += 1
            features = item_of(1000 * self._asked + self.number)
            named = self.draw.random() < 0.8
            items.append({"features": features, **({"id": f"{self.number}-{self._asked}"} if named else {})})
        if self.draw.random() < 0.1:
            items.append(items[0])  # the same once more
        told = self._until_answered(http, "/v1/classify", {"items": items}, again=all("id" in each for each in items))
        for item, decision in zip(items, told["decisions"] if told else [], strict=True) if told else ():
            self._note(item, decision)

    def _note(self, item: Facts, decision: Facts) -> None:
        if "error" in decision:
            self.wrong.append(str(decision))
            return
        name = decision["id"]
        if item.get("id", name) != name or self.decided.get(name, decision) != decision:
            self.wrong.append(f"{item} got {decision}, and before {self.decided.get(name)}")
        self.decided[name] = decision
        self._owed[name] = truth_of(item["features"])

    def _tell(self, http: httpx.Client) -> None:
        names = self.draw.sample([*self._owed], min(len(self._owed), self.draw.randint(1, 20)))
        labels = [{"id": name, "label": self._owed[name]} for name in names]
        before = self.retries
        told = self._until_answered(http, "/v1/labels", {"labels": labels}, again=True)
        if told is None:
            self.doubtful += len(names)
            return
        done = [*told["learnt"], *told["duplicate"]]
        if sorted(done) != sorted(names) or (told["duplicate"] and self.retries == before):
            self.wrong.append(f"labels of {names} became {told}")
        for name in done:
            self.labelled[name] = self._owed.pop(name)

    def _until_answered(self, http: httpx.Client, path: str, body: Facts, *, again: bool) -> Any:
        """Return the answer; None if it is over before it comes, or if what is asked for cannot be repeated."""
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until:
            try:
                response = http.post(path, json=body)
                if response.status_code == 200:
                    return response.json()
                if response.status_code != 503:
                    self.wrong.append(f"{response.status_code} {response.text}")
                    return None
            except httpx.TransportError:  # it was killed
                pass
            if not again or self.ended.is_set():
                return None
            self.retries += 1
            time.sleep(0.02)
        self.wrong.append("no answer for too long")
        return None
