"""Settings of Sphinx for the site of the documents; `make docs` builds it.

The source is the repository itself, so that links between documents, and from documents
to source files, are those that work where the repository is browsed.
"""

from __future__ import annotations

project = "gym_http_server"
html_title = project

extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/**.md", "clients/**.md", "examples/**.md"]
exclude_patterns = ["**/node_modules", "build", ".*"]

myst_heading_anchors = 4

html_theme = "furo"
html_copy_source = False
html_show_copyright = False
