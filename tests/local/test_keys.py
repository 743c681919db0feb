"""Keys of a terminal are heard as they are pressed, and the terminal is left as it was."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path

import pytest

from cosend.local.keys import listening

SCRIPT = """
import asyncio, sys
from cosend.local.keys import listening

async def main():
    heard, done = [], asyncio.Event()
    def pressed(key):
        heard.append(key)
        if key == "q":
            done.set()
    with listening(pressed) as has_keys:
        print("listening", has_keys, flush=True)
        await done.wait()
    print("heard", "".join(heard), flush=True)

asyncio.run(main())
"""


def test_keys_are_heard_without_a_line_end() -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", SCRIPT])  # noqa: S606 - our own
    said = b""
    try:
        while b"listening True" not in said:
            said += os.read(terminal, 1_000)
        os.write(terminal, b"1dq")
        while b"heard 1dq" not in said:
            said += os.read(terminal, 1_000)
        assert os.waitpid(child, 0)[1] == 0  # before the terminal is gone, which would end it
    finally:
        os.close(terminal)


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def work() -> None:
        with listening(lambda _: None) as has_keys:
            assert not has_keys

    (tmp_path / "input").write_text("1")
    with (tmp_path / "input").open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        asyncio.run(work())
