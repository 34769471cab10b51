"""Settings of Sphinx for the site of the documents; `make docs` builds it.

The source is the repository itself, so that links between documents, and from documents
to source files, are those that work where the repository is browsed. The sidebar is the
list in docs/README.md, so a document that is missing there is a warning.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import operations  # noqa: E402

project = "gym_http_server"
html_title = project

extensions = ["myst_parser"]
root_doc = "docs/site/index"
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
html_static_path = ["static"]
html_css_files = ["site.css"]
# The first address of the site leads to its first page.
html_extra_path = ["first"]
html_copy_source = False
html_show_copyright = False

_LIST = ROOT / "docs" / "README.md"
_OPENAPI = ROOT / "gym_http_server" / "web" / "api" / "openapi.json"
_ITEM = re.compile(r"^- (.+?): (.+?)(?=^- |\Z)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\.md\)")


def setup(app: Any) -> None:
    """Connect what changes documents before they are parsed."""
    app.connect("source-read", _complete)


def _complete(app: Any, name: str, source: list[str]) -> None:
    """Add what is made of other files, of which a page is made anew if they change."""
    if name == root_doc:
        app.env.note_dependency(str(_LIST), docname=name)
        source[0] += _sidebar(_LIST.read_text(encoding="utf-8"))
    if name == "docs/operations":
        app.env.note_dependency(str(_OPENAPI), docname=name)
        app.env.note_dependency(operations.__file__, docname=name)
        openapi = json.loads(_OPENAPI.read_text(encoding="utf-8"))
        source[0] += operations.page(openapi)


def _sidebar(documents: str) -> str:
    """Return the tables of contents that make the sidebar."""
    first = "Overview </README>\nAll documents </docs/README>"
    parts = [f"\n```{{toctree}}\n:hidden:\n\n{first}\n```\n"]
    for caption, links in _ITEM.findall(documents):
        rows = [
            " ".join(f"{title} </{posixpath.normpath(f'docs/{to}')}>".split())
            for title, to in _LINK.findall(links)
        ]
        head = f":hidden:\n:caption: {' '.join(caption.split())}\n"
        parts.append("\n".join(["\n```{toctree}", head, *rows, "```\n"]))
    return "".join(parts)
