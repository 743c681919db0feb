"""What a command needs beyond the plain package, said before it begins and all at once."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Final

from cosend.errors import CosendError, install
from cosend.local.broker import has_server

SERVER: Final = "nats-server"  # a program, not a module
SERVICE: Final = ("fastapi", "fastapi_offline", "httptools", "msgspec", "prometheus_client", "uvicorn")
NETWORK: Final = ("nats", "msgspec")
PLOTS: Final = ("matplotlib", "scipy")
EXTRAS: Final = dict.fromkeys(SERVICE, "service") | {
    "httpx": "client",
    "matplotlib": "reports",
    "nats": "network",
    "nicegui": "dashboard",
    "scipy": "reports",
    "sklearn": "models",
    SERVER: "local",
}


def lacking(needed: Iterable[str], extra: str = "") -> str:
    """Return what is not installed and how to get it, in words; empty if all of it is there.

    extra  what brings all of it; unless given, those of what is missing are named
    """
    missing = [name for name in dict.fromkeys(needed) if not _is_there(name)]
    extras = extra or ",".join(sorted({EXTRAS[name] for name in missing}))
    return f"this needs {', '.join(missing)}: {install(extras)}" if missing else ""


def check_installed(*needed: str) -> None:
    """Raise unless all of it is installed; nothing is loaded by this."""
    why = lacking(needed)
    if why:
        raise CosendError(why)


def _is_there(name: str) -> bool:
    return has_server() if name == SERVER else find_spec(name) is not None
