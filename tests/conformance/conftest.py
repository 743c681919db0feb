"""Services that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.drivers import PeerServices
from tests.tools.processes import NO_BROKER, Services, broker, broker_program


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    started = Services()
    yield started
    started.close()


@pytest.fixture(scope="session")
def peer_services(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerServices]:
    if broker_program() is None:
        pytest.skip(NO_BROKER)
    folder: Path = tmp_path_factory.mktemp("peers")
    with broker() as url:
        peers = PeerServices(services, folder, url)
        yield peers
        peers.close()
