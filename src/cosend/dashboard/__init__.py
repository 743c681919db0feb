"""What an operator looks at: one site and its network, live in a browser."""

from importlib.util import find_spec


def is_installed() -> bool:
    """Tell whether there is what pages need: the extra `dashboard`. Nothing of it is loaded by this."""
    return find_spec("nicegui") is not None
