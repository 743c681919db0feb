"""Who may do what: bearer tokens with scopes.

    classify    POST /v1/classify
    label       POST /v1/labels
    read        everything that only looks
    admin       arms and mode, and all of the above

A file has a token and its scopes on every line, a variable of the environment the same with `;` between them:

    4f1c6a...   classify,label
    93be02...   admin

Without any token, everybody may do everything: for addresses that only this machine can reach.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from cosend.errors import SettingError, in_one_line, listed
from cosend.service.problems import Refused

Scope = Literal["classify", "label", "read", "admin"]
SCOPES: Final = get_args(Scope)
VARIABLE: Final = "COSEND_TOKENS"
SHORTEST: Final = 16  # characters: less could be guessed


class Tokens:
    """The tokens that are known, and what each may do."""

    def __init__(self, scopes: Mapping[str, frozenset[str]]) -> None:
        self._scopes = [(token.encode(), allowed) for token, allowed in scopes.items()]

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def check(self, header: str | None, scope: Scope) -> None:
        """Raise unless a request with this header may do this."""
        if not self._scopes:
            return
        kind, _, token = (header or "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Refused(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})
        allowed: frozenset[str] | None = None
        for known, scopes in self._scopes:  # all of them, so that the time does not tell how near a guess was
            if hmac.compare_digest(known, token.strip().encode(errors="replace")):
                allowed = scopes
        if allowed is None:
            raise Refused(401, "this token is not known", {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if scope not in allowed and "admin" not in allowed:
            raise Refused(403, f"this token lacks the scope {scope}; it has {', '.join(sorted(allowed))}")


def read_tokens(file: Path | None, environment: Mapping[str, str]) -> Tokens:
    """Return the tokens of a file, or of the environment if there is no file."""
    if file is not None:
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
    return Tokens(_parsed(environment.get(VARIABLE, "").split(";"), f"the variable {VARIABLE}"))


def _parsed(lines: list[str], where: str) -> dict[str, frozenset[str]]:
    tokens: dict[str, frozenset[str]] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        scopes = frozenset(scope for scope in ",".join(words[1:]).split(",") if scope)
        place = f"line {number} of {where}"
        if len(words[0]) < SHORTEST or not words[0].isascii():
            raise SettingError(f"the token in {place}", "a shorter one", f"at least {SHORTEST} ASCII characters")
        if not scopes or not scopes <= set(SCOPES):
            raise SettingError(f"the scopes in {place}", sorted(scopes), f"some of {listed(SCOPES)}")
        if words[0] in tokens:
            raise SettingError(f"the token in {place}", "one that is there twice", "different from the others")
        tokens[words[0]] = scopes
    return tokens
