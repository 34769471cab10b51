"""The server's log on standard error, which never waits for its reader.

The reader of standard error, a pipe or a terminal, may stop, as in
``gym-http-server serve 2>&1 | less``. A write would then block the whole process. So
lines that do not fit are dropped and counted, and a later line has their number.

All processes of the server share one open file with the program that started it.
Setting O_NONBLOCK on this file would change it for that program, too, so the server
opens it a second time.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import socket
import stat
import sys
from collections.abc import Iterator

__all__ = ["STDERR", "LogStream", "install"]

#: Writes to a pipe are atomic up to this number of bytes.
_ATOMIC_BYTES = select.PIPE_BUF
_NOTICE_BYTES = 128


class LogStream(io.TextIOBase):
    """A text stream that drops lines for which its reader leaves no room.

    Args:
        descriptor: The descriptor to write to.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Opened a second time, without blocking; -1 if that is not possible.
        self._own = -1
        self._socket: socket.socket | None = None
        self._poll: select.poll | None = None
        self._begun = ""
        self._dropped = 0
        self._in_line = False

    def open(self) -> None:
        """Do not wait for the reader from now on.

        A plain file needs no reader, and is written to as it is.
        """
        self.block()
        with contextlib.suppress(OSError):
            kind = os.fstat(self._descriptor).st_mode
            if stat.S_ISSOCK(kind):
                self._socket = socket.socket(fileno=os.dup(self._descriptor))
            elif stat.S_ISFIFO(kind) or os.isatty(self._descriptor):
                # Another user's cannot be opened: then poll before writing.
                self._poll = select.poll()
                self._poll.register(self._descriptor, select.POLLOUT)
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                self._own = os.open(f"/proc/self/fd/{self._descriptor}", flags)
                self._poll = None

    def block(self) -> None:
        """Block for the reader from now on, as other streams do."""
        # Each host calls this, and pays for the memory that it uses.
        own = self._own if self._socket is None else self._socket.detach()
        self._own, self._socket, self._poll = -1, None, None
        if own >= 0:
            with contextlib.suppress(OSError):
                os.close(own)

    def descriptors(self) -> list[int]:
        """List the descriptors that a forked process has to keep open."""
        own = self._own if self._socket is None else self._socket.fileno()
        return [own] if own >= 0 else []

    def fileno(self) -> int:
        """Return the descriptor that this was made for."""
        return self._descriptor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Write whole lines, and keep an unfinished line until its end comes."""
        lines, newline, begun = (self._begun + text).rpartition("\n")
        self._begun = begun
        if newline:
            self.write_lines((lines + newline).encode(errors=self.errors))
        return len(text)

    def write_lines(self, lines: bytes) -> None:
        """Write whole lines, or count them as dropped."""
        for piece in _pieces(lines):
            notice = self._notice()
            # Together, so that a pipe takes both or none of them.
            sent = self._put(notice + piece)
            if notice and sent >= len(notice):
                self._dropped = 0
            if sent < len(notice) + len(piece):
                self._dropped += max(1, piece.count(b"\n"))

    def _notice(self) -> bytes:
        if not self._dropped:
            return b""
        notice = (
            f"{self._dropped} lines of this log were dropped: its reader had stopped"
        )
        return b"\n" * self._in_line + notice.encode() + b"\n"

    def _put(self, data: bytes) -> int:
        """Write bytes, and return the number written."""
        try:
            sent = self._send(data)
        except BlockingIOError:
            return 0
        except OSError:
            # The reader has closed, and no later line would reach it.
            return len(data)
        if sent:
            self._in_line = data[sent - 1 : sent] != b"\n"
        return sent

    def _send(self, data: bytes) -> int:
        if self._socket is not None:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        if self._own >= 0:
            return os.write(self._own, data)
        if self._poll is not None and not self._poll.poll(0):
            raise BlockingIOError
        sent = 0
        while sent < len(data):
            sent += os.write(self._descriptor, data[sent:])
        return sent


def _pieces(lines: bytes) -> Iterator[bytes]:
    """Cut lines into pieces whose writes to a pipe are atomic."""
    most = _ATOMIC_BYTES - _NOTICE_BYTES
    while len(lines) > most:
        end = lines.rfind(b"\n", 0, most) + 1 or most
        yield lines[:end]
        lines = lines[end:]
    yield lines


#: The log of this process.
STDERR = LogStream(2)


def install() -> LogStream:
    """Send this process's output on standard error through the log."""
    STDERR.open()
    sys.stderr = STDERR
    return STDERR
