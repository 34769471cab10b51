"""Writes a host's exceptions and warnings to the server's log.

The output of an environment goes to a separate log. Operators look for exceptions and
warnings in the server's log, which the supervisor writes. Both processes limit them,
since an environment that fails in every step would flood the log.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable

from gym_http_wire.frames import Frame, encode
from gym_http_wire.messages import Op

__all__ = ["Allowance", "connect", "read", "write"]

#: Limit of bytes of one entry.
MAX_BYTES = 20 * 1024
BURST = 20
SECONDS_PER_ENTRY = 3.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_channel: socket.socket | None = None
_owner = 0


class Allowance:
    """A rate limit: `BURST` entries at once, then one in `SECONDS_PER_ENTRY`.

    Args:
        clock: Monotonic seconds.

    Attributes:
        dropped: Number of entries refused since the last accepted one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(BURST)
        self._at = clock()
        self.dropped = 0

    def take(self) -> bool:
        """Whether another entry may be written; it is counted either way."""
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._at) / SECONDS_PER_ENTRY)
        self._at = now
        if self._left < 1:
            self.dropped += 1
            return False
        self._left -= 1
        return True


_allowance = Allowance()


def connect(channel: socket.socket) -> None:
    """Send entries over this channel to the supervisor from now on."""
    global _channel, _allowance, _owner
    _channel, _allowance, _owner = channel, Allowance(), os.getpid()


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


def read(body: bytes) -> tuple[str, str]:
    """Return an entry as the log shows it: its first line, and the others.

    An environment wrote the text: it must not forge entries or control a terminal.
    """
    text = _COLOUR.sub("", body[:MAX_BYTES].decode(errors="replace"))
    lines = text.rstrip().split("\n")
    shown = ["".join(c if c.isprintable() else "?" for c in line) for line in lines]
    return shown[0], "\n".join(shown[1:])
