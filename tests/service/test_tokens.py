"""Tokens: where they come from, and what is refused before a service with a wrong file starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosend.errors import SettingError
from cosend.service.problems import Refused
from cosend.service.tokens import SCOPES, VARIABLE, Scope, Tokens, read_tokens

ONE, TWO = "one-" + "x" * 16, "two-" + "x" * 16


def allowed(tokens: Tokens, token: str) -> set[str]:
    """Return the scopes that a token has."""
    found: set[str] = set()
    scope: Scope
    for scope in SCOPES:
        try:
            tokens.check(f"Bearer {token}", scope)
            found.add(scope)
        except Refused as refused:
            if refused.status != 403:
                raise
    return found


def test_without_tokens_everybody_may_do_everything() -> None:
    tokens = read_tokens(None, {})
    assert not tokens
    tokens.check(None, "admin")


def test_a_file_with_comments_and_several_scopes(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# ours\n\n{ONE}   classify, label  # the gate\n{TWO}\tadmin\r\n")
    tokens = read_tokens(file, {VARIABLE: f"{'y' * 20} read"})  # the file wins
    assert allowed(tokens, ONE) == {"classify", "label"}
    assert allowed(tokens, TWO) == set(SCOPES)
    with pytest.raises(Refused, match="not known"):
        tokens.check("Bearer " + "y" * 20, "read")


def test_the_environment() -> None:
    tokens = read_tokens(None, {VARIABLE: f"{ONE} read; {TWO} classify;"})
    assert allowed(tokens, ONE) == {"read"}
    assert allowed(tokens, TWO) == {"classify"}


def test_the_word_bearer_may_be_written_in_any_case() -> None:
    tokens = Tokens({ONE: frozenset(["read"])})
    for header in (f"bearer {ONE}", f"BEARER {ONE}", f"Bearer  {ONE} "):
        tokens.check(header, "read")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "short read\n",
        f"{ONE}\n",
        f"{ONE} write\n",
        f"{ONE} read,write\n",
        f"{ONE} read\n{ONE} admin\n",
        "é" * 20 + " read\n",
    ],
)
def test_what_is_wrong_with_a_file_is_told_without_its_tokens(text: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError) as caught:
        read_tokens(file, {})
    assert str(file) in str(caught.value)
    assert ONE not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for file in (tmp_path / "missing", tmp_path, tmp_path / "binary"):
        with pytest.raises(SettingError, match="a file that can be read"):
            read_tokens(file, {})
