"""Proxies without support for WebSockets."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable

from tests.support.listener import Listener, shut_down

#: Handles a handshake as one kind of proxy does. Returns the bytes to forward.
UpgradeHandler = Callable[[socket.socket, bytes], bytes]

_HANDSHAKE = re.compile(rb"(?is)GET .*\r\nupgrade: websocket\r\n")
_HOP_BY_HOP = re.compile(rb"(Connection|Upgrade):[^\r]*\r\n", re.IGNORECASE)


def strip_upgrade(client: socket.socket, request: bytes) -> bytes:
    """Remove the headers of the hop, and forward the rest."""
    return _HOP_BY_HOP.sub(b"", request)


def refuse_upgrade(client: socket.socket, request: bytes) -> bytes:
    """Refuse the request."""
    body = b"<html>400 Bad Request</html>"
    client.sendall(
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    return b""


def hang_on_upgrade(client: socket.socket, request: bytes) -> bytes:
    """Send nothing until the client closes the connection."""
    with contextlib.suppress(OSError):
        client.recv(1)
    return b""


class NoUpgradeProxy(Listener):
    """Forwards connections to a server, apart from handshakes of WebSockets.

    Args:
        port: The server's.
        way: Handles handshakes.

    Attributes:
        upgrades: Handshakes so far.
    """

    def __init__(self, port: int, way: UpgradeHandler) -> None:
        self._port = port
        self._way = way
        self.upgrades = 0

    def attend(self, connection: socket.socket, number: int) -> None:
        """Forward bytes in both directions."""
        with self.onward(self._port) as server:
            back = threading.Thread(target=self._pass_on, args=(server, connection))
            back.start()
            self._pass_on(connection, server)
            back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if _HANDSHAKE.match(data):
                    self.upgrades += 1
                    data = self._way(source, data)
                target.sendall(data)
        for each in (source, target):
            shut_down(each)
