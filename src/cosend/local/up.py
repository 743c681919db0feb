"""A network on this machine until somebody stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from cosend.local.log import Log
from cosend.local.plan import Plan
from cosend.local.processes import Family
from cosend.local.running import Running

ORDERS: Final = ("SIGINT", "SIGTERM", "SIGHUP")  # to stop; the last one, not known on Windows, is a closed terminal
NO_SITE, AT_ONCE = 1, 130


async def run_plan(plan: Plan, log: Log, beside: Callable[[Running], Awaitable[None]] | None = None) -> int:
    """Run a network until the process is told to stop, and return the exit code; told twice, it ends at once.

    beside  what is to be done meanwhile; the network stops when that is done
    """
    with Family() as family:
        running = Running(plan, family, log)
        orders = 0

        def stop() -> None:
            nonlocal orders
            orders += 1
            if orders == 1:
                log.say("stopping; Ctrl-C again stops it at once")
                running.stop()
            else:
                family.kill()

        log.when_unread(running.stop)
        for order in ORDERS:
            asyncio.get_running_loop().add_signal_handler(getattr(signal, order), stop)
        has_run = await _both(running, beside)
        for name in running.killed if orders < 2 else []:
            log.say(f"{name} took too long to stop, and was killed; what it had answered is on the disk")
    log.say("stopped" if has_run else "no site could be started")
    if orders > 1:
        return AT_ONCE
    return 0 if has_run else NO_SITE


async def _both(running: Running, beside: Callable[[Running], Awaitable[None]] | None) -> bool:
    """Run a network and do something else, until one of them is done."""
    network = asyncio.create_task(running.run())
    if beside is None:
        return await network
    other = asyncio.ensure_future(beside(running))
    await asyncio.wait([network, other], return_when=asyncio.FIRST_COMPLETED)
    running.stop()
    has_run = await network
    if other.cancel():
        await asyncio.wait([other])
    else:
        await other  # it may have failed
    return has_run
