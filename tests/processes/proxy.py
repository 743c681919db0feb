"""What lies between a site and its broker: it can be slow, or cut."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

CHUNK = 65_536
FOR_EVER_S = 3_600.0


class Proxy:
    """Passes bytes on between a port of its own and another, in a thread of its own."""

    def __init__(self, to: int) -> None:
        self.to, self.port = to, 0
        self.late_s, self.is_cut = 0.0, False
        self._writers: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def cut(self) -> None:
        """Break all connections, and let no new ones through."""
        self.is_cut = True
        self._loop.call_soon_threadsafe(self._break)

    def hang(self) -> None:
        """Let nothing through, and end nothing; what is connected now stays so for good, whatever is mended."""
        self.late_s = FOR_EVER_S

    def mend(self) -> None:
        """Let everything through, at once."""
        self.late_s, self.is_cut = 0.0, False

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._join, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._break()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def _break(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.close()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, back}
        with suppress(asyncio.CancelledError):  # it is closed while something is on its way
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        self._writers -= {writer, back}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.late_s:
                    await asyncio.sleep(self.late_s)
                writer.write(data)
                await writer.drain()
        writer.close()
