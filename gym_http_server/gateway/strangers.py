"""Limits the ZeroMQ connections without an accepted first message."""

from __future__ import annotations

import contextlib
import os
import socket

__all__ = ["Strangers"]


class Strangers:
    """Connections whose peers have not begun a conversation, oldest first.

    ZeroMQ owns the sockets and may have closed and reused a descriptor by the time that
    its events are read. So a connection is known by descriptor and peer address.

    Args:
        most: How many may be open.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._peers: dict[int, object] = {}

    def add(self, descriptor: int) -> None:
        """Count a connection that ZeroMQ has accepted."""
        self._peers.pop(descriptor, None)
        with contextlib.suppress(OSError), _duplicate(descriptor) as line:
            self._peers[descriptor] = line.getpeername()

    def remove(self, descriptor: int) -> None:
        """Stop counting a connection: its peer was accepted, or it has ended."""
        self._peers.pop(descriptor, None)

    def close_oldest(self) -> None:
        """Shut down the oldest connections until the limit is kept."""
        while len(self._peers) > self._most:
            descriptor = next(iter(self._peers))
            peer = self._peers.pop(descriptor)
            with contextlib.suppress(OSError), _duplicate(descriptor) as line:
                if line.getpeername() == peer:
                    # ZeroMQ reads the end of the connection and closes it.
                    line.shutdown(socket.SHUT_RDWR)


def _duplicate(descriptor: int) -> socket.socket:
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
