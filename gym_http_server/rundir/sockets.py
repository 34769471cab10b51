"""Unix sockets that only some users can connect to, from the moment they exist."""

from __future__ import annotations

import contextlib
import os
import socket
import struct

__all__ = [
    "SOCKET_PATH_BYTES",
    "close_at_once",
    "listen",
    "refuse_descriptors",
    "stop_lingering",
]

#: Bytes that the path of a Unix socket may have.
SOCKET_PATH_BYTES = 107
# Of Linux 6.16.
_SO_PASSRIGHTS = 83
_NO_LINGER = struct.pack("ii", 0, 0)


def listen(path: str, backlog: int, mode: int = 0o600) -> socket.socket:
    """Bind a Unix socket to a path and listen on it.

    Args:
        path: A path without a file.
        backlog: Connections that may wait to be accepted.
        mode: Permission bits of the socket's file.

    Raises:
        OSError: The path exists, is too long, or cannot be created.
    """
    listener = socket.socket(socket.AF_UNIX)
    # With chmod after bind, excluded users could connect in between.
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(path)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def refuse_descriptors(sock: socket.socket) -> None:
    """Have the kernel refuse descriptors that are sent to a Unix socket.

    The sender gets EPERM. Linux before 6.16 cannot do this; there it has no effect.
    """
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)


def stop_lingering(descriptor: int) -> None:
    """Clear SO_LINGER of a descriptor that another process sent, if it is a socket.

    With SO_LINGER, the close of a TCP socket blocks until its peer has everything.
    """
    with contextlib.suppress(OSError):
        sock = socket.socket(fileno=descriptor)
        try:
            # In the sandbox this is refused, for the sender as well.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        finally:
            sock.detach()


def close_at_once(descriptor: int) -> None:
    """Close a descriptor that another process sent, even one that lingers."""
    stop_lingering(descriptor)
    os.close(descriptor)
