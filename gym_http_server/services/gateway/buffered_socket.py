"""Sockets that never wait: the gateway's ends of connections inside the server.

They carry bytes, not frames: the streams of hosts and external environments carry
messages of other framings. The few frames are parsed with `FrameReader`, since a
`FrameSocket` would need a second handler of events and buffer here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from gym_http_server.processes.poller import READ, WRITE, Poller
from gym_http_server.rundir.sockets import refuse_descriptors

__all__ = ["BufferedSocket", "connected"]

RECEIVE_BYTES = 256 * 1024


def connected(path: str) -> socket.socket:
    """Connect to a Unix socket, without waiting.

    Raises:
        OSError: No process listens there, or this process has no descriptors left.
    """
    end = socket.socket(socket.AF_UNIX)
    # The close of a descriptor that a host sends could take hours.
    refuse_descriptors(end)
    try:
        end.setblocking(False)
        end.connect(path)
    except OSError:
        end.close()
        raise
    return end


class BufferedSocket:
    """One socket, with a buffer of bytes to send.

    Args:
        poller: Polls it.
        end: The socket.
        on_data: Called with received bytes.
        on_end: Called once when the other end has closed, or reads too slowly.
        max_queued: Bytes that may wait until the other end reads them.
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
        """Send bytes, and keep those that the socket does not accept at once."""
        if not self._open:
            return
        self._out += data
        self._flush()
        if len(self._out) > self._max_queued:
            self._fail()

    def pause(self) -> None:
        """Stop reading until `resume`."""
        if self._open and not self._paused:
            self._paused = True
            self._poller.remove(self._end)

    def resume(self) -> None:
        """Read again after `pause`."""
        if self._open and self._paused:
            self._paused = False
            self._poller.add(self._end, self._serve)
            self._flush()

    def read_rest(self) -> bytes:
        """Return the bytes that have arrived and were not read yet."""
        try:
            return self._end.recv(RECEIVE_BYTES) if self._open else b""
        except OSError:
            return b""

    def close(self) -> None:
        """Close the socket, without calling `on_end`."""
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
            # A later read finds the end, after the bytes sent before it.
            self._out.clear()
        if not self._paused:
            self._poller.want(self._end, READ | WRITE if self._out else READ)

    def _fail(self) -> None:
        if self._open:
            self.close()
            self._on_end()
