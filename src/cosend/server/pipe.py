"""A site in a pipe: lines of JSON in, lines of JSON out, one for one and in order.

It reads only a few hundred lines ahead of its answers, so a faster writer has to wait.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from itertools import groupby
from queue import Queue
from time import monotonic
from typing import IO, Any, Final, NamedTuple

import msgspec
from starlette.exceptions import HTTPException

from cosend.errors import CosendError, NoAnswer
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.server.bodies import decoded
from cosend.server.schema import Item, Truth

AHEAD: Final = 512  # lines that are read ahead
TOGETHER: Final = 256  # lines that are answered at once
SHOWN_EVERY_S: Final = 0.25
MAX_LINE: Final = 32 * 2**20  # bytes
LINE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
ITEM, TRUTH = msgspec.json.Decoder(Item), msgspec.json.Decoder(Truth)
Watch = Callable[[int, int, float], None]
KNOWN: Final = ("label", "score", "scores")  # a line with one of these is no item
ONLY_ITEM: Final = "items.0: "  # the start of an error about the item of a line


class Line(NamedTuple):
    """A line of the input, counted from 1."""

    number: int
    said: Any  # an Item, a Truth, or the HTTPException that says what is wrong with it


class Pipe:
    """Reads lines, and writes one for each.

    watch  is called from time to time with the number of lines, of wrong lines, and of lines a second
    """

    def __init__(self, site: RunningSite, source: IO[bytes], target: IO[bytes], watch: Watch) -> None:
        self.site, self.source, self.target, self.watch = site, source, target, watch
        self.lines, self.wrong, self._number = 0, 0, 1
        self._read: Queue[bytes | None] = Queue(AHEAD)

    async def run(self) -> int:
        """Work until the input ends, and return the number of wrong lines."""
        await self.site.start()
        threading.Thread(target=self._read_all, name="input", daemon=True).start()
        begun = shown = monotonic()
        try:
            while group := await asyncio.to_thread(self._next_lines):
                for answer in await self._answers(group):
                    self.target.write(answer + b"\n")
                self.target.flush()
                self.lines += len(group)
                if monotonic() - shown > SHOWN_EVERY_S:
                    shown = monotonic()
                    self.watch(self.lines, self.wrong, self.lines / (shown - begun))
        except OSError as error:
            # Discard what is left in the buffer, so that Python does not fail to flush it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.target.fileno())
            if not isinstance(error, BrokenPipeError):  # then the reader just has enough
                raise CosendError(f"the decisions cannot be written ({error.strerror})") from error
        finally:
            await self.site.stop()
        return self.wrong

    def _read_all(self) -> None:
        while line := self.source.readline(MAX_LINE):
            self._read.put(line)
        self._read.put(None)

    def _next_lines(self) -> list[Line]:
        """Return the lines that are there, at least one; an empty list at the end."""
        lines = list[Line]()
        while not lines or (len(lines) < TOGETHER and not self._read.empty()):
            line = self._read.get()
            if line is None:
                self._read.put(None)  # for the next call
                break
            if line.strip():
                lines.append(Line(self._number, _parsed(line)))
            self._number += line.endswith(b"\n")  # a line that is too long comes in parts
        return lines

    async def _answers(self, lines: list[Line]) -> list[bytes]:
        """Return a line for each; consecutive items are decided together, and consecutive labels learnt together."""
        alike = [[*some] for _, some in groupby(lines, key=lambda line: type(line.said))]
        return [answer for some in alike for answer in await self._alike(some)]

    async def _alike(self, lines: list[Line]) -> list[bytes]:
        first = lines[0]
        if isinstance(first.said, HTTPException):
            return [self._refusal(line.number, line.said) for line in lines]
        work = self._decided if isinstance(first.said, Item) else self._learnt
        try:
            return await work(lines)
        except (CosendError, HTTPException) as error:
            if len(lines) == 1:
                return [self._refusal(first.number, error)]
        return [answer for line in lines for answer in await self._alike([line])]

    async def _decided(self, lines: list[Line]) -> list[bytes]:
        items: list[Item] = [line.said for line in lines]
        results = await self.site.classify([item.features for item in items], [item.id for item in items])
        return [
            self._refusal(line.number, result) if isinstance(result, NoAnswer) else msgspec.json.encode(result)
            for line, result in zip(lines, results, strict=True)
        ]

    async def _learnt(self, lines: list[Line]) -> list[bytes]:
        labels: list[Truth] = [line.said for line in lines]
        given = [Given(each.id, *each.known) for each in labels]
        heard = await self.site.label(given)
        left = {kind: deque(ids) for kind, ids in msgspec.structs.asdict(heard).items()}  # in the order of the input
        answers = []
        for each in given:
            kinds = ("missing", *left) if each.is_missing else left  # a label may follow for the same decision
            kind = next(kind for kind in kinds if left[kind] and left[kind][0] == each.id)
            left[kind].popleft()
            answers.append(msgspec.json.encode({"id": each.id, "result": kind}))
        return answers

    def _refusal(self, number: int, error: Exception) -> bytes:
        self.wrong += 1
        why = error.detail if isinstance(error, HTTPException) else str(error)
        return msgspec.json.encode({"error": f"line {number}: {why.removeprefix(ONLY_ITEM)}"})


def _parsed(line: bytes) -> Item | Truth | HTTPException:
    """Return the item or the label in a line, or what is wrong with it."""
    try:
        fields = decoded(LINE, line, "it")
        is_truth = "features" not in fields and not fields.keys().isdisjoint(KNOWN)
        return decoded(TRUTH, line) if is_truth else decoded(ITEM, line)
    except HTTPException as error:
        return error
