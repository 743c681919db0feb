"""Models of four sites: each is made for some ages, and is not much good for the others."""

from __future__ import annotations

from typing import Any


def young(visit: dict[str, Any]) -> str:
    """Tell who is ill among the young."""
    return "ill" if visit["pressure"] > 120 else "well"


def adults(visit: dict[str, Any]) -> str:
    """Tell who is ill among the grown up."""
    return "ill" if visit["pressure"] > 135 else "well"


def old(visit: dict[str, Any]) -> str:
    """Tell who is ill among the old."""
    return "ill" if visit["pressure"] > 150 else "well"


def strict(visit: dict[str, Any]) -> str:
    """Call many ill."""
    return "ill" if visit["pressure"] > 110 else "well"


def mild(visit: dict[str, Any]) -> str:
    """Call few ill."""
    return "ill" if visit["pressure"] > 165 else "well"
