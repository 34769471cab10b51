"""Blame: what an environment raised, as a problem that a client can raise again."""

from __future__ import annotations

from typing import Any

import msgspec

from gym_http_wire.problems import EnvError

__all__ = ["env_error", "said"]

_MESSAGE_CHARS = 2000
_SIMPLE = {bool, float, int, str}


def env_error(call: str, error: BaseException) -> EnvError:
    """Tell of an exception that an environment raised."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    text = said(error)
    return EnvError(
        f"the environment raised {name} in {call}" + (f": {text}" if text else ""),
        extras={
            "arguments": _arguments(error),
            "error_type": name,
            "mro": _lineage(kind),
            "text": text,
        },
    )


def said(error: BaseException) -> str:
    """Give what an exception says, as far as an answer can tell it."""
    try:
        text = str(error)
    except Exception:
        # A slip in how it is told must not hide what it is.
        return ""
    # Names of files may have lone surrogates, which no answer can have.
    return text[:_MESSAGE_CHARS].encode(errors="backslashreplace").decode()


def _arguments(error: BaseException) -> list[Any] | None:
    """Give what an exception was made of, if it is simple and short."""
    arguments = list(error.args)
    if not all(each is None or type(each) in _SIMPLE for each in arguments):
        return None
    try:
        told = msgspec.json.encode(arguments)
    except ValueError:
        # A lone surrogate, or an integer of thousands of digits.
        return None
    same = msgspec.json.decode(told) == arguments
    return arguments if same and len(told) <= _MESSAGE_CHARS else None


def _lineage(kind: type[BaseException]) -> list[str]:
    """Name an exception's classes, so that a client can raise the nearest it has."""
    return [f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__[:-1]]
