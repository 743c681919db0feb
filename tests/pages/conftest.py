"""Tests here may be coroutines, as those of the service."""

from tests.server.conftest import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
