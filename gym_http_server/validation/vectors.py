"""The cases that every client is checked with, those that a server can be sent."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any

__all__ = ["cases"]

#: The same files as in tests/conformance/vectors, packed along.
FOLDER = "cases"


@functools.cache
def cases(kind: str) -> list[dict[str, Any]]:
    """Read the cases of one file.

    Args:
        kind: The file's name without the suffix, like ``values``.
    """
    package = importlib.resources.files("gym_http_server.validation")
    text = package.joinpath(FOLDER, f"{kind}.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["cases"]
    return found
