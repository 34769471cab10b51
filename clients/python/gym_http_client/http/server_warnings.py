"""Shows a server's warnings as Python shows those of a local environment."""

from __future__ import annotations

import builtins
import json
import sys
import warnings
from types import FrameType
from typing import Any

__all__ = ["HEADER", "show", "show_header"]

HEADER = "Gym-Warnings"
_PACKAGES = ("gym_http_client", "gym_http_core", "gym_http_wire")


def show_header(text: str | None) -> None:
    """Show the warnings in an answer's header.

    Args:
        text: The value of the header ``Gym-Warnings``, or None.
    """
    if not text:
        return
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    show(found)


def show(warned: Any) -> None:
    """Show warnings at the line that called this package.

    Args:
        warned: A list of objects with ``category``, ``message`` and maybe ``module``,
            which warning filters compare.
    """
    for each in warned if isinstance(warned, list | tuple) else ():
        if not isinstance(each, dict) or not isinstance(each.get("message"), str):
            continue
        caller = _caller()
        warnings.warn_explicit(
            each["message"],
            _category(each.get("category")),
            caller.f_code.co_filename,
            caller.f_lineno,
            module=str(each.get("module") or caller.f_globals.get("__name__", "")),
            registry=caller.f_globals.setdefault("__warningregistry__", {}),
        )


def _category(name: object) -> type[Warning]:
    found = getattr(builtins, str(name), None)
    if isinstance(found, type) and issubclass(found, Warning):
        return found
    return UserWarning


def _caller() -> FrameType:
    """Return the frame that called this package."""
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _PACKAGES:
            break
        frame = frame.f_back
    return frame
