"""Open pages of a site's dashboard, without a browser around them, in a process of their own.

    python -m benchmarks.dashboard_pages PORT --count 10

Each gets the page, connects its web socket as the page's script does, and reads whatever it is told until its input
ends. A line is printed when all are open, and another at the end: how many messages and bytes have come.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from urllib.parse import urlencode
from urllib.request import urlopen
from uuid import uuid4

from websockets.asyncio.client import ClientConnection, connect

CLIENT = re.compile(r"""['"]client_id['"]: ?['"]([0-9a-f-]+)['"]""")
OPENED, CONNECT, PING, PONG = "0", "40", "2", "3"  # of Engine.IO and Socket.IO


class Page:
    """One page that is open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.messages = self.bytes = 0
        self.has_shown = asyncio.Event()

    async def run(self) -> None:
        with await asyncio.to_thread(urlopen, f"http://127.0.0.1:{self._port}/dashboard/") as reply:
            [client] = set(CLIENT.findall(reply.read().decode()))
        query = {"client_id": client, "tab_id": uuid4(), "document_id": uuid4(), "old_tab_id": "null"}
        query |= {"next_message_id": 0, "implicit_handshake": "true", "EIO": 4, "transport": "websocket"}
        url = f"ws://127.0.0.1:{self._port}/dashboard/_nicegui_ws/socket.io/?{urlencode(query)}"
        async with connect(url, max_size=None, compression=None) as socket:
            await self._read(socket)

    async def _read(self, socket: ClientConnection) -> None:
        async for message in socket:
            text = message if isinstance(message, str) else message.decode()
            if text == PING:
                await socket.send(PONG)
            elif text.startswith(OPENED):
                await socket.send(CONNECT)
            elif "cosendShow" in text:
                self.messages, self.bytes = self.messages + 1, self.bytes + len(text)
                self.has_shown.set()


async def all_shown(pages: list[Page]) -> None:
    for page in pages:
        await page.has_shown.wait()


async def run(port: int, count: int) -> None:
    """Open pages until the input ends."""
    pages = [Page(port) for _ in range(count)]
    tasks = [asyncio.create_task(page.run()) for page in pages]
    opened = asyncio.create_task(all_shown(pages))
    await asyncio.wait([opened, *tasks], return_when=asyncio.FIRST_COMPLETED)
    if not opened.done():
        sys.exit("a page was closed before it showed anything")
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    if any(task.done() for task in tasks):
        sys.exit("a page was closed")
    sys.stdout.write(f"{sum(page.messages for page in pages)} {sum(page.bytes for page in pages)}\n")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=10)
    given = parser.parse_args()
    asyncio.run(run(given.port, given.count))


if __name__ == "__main__":
    main()
