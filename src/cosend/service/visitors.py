"""Which web pages may talk to a site: only its own.

A browser sends requests to any address on behalf of any page. Without tokens, whoever reaches a site may do everything,
so that a page of somebody else, open on the same machine, could operate it. Browsers say where a request comes from
(`Origin`, `Sec-Fetch-Site`), and refusing foreign ones is enough, but for a page that has its own name point at this
machine afterwards (DNS rebinding): that one counts as the same origin, and is known by its name in `Host`.
"""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from cosend.service.problems import Refused, problem_of

PAGES: Final = "/dashboard"  # where pages for people are
Headers = dict[bytes, bytes]


class Visitors:
    """Lets requests in, or refuses them by the place where they come from.

    is_open  whether there are no tokens; where there are, only the pages for people are guarded: a foreign page knows
             no token
    host     the address where the site listens
    """

    def __init__(self, host: str, *, is_open: bool) -> None:
        self._is_open, self._host = is_open, host.lower()
        self._others = {socket.gethostname().lower()} if not is_loopback(host) else set()
        self._is_ours = lru_cache(maxsize=1_000)(self._is_our_name)

    def check(self, headers: Headers, path: str) -> None:
        """Raise if a request comes from a foreign page."""
        if not self._is_open and not path.startswith(PAGES):
            return
        host = headers.get(b"host")
        if self._is_open and host is not None and not self._is_ours(host):
            raise Refused(403, f"{_text(host)} is not a name of this site; without tokens it answers to {self._names}")
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if site == b"cross-site" or (origin is not None and not same_origin(origin, host)):
            raise Refused(403, "a web page from elsewhere may not use this site")

    @property
    def _names(self) -> str:
        if is_loopback(self._host):
            return "localhost and loopback addresses"
        return f"localhost, {self._host}, {', '.join(sorted(self._others))} and addresses in digits"

    def _is_our_name(self, header: bytes) -> bool:
        """Tell whether a `Host` is one of ours.

        A name can be made to point here; an address in digits cannot. So a site that listens on all addresses of a
        machine answers to each of them.
        """
        try:
            name = urlsplit(f"//{_text(header)}").hostname or ""
        except ValueError:
            return False
        if name == self._host or is_loopback(name) or name in self._others:
            return True
        return not is_loopback(self._host) and _is_address(name)


def same_origin(origin: bytes, host: bytes | None) -> bool:
    """Tell whether a request comes from a page of this service."""
    try:
        return urlsplit(_text(origin)).netloc.lower() == _text(host or b"").lower()
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine only."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _text(header: bytes) -> str:
    return header.decode("latin-1")


async def refuse(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, or the wish for a web socket, with what is wrong."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": refused.detail})
    else:
        await problem_of(refused)(scope, receive, send)
