"""Settings of Sphinx for the site of the documents; `make docs` builds it.

The source is the repository itself, so that links between documents, and from documents
to source files, are those that work where the repository is browsed. The sidebar is the
list in docs/README.md, so a document that is missing there is a warning.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The tests of the dashboard save pictures there.
SCREENSHOTS = "build/screenshots"

project = "gym_http_server"
html_title = project

extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
include_patterns = [
    "*.md",
    "docs/**.md",
    "clients/**.md",
    "examples/**.md",
    "tests/conformance/README.md",
]
exclude_patterns = ["**/node_modules", "build", ".*"]
# Consoles in documents leave parts out, as "…", which no lexer knows.
suppress_warnings = ["misc.highlighting_failure"]

# The tour has an image as HTML.
myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4

html_theme = "furo"
html_copy_source = False
html_show_copyright = False

_LIST = ROOT / "docs" / "README.md"
_ITEM = re.compile(r"^- (.+?): (.+?)(?=^- |\Z)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\.md\)")


def setup(app: Any) -> None:
    """Connect what changes documents before they are parsed."""
    app.connect("source-read", _complete)


def _complete(app: Any, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += _sidebar(_LIST.read_text(encoding="utf-8"))
    if name == "docs/dashboard":
        source[0] += _pictures()


def _sidebar(documents: str) -> str:
    """Return the tables of contents that make the sidebar."""
    parts = ["\n```{toctree}\n:hidden:\n\nAll documents <docs/README>\n```\n"]
    for caption, links in _ITEM.findall(documents):
        rows = [
            " ".join(f"{title} <{posixpath.normpath(f'docs/{to}')}>".split())
            for title, to in _LINK.findall(links)
        ]
        head = f":hidden:\n:caption: {' '.join(caption.split())}\n"
        parts.append("\n".join(["\n```{toctree}", head, *rows, "```\n"]))
    return "".join(parts)


def _pictures() -> str:
    files = sorted((ROOT / SCREENSHOTS).glob("*.png"))
    if not files:
        return ""
    shown = (
        f"![{each.stem.replace('-', ' ')}](../{SCREENSHOTS}/{each.name})\n"
        for each in files
    )
    return "\n## Pictures\n\n" + "\n".join(shown)
