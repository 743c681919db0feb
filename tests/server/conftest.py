"""Tests here may be coroutines; each runs in an event loop of its own, with a limit."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.node.sites import LONGEST_S


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), LONGEST_S))
    return True
