"""Single keys of a terminal, as they are pressed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def listening(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Tell a function every key for as long as the block takes; gives whether there is a keyboard at all.

    Ctrl-C stays what it is. Whoever runs in the background is stopped if they touch the terminal, and is left alone.
    """
    if not _is_in_front():
        yield False
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(keyboard, 100)
        if not data:  # the terminal is gone
            loop.remove_reader(keyboard)
        for key in data.decode(errors="ignore"):
            pressed(key)

    tty.setcbreak(keyboard, termios.TCSANOW)
    loop.add_reader(keyboard, read)
    try:
        yield True
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


def _is_in_front() -> bool:
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # closed, or no terminal that knows of such things
        return False
