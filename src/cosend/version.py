"""The version of this software, which logs and saved states name."""

from typing import Final

VERSION: Final = "0.1.0"
