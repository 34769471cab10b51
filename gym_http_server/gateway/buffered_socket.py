"""Lines: the gateway's own ends of connections inside the server. None ever waits."""

from __future__ import annotations

import socket
from collections.abc import Callable

from gym_http_server.poller import READ, WRITE, Poller
from gym_http_server.rundir.sockets import refuse_descriptors

__all__ = ["BufferedSocket", "connected"]

RECEIVE_BYTES = 256 * 1024


def connected(path: str) -> socket.socket:
    """Connect to a Unix socket, without waiting.

    Raises:
        OSError: Nobody is there, or peers have used up this process's descriptors.
    """
    end = socket.socket(socket.AF_UNIX)
    # A host could send one whose close takes hours, in this process.
    refuse_descriptors(end)
    try:
        end.setblocking(False)
        end.connect(path)
    except OSError:
        end.close()
        raise
    return end


class BufferedSocket:
    """One of them.

    Args:
        poller: Watches it.
        end: Its socket.
        on_data: Called with what has come.
        on_end: Called once when the other end is gone, or takes too little.
        max_queued: Bytes that may wait for the other end to take them.
    """

    def __init__(
        self,
        poller: Poller,
        end: socket.socket,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
        max_queued: int,
    ) -> None:
        end.setblocking(False)
        self._poller = poller
        self._end = end
        self._on_data = on_data
        self._on_end = on_end
        self._max_queued = max_queued
        self._out = bytearray()
        self._open = True
        self._paused = False
        poller.add(end, self._serve)

    def send(self, data: bytes) -> None:
        """Send, and keep what is not taken at once."""
        if not self._open:
            return
        self._out += data
        self._flush()
        if len(self._out) > self._max_queued:
            self._fail()

    def pause(self) -> None:
        """Read nothing for a while."""
        if self._open and not self._paused:
            self._paused = True
            self._poller.remove(self._end)

    def resume(self) -> None:
        """Read again."""
        if self._open and self._paused:
            self._paused = False
            self._poller.add(self._end, self._serve)
            self._flush()

    def last_words(self) -> bytes:
        """Give what has come and was not read, before it is closed."""
        try:
            return self._end.recv(RECEIVE_BYTES) if self._open else b""
        except OSError:
            return b""

    def close(self) -> None:
        """Close it without a word."""
        if self._open:
            self._open = False
            if not self._paused:
                self._poller.remove(self._end)
            self._end.close()

    def _serve(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if not (self._open and events & READ):
            return
        try:
            data = self._end.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_data(data)
        else:
            self._fail()

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._end.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            # Reading tells the end, after what was said before it.
            self._out.clear()
        if not self._paused:
            self._poller.want(self._end, READ | WRITE if self._out else READ)

    def _fail(self) -> None:
        if self._open:
            self.close()
            self._on_end()
