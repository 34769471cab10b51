"""Writes a host's exceptions, warnings and streams to the server's log.

The output of an environment goes to a separate log. Operators look for exceptions and
warnings in the server's log, which the supervisor writes. Both processes limit them,
since an environment that fails in every step would flood the log.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from typing import Annotated

import msgspec

from gym_http_server.processes.log_lines import Allowance
from gym_http_wire.frames import Frame, encode
from gym_http_wire.messages import Op

__all__ = ["StreamLine", "connect", "read", "write", "write_stream"]

#: Limit of bytes of one entry.
MAX_BYTES = 20 * 1024
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_channel: socket.socket | None = None
_owner = 0


class StreamLine(msgspec.Struct, omit_defaults=True):
    """A line about a stream that was opened or closed.

    Attributes:
        request_id: ID of the HTTP request that opened it.
        watch: Whether its client only watches.
        seconds: How long it was open; ``None``: it was opened just now.
        steps: Steps that the environment took while it was open.
    """

    request_id: Annotated[str, msgspec.Meta(max_length=64)] = ""
    watch: bool = False
    seconds: float | None = None
    steps: Annotated[int, msgspec.Meta(ge=0)] = 0


_allowance = Allowance()


def connect(channel: socket.socket) -> None:
    """Send entries over this channel to the supervisor from now on."""
    global _channel, _owner
    _channel, _owner = channel, os.getpid()


def write(text: str) -> None:
    """Write an entry to the server's log, unless there were too many."""
    # A process that the environment forked has the channel, but must not use it.
    if _channel is None or _owner != os.getpid() or not _allowance.take():
        return
    if _allowance.dropped:
        text = f"{text}\n[{_allowance.dropped} entries before this were dropped]"
        _allowance.dropped = 0
    body = text.encode(errors="backslashreplace")[:MAX_BYTES]
    # Without the supervisor, this process ends anyway.
    with contextlib.suppress(OSError):
        _channel.sendall(encode(Frame(Op.SERVER_LOG, body=body)))


def write_stream(line: StreamLine) -> None:
    """Write a line about a stream, which only --access-log lets through."""
    if _channel is None or _owner != os.getpid():
        return
    with contextlib.suppress(OSError):
        body = msgspec.json.encode(line)
        _channel.sendall(encode(Frame(Op.STREAM_LOG, body=body)))


def read(body: bytes) -> tuple[str, str]:
    """Return an entry as the log shows it: its first line, and the others.

    An environment wrote the text: it must not forge entries or control a terminal.
    """
    text = _COLOUR.sub("", body[:MAX_BYTES].decode(errors="replace"))
    lines = text.rstrip().split("\n")
    shown = ["".join(c if c.isprintable() else "?" for c in line) for line in lines]
    return shown[0], "\n".join(shown[1:])
