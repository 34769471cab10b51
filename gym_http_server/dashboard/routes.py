"""Routes of the pages, and the headers that bind what pages may do."""

from __future__ import annotations

import functools

import flask

from gym_http_server.access import ANY
from gym_http_server.api.exchange import Answer, Environ, read_body
from gym_http_server.api.page_requests import wants_page
from gym_http_server.api.service import about
from gym_http_server.api.web import Web, add_route
from gym_http_server.dashboard.files import INDEX, PageFile, page_files
from gym_http_server.errors import NotFound

__all__ = ["HEADERS", "add_routes"]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: "
    "data:; media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
#: Headers of every file of the pages.
HEADERS = [
    ("Content-Security-Policy", _POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    # With the ETag, a new version of the server is used at once.
    ("Cache-Control", "no-cache"),
]


def add_routes(app: flask.Flask, web: Web) -> None:
    """Add the routes: the page at ``/``, and its files."""
    add_route(app, web, "GET", "/", functools.partial(_start, web), scopes=ANY)
    if web.settings.no_dashboard:
        return
    rule = "/dashboard/<path:name>/"
    add_route(app, web, "GET", rule, functools.partial(_file, web), scopes=ANY)


def _start(web: Web, environ: Environ) -> Answer:
    if web.settings.no_dashboard or not wants_page(environ):
        answer = about(web, environ)
        return answer._replace(headers=[*answer.headers, ("Vary", "Accept")])
    answer = _file(web, environ, INDEX)
    return answer._replace(headers=[*answer.headers, ("Vary", "Accept")])


def _file(web: Web, environ: Environ, name: str) -> Answer:
    read_body(environ, web.settings.max_body)
    file = page_files().get(name)
    if file is None:
        raise NotFound(f"the dashboard has no file {name!r:.80}; it begins at /")
    return _sent(file, environ.get("HTTP_IF_NONE_MATCH", ""))


def _sent(file: PageFile, known: str) -> Answer:
    headers = [("ETag", file.etag), *HEADERS]
    if file.etag in known:
        return Answer(304, headers, b"")
    return Answer(200, [("Content-Type", file.media_type), *headers], file.content)
