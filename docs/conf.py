"""How Sphinx makes the documentation: `make docs`."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_tools"))

from generate import generate  # noqa: E402 - found through the line above

from cosend import __version__  # noqa: E402

generate(HERE / "reference" / "generated")

project, author, copyright = "cosend", "the cosend authors", "the cosend authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_tools", "_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.strikethrough"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}

html_theme = "pydata_sphinx_theme"
html_title = "cosend"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": [],
    "footer_end": [],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "logo": {"text": "cosend"},
}

SECTIONS = ["start", "guides", "operate", "reference", "benchmarks", "research", "contributing"]
INDEXES = {f"{section}/index" for section in SECTIONS}
LINK = re.compile(r"\]\(([\w/.-]+)\.md\)")


def in_order(app, name, source):
    """Let the links in the lists of an index page, which readers of the source see too, be its table of contents."""
    if name in INDEXES:
        lists = "\n".join(line for line in source[0].splitlines() if line.startswith(("- ", "|")))
        pages = "\n".join(dict.fromkeys(LINK.findall(lists)))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


OPTION = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*)$")
SINGLE = re.compile(r"(?<![`:\w])`([^`\n]+)`(?!`)")


def readable(app, what, name, obj, options, lines):
    """Turn docstrings as this project writes them into what Sphinx reads: `code`, and lists of options."""
    written, in_options = [], False
    for line in lines:
        option = OPTION.match(line)
        if option:
            written += [f"``{option[1]}``"] if in_options else ["", f"``{option[1]}``"]
            line = f"    {option[2]}"
        elif in_options and line.startswith("  "):
            line = f"    {line.strip()}"
        elif in_options and line:
            written.append("")
        in_options = bool(option) or (in_options and line.startswith("  "))
        is_code = line.lstrip().startswith((">>>", "..."))
        written.append(line if is_code else SINGLE.sub(r"``\1``", line.replace("|", r"\|")))
    lines[:] = written


def setup(app):
    """Tell Sphinx."""
    app.connect("source-read", in_order)
    app.connect("autodoc-process-docstring", readable)
