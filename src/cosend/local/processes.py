"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from cosend.errors import CosendError

GRACE_S: Final = 5  # for processes whose parent is gone
GUARD: Final = f"trap '' INT TERM HUP; read -r _; kill -TERM 0; sleep {GRACE_S}; kill -KILL 0"
LONGEST_LINE: Final = 2**20  # bytes that are kept of what a process says


class Child(NamedTuple):
    """A process, and what it says, also of errors.

    The pipe is our own: asyncio would take a process for alive until all that it has started have closed theirs.
    """

    process: asyncio.subprocess.Process
    said: asyncio.StreamReader
    transport: asyncio.ReadTransport  # of what it says; to be closed


class Family:
    """A group of processes; a terminal does not reach them, so that Ctrl-C is for their parent alone.

    A shell leads the group and reads from a pipe whose other end is held by this process only. The kernel closes it
    whatever happens, also at a SIGKILL, and then the shell ends the group. A process that is just being started holds
    the other end too until it has joined the group, so that none can be missed.
    """

    def __enter__(self) -> Self:
        if os.name != "posix":
            raise CosendError("processes are started on Linux and macOS only; start each site with `cosend serve`")
        self._guard = subprocess.Popen(  # noqa: S603 - our own
            ["/bin/sh", "-c", GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # whoever reads what this process says must not wait for the guard
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    async def start(self, command: Sequence[str], **environment: str) -> Child:
        """Start a process."""
        read, write = os.pipe()
        pipe = os.fdopen(read, "rb")
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                env={**os.environ, **environment},
                process_group=self._guard.pid,
            )
        except BaseException:
            pipe.close()
            raise
        finally:
            os.close(write)
        said = asyncio.StreamReader(limit=LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(said)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        return Child(process, said, transport)

    def kill(self) -> None:
        """End all of them at once, also those that they have started."""
        if self._guard.returncode is None:  # nobody has waited for it, so its number is still that of the group
            os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.communicate()
