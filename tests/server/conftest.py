"""Services here are forked from one process, as those of the fence."""

from tests.fence.conftest import services

__all__ = ["services"]
