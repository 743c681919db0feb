"""How the page and its figures look, on light and dark screens.

A site has one colour in all figures, and its models are shades of it. The colours follow Okabe and Ito, so that
colour-blind people can tell them apart; on dark screens they are lighter. Names always stand beside them.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

COLOURS: Final = 8  # c0 to c7 of colours.css


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


VARIABLES: Final = _read("colours.css")
FIGURE: Final = _read("figure.css")
PAGE: Final = _read("page.css")
