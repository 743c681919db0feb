"""`pytest tests/fence --record` writes the recordings again, from what cosend does now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fence.recordings import Recordings
from tests.tools.processes import Services


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the recordings of tests/fence again")


@pytest.fixture
def recordings(request: pytest.FixtureRequest) -> Recordings:
    return Recordings(writes=bool(request.config.getoption("--record", default=False)))


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    started = Services()
    yield started
    started.close()
