"""Check built pages: no link leads nowhere, nothing comes from another host, and search has its index."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one tag."""
        found = {name: value for name, value in attrs if value is not None}
        self.ids.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if LOADED.get(tag) in found:
            self.loaded.append(found[LOADED[tag]])


def mistakes(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the pages of a folder."""
    files = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]  # templates of the theme
    pages = {path.resolve(): Page(path) for path in files}
    for page in pages.values():
        name = page.path.relative_to(folder)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name} loads {address}, which is not here"
        for address in page.links + page.loaded:
            if not urlsplit(address).scheme and not urlsplit(address).netloc and leads_nowhere(page, address, pages):
                yield f"{name} links to {address}, which is not there"
    for style in folder.rglob("*.css"):
        if "url(http" in style.read_text() or "url(//" in style.read_text():
            yield f"{style.relative_to(folder)} loads something from another host"
    if not (folder / "searchindex.js").is_file():
        yield "there is no index to search in"


def leads_nowhere(page: Page, address: str, pages: dict[Path, Page]) -> bool:
    """Tell whether an address within these pages leads to nothing."""
    path, place = urldefrag(address.partition("?")[0] if "#" not in address else address)
    target = (page.path.parent / unquote(path)).resolve() if path else page.path.resolve()
    if not target.exists():
        return True
    return bool(place) and target in pages and unquote(place) not in pages[target].ids


if __name__ == "__main__":
    found = list(mistakes(Path(sys.argv[1])))
    print("\n".join(found) or f"{sys.argv[1]}/index.html")
    sys.exit(bool(found))
