"""A service to call without a network, and one on a port of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn

from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.service.app import build_app
from cosend.service.server import Address, config_of
from cosend.service.tokens import Tokens
from tests.node.sites import running

NOBODY = Tokens({})


@asynccontextmanager
async def called(
    setup: Setup, folder: Path, tokens: Tokens = NOBODY, **headers: str
) -> AsyncIterator[tuple[httpx.AsyncClient, Node]]:
    """Give a client of the service of a site, without a network between them, and the site."""
    async with running(setup, folder) as node:
        transport = httpx.ASGITransport(app=build_app(node, tokens), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            yield client, node


@asynccontextmanager
async def listening(setup: Setup, folder: Path, tokens: Tokens = NOBODY) -> AsyncIterator[int]:
    """Serve a site as a process would, and give the port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**15)  # what the system keeps of a reply
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            config_of(build_app(Node(setup, folder), tokens), Address(port=listener.getsockname()[1]))
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving
