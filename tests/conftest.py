"""What all tests share: a compiler cache that follows the sources, and how hard Hypothesis tries."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]

# Numba does not notice a change in another file, so every state of the sources gets a cache of its own.
_sources = b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py")))
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba" / f"tests-{zlib.crc32(_sources)}"))

_common = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize="CI" in os.environ)
settings.register_profile("default", _common, max_examples=100)
settings.register_profile("coverage", _common, max_examples=25, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
