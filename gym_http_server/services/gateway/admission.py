"""Limits the ZeroMQ connections without an accepted first message."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time

__all__ = ["LOOK_SECONDS", "Admission"]

#: Seconds between two checks of the bytes that connections have received.
LOOK_SECONDS = 0.1
# The field bytes_received of the kernel's struct tcp_info.
_INFO_BYTES, _RECEIVED_OFFSET = 136, 128


class Admission:
    """The connections without an accepted first message, oldest first.

    ZeroMQ owns the sockets and may have closed and reused a descriptor by the time that
    its events are read. So a connection is known by descriptor and peer address.

    ZeroMQ shows a message when all its pieces are there, and limits the size of each,
    but not their number. So the kernel is asked for the bytes received.

    Args:
        most: How many may be open.
        most_bytes: Bytes that one may send before its first message is complete.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._peers: dict[int, object] = {}
        # Bytes of complete messages, by descriptor.
        self._read: dict[int, int] = {}
        self._due = 0.0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._peers)

    def add(self, descriptor: int) -> None:
        """Count a connection that ZeroMQ has accepted."""
        self.remove(descriptor)
        with contextlib.suppress(OSError), _duplicate(descriptor) as sock:
            self._peers[descriptor] = sock.getpeername()

    def note_refused(self, descriptor: int) -> None:
        """Record that a complete message has arrived, and was refused."""
        if descriptor in self._peers:
            with contextlib.suppress(OSError), _duplicate(descriptor) as sock:
                self._read[descriptor] = _received(sock)

    def close_oversized(self) -> None:
        """Shut down connections that have sent too much; at most every 0.1 s."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LOOK_SECONDS
        for descriptor in list(self._peers):
            with contextlib.suppress(OSError), _duplicate(descriptor) as sock:
                unread = _received(sock) - self._read.get(descriptor, 0)
                if unread > self._most_bytes:
                    self._shut(descriptor)

    def remove(self, descriptor: int) -> None:
        """Stop counting a connection: its peer was accepted, or it has ended."""
        self._peers.pop(descriptor, None)
        self._read.pop(descriptor, None)

    def close_oldest(self) -> None:
        """Shut down the oldest connections until the limit is kept."""
        while len(self._peers) > self._most:
            self._shut(next(iter(self._peers)))

    def _shut(self, descriptor: int) -> None:
        peer = self._peers[descriptor]
        self.remove(descriptor)
        with contextlib.suppress(OSError), _duplicate(descriptor) as sock:
            if sock.getpeername() == peer:
                # ZeroMQ reads the end of the connection and closes it.
                sock.shutdown(socket.SHUT_RDWR)


def _received(sock: socket.socket) -> int:
    """Return how many bytes a connection has received."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    return int(struct.unpack_from("=Q", info, _RECEIVED_OFFSET)[0])


def _duplicate(descriptor: int) -> socket.socket:
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
