"""What a shell offers when a user presses the tab key, and names as users type them.

Typer hands over what was typed so far under the name `incomplete`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from cosend.config.scenario import BUILT_IN


def names_like(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function from the beginning of a name to all names that begin so, whatever the case of the letters."""
    known = list(names)
    return lambda incomplete: [name for name in known if name.lower().startswith(incomplete.lower())]


def scenarios_like(incomplete: str) -> list[str]:
    """Return the built-in scenarios, the folders and the network files whose names begin so."""
    place = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    found = [path for path in sorted(place.glob("*")) if path.suffix == ".toml" or path.is_dir()]
    offered = [f"{path}/" if path.is_dir() else str(path) for path in found]
    return [name for name in (*BUILT_IN, *offered) if name.startswith(incomplete)]


def in_their_case(given: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return names as they are written, for names in any case; what is unknown stays as it is, to be refused."""
    written = {name.lower(): name for name in known}
    return tuple(written.get(name.lower(), name) for name in given)
