"""The files of the pages, read once from the package."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import NamedTuple

__all__ = ["INDEX", "PageFile", "page_files"]

#: Name of the page that `GET /` returns.
INDEX = "index.html"
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """A file that browsers load.

    Attributes:
        content: Its bytes.
        media_type: Its Content-Type.
        etag: Its ETag, which changes with the bytes.
    """

    content: bytes
    media_type: str
    etag: str


@functools.cache
def page_files() -> dict[str, PageFile]:
    """Return all files by name: no name of a request is looked up on disk."""
    folder = importlib.resources.files("gym_http_server.dashboard") / "static"
    return {name: _read(name, file) for name, file in _files(folder, "")}


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _files(each, f"{path}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:
            yield path + each.name, each


def _read(name: str, file: Traversable) -> PageFile:
    content = file.read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return PageFile(content, _TYPES[name.rpartition(".")[2]], etag)
