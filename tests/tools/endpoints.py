"""A server for models behind endpoints, on a free port of this machine: it answers right, or does what is asked of it.

It speaks every protocol that an `Endpoint` does. What it does wrong is said by the first part of the path: a test asks
/hangs/v2/models/m, say. `python -m tests.tools.endpoints PORT SECONDS` is the same as a process, which takes SECONDS
for an answer.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

RIGHT: Final = "right"
HUGE: Final = 64 * 2**20  # bytes
TOKENS: Final = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}


def young(features: Any) -> str:
    """Return the true label of an item, by the first of its values if it has no names."""
    age = features["age"] if isinstance(features, dict) else features[0]
    return "ill" if float(age) < 50 else "well"


def old(features: Any) -> str:
    """Return the other label."""
    return "well" if young(features) == "ill" else "ill"


class Seen(NamedTuple):
    """A request as the server has got it."""

    path: str
    headers: dict[str, str]
    body: Any


class Reply(NamedTuple):
    """What the server sends back."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None  # that it claims


def oip(body: Any, label: Callable[[Any], Any]) -> Any:
    """Return the reply of Open Inference Protocol: about one tensor, or one for each feature."""
    inputs = body["inputs"]
    if len(inputs) == 1 and inputs[0]["name"] != "age":
        count, width = inputs[0]["shape"]
        data = inputs[0]["data"]
        rows: list[Any] = [data[n * width : (n + 1) * width] for n in range(count)]
    else:
        rows = [
            dict(zip([each["name"] for each in inputs], row, strict=True))
            for row in zip(*(e["data"] for e in inputs), strict=True)
        ]
    labels = [*map(label, rows)]
    return {
        "model_name": "m",
        "outputs": [{"name": "out", "shape": [len(labels), 1], "datatype": "BYTES", "data": labels}],
    }


def chat(body: Any, label: Callable[[Any], Any]) -> Any:
    """Return the reply of a language model, which reads `age: 31` in a prompt."""
    prompt = body["messages"][-1]["content"]
    said = label({"age": prompt.partition("age: ")[2].split()[0]})
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": f" {said}.\n"}}], "usage": TOKENS}


def mlflow(body: Any, label: Callable[[Any], Any]) -> Any:
    return {"predictions": [*map(label, body["dataframe_records"])]}


def pointers(body: Any, label: Callable[[Any], Any]) -> Any:
    return {"result": [{"label": label(body), "sure": 0.75, "cost": 0.004}]}


class Server:
    """The server, in a thread of its own."""

    def __init__(self, takes_s: float = 0.0, tls: ssl.SSLContext | None = None) -> None:
        self.takes_s, self._tls = takes_s, tls
        self._writers: set[asyncio.StreamWriter] = set()
        self.seen: list[Seen] = []
        self.counts: Counter[str] = Counter()  # by what is done
        self.most_at_once = self._now = 0
        self.retry_after = "2"
        self.times_busy = 1_000_000  # that "busy" is, before it answers right
        self.port = 0
        self._loop = asyncio.new_event_loop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def listen(self, port: int = 0) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", port, backlog=1024, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._request(reader, writer):
                pass
        self._writers.discard(writer)
        writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = first.split(" ")[1]
        what = path.split("/")[1]
        self.counts[what] += 1
        seen = Seen(path, headers, json.loads(body) if body else None)
        self.seen.append(seen)
        del self.seen[:-100]
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(self.takes_s)
            if what == "hangs":
                await asyncio.sleep(3600)
            reply = self._reply(what, path, seen)
        finally:
            self._now -= 1
        if reply is None:
            return False
        await self._send(writer, what, reply)
        return what not in ("breaks", "drips")

    async def _send(self, writer: asyncio.StreamWriter, what: str, reply: Reply) -> None:
        more = "".join(f"{name}: {value}\r\n" for name, value in reply.headers)
        length = len(reply.body) if reply.length is None else reply.length
        writer.write(f"HTTP/1.1 {reply.status} X\r\nContent-Length: {length}\r\n{more}\r\n".encode())
        if what == "drips":
            for each in reply.body:
                writer.write(bytes([each]))
                await writer.drain()
                await asyncio.sleep(0.2)
        writer.write(reply.body)
        await writer.drain()

    def _reply(self, what: str, path: str, seen: Seen) -> Reply | None:
        if what == "busy" and self.counts["busy"] > self.times_busy:
            what = RIGHT
        plain: dict[str, Reply | None] = {
            "breaks": Reply(b'{"outputs": [', length=1000),
            "closes": None,
            "garbage": Reply(b"\xff\x00<html>"),
            "deep": Reply(b"[" * 100_000),
            "empty": Reply(b""),
            "other": Reply(b'{"detail": [1, 2]}'),
            "coded": Reply(b"\x1f\x8b\x08", headers=(("Content-Encoding", "gzip"),)),
            "fails": Reply(b"a trace of the server", 503),
            "crashes": Reply(b'{"error": "boom"}', 500),
            "forbidden": Reply(b"your token is " + seen.headers.get("authorization", "").encode(), 401),
            "moved": Reply(b"", 307, (("Location", f"{self.url}/right/v2/models/m/infer"),)),
            "cookie": Reply(self._good("right", path, seen.body).body, 200, (("Set-Cookie", "a=b"),))
            if what == "cookie"
            else None,
            "busy": Reply(b"", 429, (("Retry-After", self.retry_after),)),
        }
        if what in plain:
            return plain[what]
        if what == "huge":
            return Reply(b'"' + b"a" * HUGE + b'"')
        if what == "echo":
            return Reply(json.dumps({"headers": seen.headers, "predictions": ["ill"], "label": "ill"}).encode())
        return self._good(what, path, seen.body)

    def _good(self, what: str, path: str, body: Any) -> Reply:
        kinds = {"/infer": oip, "/chat/completions": chat, "/invocations": mlflow}
        speak = next((each for ending, each in kinds.items() if path.partition("?")[0].endswith(ending)), pointers)
        label: Callable[[Any], Any] = young
        if what == "lies":
            label = old
        if what == "picky" and re.search(r"\b13\b", json.dumps(body)):
            return Reply(b'{"error": "thirteen"}', 400)
        told = speak(body, label)
        if what == "few":
            (told["predictions"] if "predictions" in told else told["outputs"][0]["data"]).pop()
        return Reply(json.dumps(told).encode())

    def run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(self.listen())
        ready.set()
        self._loop.run_forever()

    def close_connections(self) -> None:
        """Close all connections, while clients believe in them."""
        for writer in [*self._writers]:
            self._loop.call_soon_threadsafe(writer.close)

    def stop(self) -> None:
        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0.1)  # for transports to close, also those that never had a writer

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextmanager
def endpoints(takes_s: float = 0.0, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a server until the block ends."""
    server, ready = Server(takes_s, tls), threading.Event()
    thread = threading.Thread(target=server.run, args=(ready,), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)
        server._loop.close()


async def serve_alone(port: int, takes_s: float) -> None:
    """Serve until the standard input is closed."""
    server = await Server(takes_s).listen(port)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve_alone(int(sys.argv[1]), float(sys.argv[2])))
