"""Routes of the pages, and the headers that bind what pages may do."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import re
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import NamedTuple

from gym_http_server.config.settings import Settings
from gym_http_server.errors import NotFound
from gym_http_server.web.api.exchange import Answer, Environ, read_body
from gym_http_server.web.api.page_requests import wants_page
from gym_http_server.web.api.service import about
from gym_http_server.web.api.web import View, Web

__all__ = ["HEADERS", "views"]

#: Name of the page that ``GET /`` returns.
_INDEX = "index.html"
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: "
    "data:; media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_OTHER_HEADERS = [
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    # With the ETag, a new version of the server is used at once.
    ("Cache-Control", "no-cache"),
]
#: Headers of every file of the dashboard.
HEADERS = [("Content-Security-Policy", _POLICY), *_OTHER_HEADERS]
# Swagger UI writes HTML, which it has cleaned, from strings.
_DOCS_POLICY = _POLICY.replace("; require-trusted-types-for 'script'", "")
_DOCS_HEADERS = [("Content-Security-Policy", _DOCS_POLICY), *_OTHER_HEADERS]
#: What says nothing in a style sheet: breaks of lines, spaces, and last semicolons.
_IDLE_IN_CSS = re.compile(rb"(?<=[{};,])\n|(?<=[:,]) | (?=\{)|;\n?(?=\})")
#: Page of the API, and the files that it takes from the package of Swagger UI.
_DOCS = "docs.html"
_SWAGGER_FILES = ("swagger-ui.css", "swagger-ui-bundle.js")


class _PageFile(NamedTuple):
    """A file that browsers load.

    Attributes:
        content: Its bytes.
        media_type: Its Content-Type.
        etag: Its ETag, which changes with the bytes.
    """

    content: bytes
    media_type: str
    etag: str


def views(settings: Settings) -> dict[str, View]:
    """Return the views of the page at ``/`` and its files."""
    if settings.no_dashboard:
        return {"start": _start}
    return {
        "start": _start,
        "dashboard_file": _file,
        "docs": _docs,
        "docs_file": _docs_file,
    }


def _start(web: Web, environ: Environ) -> Answer:
    if web.settings.no_dashboard or not wants_page(environ):
        answer = about(web, environ)
        return answer._replace(headers=[*answer.headers, ("Vary", "Accept")])
    answer = _file(web, environ, _INDEX)
    return answer._replace(headers=[*answer.headers, ("Vary", "Accept")])


def _file(web: Web, environ: Environ, name: str) -> Answer:
    read_body(environ, web.settings.max_body)
    file = _page_files().get(name)
    if file is None:
        raise NotFound(f"the dashboard has no file {name!r:.80}; it begins at /")
    return _sent(file, environ, HEADERS)


def _docs(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    return _sent(_page_files()[_DOCS], environ, _DOCS_HEADERS)


def _docs_file(web: Web, environ: Environ, name: str) -> Answer:
    read_body(environ, web.settings.max_body)
    if name not in _SWAGGER_FILES:
        raise NotFound(f"the page of the API has no file {name!r:.80}; it is at /docs/")
    return _sent(_swagger_file(name), environ, _DOCS_HEADERS)


def _sent(file: _PageFile, environ: Environ, bound: list[tuple[str, str]]) -> Answer:
    known = environ.get("HTTP_IF_NONE_MATCH", "")
    headers = [("ETag", file.etag), *bound]
    if file.etag in known:
        return Answer(304, headers, b"")
    return Answer(200, [("Content-Type", file.media_type), *headers], file.content)


@functools.cache
def _page_files() -> dict[str, _PageFile]:
    """Return all files by name: no name of a request is looked up on disk."""
    folder = importlib.resources.files("gym_http_server.web.dashboard") / "static"
    return {name: _read(name, file) for name, file in _files(folder, "")}


@functools.cache
def _swagger_file(name: str) -> _PageFile:
    """Read a file of Swagger UI when a browser first requests it, as it is large."""
    return _read(name, importlib.resources.files("flask_swagger_ui") / "dist" / name)


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _files(each, f"{path}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:
            yield path + each.name, each


def _read(name: str, file: Traversable) -> _PageFile:
    content = file.read_bytes()
    ending = name.rpartition(".")[2]
    if ending in ("css", "js") and name not in _SWAGGER_FILES:
        content = _without_comments(content)
        if ending == "css":
            content = _IDLE_IN_CSS.sub(b"", content)
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _PageFile(content, _TYPES[ending], etag)


def _without_comments(content: bytes) -> bytes:
    """Drop indentation, and comments that have lines to themselves."""
    kept, is_comment = [], False
    for line in map(bytes.strip, content.splitlines()):
        if not is_comment and not line.startswith((b"/*", b"//")):
            kept.append(line)
        is_comment = (is_comment or line.startswith(b"/*")) and b"*/" not in line
    return b"\n".join(filter(None, kept)) + b"\n"
