"""What is written on a drawing."""

from __future__ import annotations

from xml.etree import ElementTree

from cosend.charts.figures import Drawing


def texts(drawing: Drawing) -> list[str]:
    """Return the words on a drawing, as an XML parser reads its file."""
    root = ElementTree.fromstring(drawing.standalone())  # noqa: S314 - our own
    return [each.text or "" for each in root.iter() if each.tag.endswith("text")]
