"""CITATION.cff can be read, has what CFF 1.2.0 requires, and names the version of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosend.version import VERSION

FILE = Path(__file__).parents[1] / "CITATION.cff"
KEYS = {
    "cff-version",
    "message",
    "type",
    "title",
    "abstract",
    "version",
    "license",
    "authors",
    "keywords",
    "references",
}


@pytest.fixture(name="citation")
def read() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="no PyYAML to read the citation with")
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def test_the_citation_has_what_the_format_requires(citation: dict[str, Any]) -> None:
    assert citation.keys() == KEYS
    assert (citation["cff-version"], citation["type"], citation["license"]) == ("1.2.0", "software", "Apache-2.0")
    assert all(author.keys() <= {"name", "family-names", "given-names"} for author in citation["authors"])
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= reference.keys()


def test_the_citation_names_the_version_of_the_package_and_the_paper(citation: dict[str, Any]) -> None:
    assert citation["version"] == VERSION
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Tekin", "van der Schaar"]
    assert paper["identifiers"][0]["value"] == "arXiv:1307.0781"
