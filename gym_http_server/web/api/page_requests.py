"""Requests of browsers: which get a page, and which a login box would disturb."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["CLIENT_FILE", "is_of_script", "is_page", "wants_page"]

Environ = dict[str, Any]

#: The client that pages import: no import shows a token, and it is no secret.
CLIENT_FILE = re.compile(r"/v1/external/client/[A-Za-z0-9_/]+\.js/?").fullmatch
_PAGE_FILE = re.compile(
    r"/dashboard/[A-Za-z0-9_/]+\.[a-z]{2,4}/?|/docs/?|/docs/[a-z-]+\.[a-z]{2,4}/?"
).fullmatch


def wants_page(environ: Environ) -> bool:
    """Whether a client prefers a page for people, as browsers do."""
    for each in environ.get("HTTP_ACCEPT", "").split(","):
        kind = each.partition(";")[0].strip().lower()
        if kind in ("text/html", "application/json", "*/*"):
            return bool(kind == "text/html")
    return False


def is_page(environ: Environ) -> bool:
    """Whether a request is for a page, which needs no token to be shown."""
    path = environ["PATH_INFO"]
    if path == "/":
        return wants_page(environ)
    return bool(CLIENT_FILE(path) or _PAGE_FILE(path))


def is_of_script(environ: Environ) -> bool:
    """Whether a script of a page asks, for which a login box must not open."""
    mode: str = environ.get("HTTP_SEC_FETCH_MODE", "navigate")
    return mode != "navigate"
