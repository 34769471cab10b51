"""Blame: what an environment raised, as a problem that a client can raise again."""

from __future__ import annotations

import base64
import os
import traceback
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from gym_http_wire.problems import EnvError

__all__ = ["MAX_TRACEBACK_BYTES", "env_error", "shortened", "text_of", "traceback_of"]

#: Bytes of UTF-8 that a traceback may have in an answer; its end is kept.
MAX_TRACEBACK_BYTES = 16 * 1024
_MESSAGE_CHARS = 2000
_MAX_ARGUMENTS = 8192
# Of what could not be encoded or decoded.
_UNICODE_PART = 1000
# Of exceptions in groups.
_MAX_DEPTH = 8
_CUT = "[the beginning was cut]\n"
# Frames of these packages, around the environment's, explain nothing to its author.
_OUR_PACKAGES = (
    "gym_http_client",
    "gym_http_core",
    "gym_http_server",
    "gym_http_wire",
)
_SIMPLE = {bool, float, int, str}


class _Part(NamedTuple):
    """Bytes or text, of which so many at the beginning were left out."""

    data: bytes | str
    offset: int


class _Members(NamedTuple):
    """The exceptions in a group."""

    exceptions: tuple[BaseException, ...]


def env_error(call: str, error: BaseException) -> EnvError:
    """Tell of an exception that an environment raised."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    text = text_of(error)
    return EnvError(
        f"the environment raised {name} in {call}" + (f": {text}" if text else ""),
        extras={
            "arguments": _arguments(error),
            "error_type": name,
            "mro": _lineage(kind),
            "text": text,
            "traceback": traceback_of(error),
        },
    )


def traceback_of(error: BaseException) -> str:
    """Format an exception with its traceback, from the environment's first frame on."""
    try:
        frames = _environments(error.__traceback__)
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:
        # Classes of environments may raise in any of their methods.
        return ""
    return shortened("".join(lines))


def shortened(text: str) -> str:
    """Return the end of a traceback, `MAX_TRACEBACK_BYTES` at most, as valid UTF-8."""
    data = text.encode(errors="backslashreplace")
    if len(data) > MAX_TRACEBACK_BYTES:
        _, _, rest = data[len(_CUT) - MAX_TRACEBACK_BYTES :].partition(b"\n")
        # A single long line has no line break to begin after.
        data = _CUT.encode() + (rest or data[len(_CUT) - MAX_TRACEBACK_BYTES :])
    return data.decode(errors="ignore")


def _environments(frames: TracebackType | None) -> TracebackType | None:
    first = frames
    while first is not None:
        module = str(first.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _OUR_PACKAGES:
            return first
        first = first.tb_next
    return frames


def text_of(error: BaseException) -> str:
    """Give what an exception says, as far as an answer can tell it."""
    try:
        text = str(error)
    except Exception:
        # A slip in how it is told must not hide what it is.
        return ""
    # Names of files may have lone surrogates, which no answer can have.
    return text[:_MESSAGE_CHARS].encode(errors="backslashreplace").decode()


def _arguments(error: BaseException) -> list[Any] | None:
    """Give what an exception was made of, if it is simple and short, as JSON has it.

    Bytes are ``{"bytes": base64, "offset": n}``, and text that need not be Unicode
    ``{"text": base64, "offset": n}``, where n of them before were left out. An
    exception is ``{"error": {"arguments", "mro", "text"}}``.
    """
    try:
        arguments = [_written(each, 1) for each in _made_of(error)]
        told = msgspec.json.encode(arguments)
    except Exception:
        # It is not simple, has a lone surrogate or an integer of thousands of digits,
        # or its class raises.
        return None
    same = msgspec.json.decode(told) == arguments
    large = isinstance(error, UnicodeError | BaseExceptionGroup)
    most = _MAX_ARGUMENTS if large else _MESSAGE_CHARS
    # The text alone is in the answer already.
    if not same or len(told) > most or arguments == [text_of(error)]:
        return None
    return arguments


def _made_of(error: BaseException) -> list[Any]:
    """Give the arguments to make an exception again with all that it says."""
    match error:
        case UnicodeDecodeError() | UnicodeEncodeError():
            part, offset = error.object, 0
            if len(part) > _UNICODE_PART:
                # It is a whole file, of which the message shows a part.
                offset = error.start
                part = part[offset : min(error.end, offset + _UNICODE_PART)]
            told = _Part(part, offset)
            return [error.encoding, told, error.start, error.end, error.reason]
        case OSError() if error.filename is not None and len(error.args) == 2:
            # These are not among its arguments.
            names = [error.filename]
            if error.filename2 is not None:
                names += [None, error.filename2]
            paths = [
                os.fspath(each) if isinstance(each, os.PathLike) else each
                for each in names
            ]
            return [*error.args, *paths]
        case BaseExceptionGroup():
            return [error.message, _Members(error.exceptions)]
    return list(error.args)


def _written(value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in _SIMPLE:
        return value
    if kind is bytes:
        value = _Part(value, 0)
    if isinstance(value, _Part):
        name, data = "bytes", value.data
        if isinstance(data, str):
            name, data = "text", data.encode("utf-8", "surrogatepass")
        return {name: base64.b64encode(data).decode(), "offset": value.offset}
    if isinstance(value, _Members):
        return [_written(each, depth + 1) for each in value.exceptions]
    if isinstance(value, Exception) and depth <= _MAX_DEPTH:
        try:
            arguments = [_written(each, depth + 1) for each in _made_of(value)]
        except Exception:
            arguments = None
        told = {"arguments": arguments, "mro": _lineage(kind), "text": text_of(value)}
        return {"error": told}
    raise TypeError("is not simple")


def _lineage(kind: type[BaseException]) -> list[str]:
    """Name an exception's classes, so that a client can raise the nearest it has."""
    return [f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__[:-1]]
