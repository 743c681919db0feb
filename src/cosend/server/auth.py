"""Who may use a site: programs with tokens, and of all web pages only its own.

Tokens are bearer tokens with scopes. A file has a token and its scopes on each line, a variable of the environment the
same with `;` between them:

    4f1c6a...   classify,label
    93be02...   admin

    classify    POST /v1/classify
    label       POST /v1/labels
    read        everything that only looks
    admin       arms and mode, and all of the above

Without any token, every client may do everything: for addresses that only this machine can reach. But a browser sends
requests to any address on behalf of any page, so a page from elsewhere, open on the same machine, could operate the
site. Browsers say where a request comes from (`Origin`, `Sec-Fetch-Site`), and refusing foreign ones is enough, but for
a page whose own name points at this machine afterwards (DNS rebinding): that counts as the same origin, and is known by
its name in `Host`.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from cosend.errors import SettingError, in_one_line, listed
from cosend.server.bodies import Headers
from cosend.server.schema import Scope

SCOPES: Final = get_args(Scope)
VARIABLE: Final = "COSEND_TOKENS"
MIN_TOKEN: Final = 16  # characters: a shorter one could be guessed
PAGES: Final = "/dashboard"  # where the pages for people are


class Tokens:
    """The tokens of a site, and what each may do."""

    def __init__(self, scopes: Mapping[str, frozenset[str]]) -> None:
        self._scopes = [(token.encode(), allowed) for token, allowed in scopes.items()]

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def check(self, header: str | None, scope: Scope) -> None:
        if not self._scopes:
            return
        kind, _, token = (header or "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise HTTPException(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})
        allowed: frozenset[str] | None = None
        for known, scopes in self._scopes:  # all of them, so that the time does not tell how near a guess was
            if hmac.compare_digest(known, token.strip().encode(errors="replace")):
                allowed = scopes
        if allowed is None:
            raise HTTPException(401, "this token is not known", {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if scope not in allowed and "admin" not in allowed:
            raise HTTPException(403, f"this token lacks the scope {scope}; it has {', '.join(sorted(allowed))}")


def read_tokens(file: Path | None, environment: Mapping[str, str]) -> Tokens:
    """Return the tokens in a file, or in the environment if there is no file."""
    if file is None:
        return Tokens(_parsed(environment.get(VARIABLE, "").split(";"), f"the variable {VARIABLE}"))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            "the file of tokens", str(file), f"a file that can be read ({in_one_line(error)})"
        ) from error
    tokens = _parsed(text.splitlines(), str(file))
    if not tokens:
        raise SettingError("the file of tokens", str(file), "a file with a token and its scopes on a line")
    return Tokens(tokens)


def _parsed(lines: list[str], where: str) -> dict[str, frozenset[str]]:
    tokens: dict[str, frozenset[str]] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        scopes = frozenset(scope for scope in ",".join(words[1:]).split(",") if scope)
        place = f"line {number} of {where}"
        if len(words[0]) < MIN_TOKEN or not words[0].isascii():
            raise SettingError(f"the token in {place}", "a shorter one", f"at least {MIN_TOKEN} ASCII characters")
        if not scopes or not scopes <= set(SCOPES):
            raise SettingError(f"the scopes in {place}", sorted(scopes), f"some of {listed(SCOPES)}")
        if words[0] in tokens:
            raise SettingError(f"the token in {place}", "one that is there twice", "different from the others")
        tokens[words[0]] = scopes
    return tokens


class Visitors:
    """Refuses requests that come from foreign web pages.

    host     the address where the site listens
    is_open  whether there are no tokens; with tokens, only the pages for people are guarded: a foreign page knows none
    """

    def __init__(self, host: str, *, is_open: bool) -> None:
        self._is_open, self._is_local = is_open, is_loopback(host)
        self._names = {host.lower()} if self._is_local else {host.lower(), socket.gethostname().lower()}
        self._is_ours = lru_cache(maxsize=1_000)(self._is_our_name)

    def check(self, headers: Headers, path: str) -> None:
        if not self._is_open and not path.startswith(PAGES):
            return
        host = headers.get(b"host")
        if self._is_open and host is not None and not self._is_ours(host):
            known = "loopback addresses" if self._is_local else f"{', '.join(sorted(self._names))}, addresses in digits"
            wrong = f"{_text(host)} is not a name of this site"
            raise HTTPException(403, f"{wrong}; without tokens it answers to localhost and {known}")
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if site == b"cross-site" or (origin is not None and not same_origin(origin, host)):
            raise HTTPException(403, "a web page from elsewhere may not use this site")

    def _is_our_name(self, header: bytes) -> bool:
        """Tell whether a `Host` is one of ours.

        A name can be made to point here; an address in digits cannot. So a site that listens on all addresses of a
        machine answers to each of them.
        """
        try:
            name = urlsplit(f"//{_text(header)}").hostname or ""
        except ValueError:
            return False
        return name in self._names or is_loopback(name) or (not self._is_local and _is_address(name))


def same_origin(origin: bytes, host: bytes | None) -> bool:
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
