"""Services that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.processes import Services


@pytest.fixture(scope="package")
def services() -> Iterator[Services]:
    started = Services()
    yield started
    started.close()
