"""Exceptions of environments, as problems from which a client raises them again."""

from __future__ import annotations

import base64
import os
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

from gym_http_wire.problems import EnvError, Problem

__all__ = [
    "MAX_TRACEBACK_BYTES",
    "env_call",
    "env_error",
    "env_exceptions",
    "expect_interrupts",
    "shortened",
    "text_of",
    "traceback_of",
]

#: Bytes of UTF-8 that a traceback may have in an answer; its end is kept.
MAX_TRACEBACK_BYTES = 16 * 1024
_MESSAGE_CHARS = 2000
_MAX_ARGUMENTS = 8192
# Of text or bytes that could not be encoded or decoded.
_UNICODE_EXCERPT = 1000
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


_exceptions: list[type[BaseException]] = [Exception, SystemExit]


class _Excerpt(NamedTuple):
    """An excerpt of bytes or text, and how many bytes or characters precede it."""

    data: bytes | str
    offset: int


class _Members(NamedTuple):
    """The exceptions in a group."""

    exceptions: tuple[BaseException, ...]


def env_exceptions() -> tuple[type[BaseException], ...]:
    """Return the classes of exceptions that count as those of an environment."""
    return tuple(_exceptions)


def expect_interrupts() -> None:
    """Count KeyboardInterrupt as an exception of the environment in this process.

    For processes without a terminal. In all others, the user has pressed Ctrl-C.
    """
    _exceptions.append(KeyboardInterrupt)


def env_call(call: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of an environment; what it raises becomes a `Problem`.

    Args:
        call: Name of the call, for the message.
        function: The function.
        args: Its arguments.
        kwargs: The same.

    Raises:
        Problem: The function raised this itself, as environments in other processes
            do.
        EnvError: It raised another exception.
    """
    try:
        return function(*args, **kwargs)
    except Problem:
        raise
    except env_exceptions() as error:
        failed = env_error(call, error)
        if isinstance(error, AttributeError) and _misses(text_of(error), [call, args]):
            # `hasattr` looks it up, so the log has no need of a traceback.
            del failed.extras["traceback"]
            raise failed from None
        raise failed from error


def _misses(text: str, given: Any) -> bool:
    """Whether an error is about the absence of a name that a call was given.

    Args:
        text: The error's text.
        given: A name, or a list or tuple with names, at any depth.
    """
    if isinstance(given, str):
        return f"has no attribute {given!r}" in text
    return isinstance(given, list | tuple) and any(_misses(text, one) for one in given)


def env_error(call: str, error: BaseException) -> EnvError:
    """Describe an exception that an environment raised in a call."""
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
        frames = _skip_our_frames(error.__traceback__)
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


def _skip_our_frames(frames: TracebackType | None) -> TracebackType | None:
    first = frames
    while first is not None:
        module = str(first.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _OUR_PACKAGES:
            return first
        first = first.tb_next
    return frames


def text_of(error: BaseException) -> str:
    """Return the message of an exception, shortened, as valid Unicode."""
    try:
        text = str(error)
    except Exception:
        # A mistake in its __str__ must not hide the exception.
        return ""
    # Names of files may have lone surrogates, which JSON does not have.
    return text[:_MESSAGE_CHARS].encode(errors="backslashreplace").decode()


def _arguments(error: BaseException) -> list[Any] | None:
    """Return the arguments of an exception as JSON, if they are simple and short.

    Bytes are ``{"bytes": base64, "offset": n}``, and text that need not be Unicode
    ``{"text": base64, "offset": n}``; the n bytes or characters before are left out. An
    exception is ``{"error": {"arguments", "mro", "text"}}``.
    """
    try:
        arguments = [_encoded(each, 1) for each in _constructor_arguments(error)]
        text = msgspec.json.encode(arguments)
    except Exception:
        # An argument is not simple, has a lone surrogate or thousands of digits, or a
        # method of its class raises.
        return None
    same = msgspec.json.decode(text) == arguments
    large = isinstance(error, UnicodeError | BaseExceptionGroup)
    most = _MAX_ARGUMENTS if large else _MESSAGE_CHARS
    # The text alone is in the answer already.
    if not same or len(text) > most or arguments == [text_of(error)]:
        return None
    return arguments


def _constructor_arguments(error: BaseException) -> list[Any]:
    """Return the arguments from which an equal exception can be constructed."""
    match error:
        case UnicodeDecodeError() | UnicodeEncodeError():
            part, offset = error.object, 0
            if len(part) > _UNICODE_EXCERPT:
                # The object is a whole file; the message shows only a part.
                offset = error.start
                part = part[offset : min(error.end, offset + _UNICODE_EXCERPT)]
            shown = _Excerpt(part, offset)
            return [error.encoding, shown, error.start, error.end, error.reason]
        case OSError() if error.filename is not None and len(error.args) == 2:
            # The names of files are not in `args`.
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
        case AlreadyPendingCallError() | NoAsyncCallError():
            return [*error.args, error.name]
    return list(error.args)


def _encoded(value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in _SIMPLE:
        return value
    if kind is bytes:
        value = _Excerpt(value, 0)
    if isinstance(value, _Excerpt):
        name, data = "bytes", value.data
        if isinstance(data, str):
            name, data = "text", data.encode("utf-8", "surrogatepass")
        return {name: base64.b64encode(data).decode(), "offset": value.offset}
    if isinstance(value, _Members):
        return [_encoded(each, depth + 1) for each in value.exceptions]
    if isinstance(value, Exception) and depth <= _MAX_DEPTH:
        try:
            arguments = [
                _encoded(each, depth + 1) for each in _constructor_arguments(value)
            ]
        except Exception:
            arguments = None
        text = text_of(value)
        return {"error": {"arguments": arguments, "mro": _lineage(kind), "text": text}}
    raise TypeError("is not simple")


def _lineage(kind: type[BaseException]) -> list[str]:
    """Name the classes of an exception: a client raises the nearest that it knows."""
    return [f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__[:-1]]
