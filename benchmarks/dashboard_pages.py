"""Open pages of a site's dashboard, without a browser around them, in a separate process.

    python -m benchmarks.dashboard_pages PORT --count 10

Each reads the events that the page's script would read, until the input of the process ends. A line is printed when all
are open, and another at the end: how many events and bytes have arrived.
"""

from __future__ import annotations

import argparse
import asyncio
import sys


class Page:
    """One page that is open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.events = self.bytes = 0
        self.has_shown = asyncio.Event()

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        writer.write(b"GET /dashboard/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        while line := await reader.readline():
            if line.startswith(b"data: "):
                self.events, self.bytes = self.events + 1, self.bytes + len(line)
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
    sys.stdout.write(f"{sum(page.events for page in pages)} {sum(page.bytes for page in pages)}\n")
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
