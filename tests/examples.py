"""How many examples of a property are tried: some in `make test`, and more of them in `make claims`."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

MORE: Final = int(os.environ.get("COSEND_MORE_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """Try so many examples, or more of them if that is wanted."""
    return settings(max_examples=count * MORE)
