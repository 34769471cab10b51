"""Proxies that know nothing of upgrades, each in its own way."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

#: Does with a handshake what a proxy of its kind does; gives what to pass on, if any.
Way = Callable[[socket.socket, bytes], bytes]

_HANDSHAKE = re.compile(rb"(?is)GET .*\r\nupgrade: websocket\r\n")
_HOP_BY_HOP = re.compile(rb"(Connection|Upgrade):[^\r]*\r\n", re.IGNORECASE)


def stripping(client: socket.socket, request: bytes) -> bytes:
    """Take out what a proxy has to take out, and pass the rest on."""
    return _HOP_BY_HOP.sub(b"", request)


def refusing(client: socket.socket, request: bytes) -> bytes:
    """Refuse the request."""
    body = b"<html>400 Bad Request</html>"
    client.sendall(
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    return b""


def hanging(client: socket.socket, request: bytes) -> bytes:
    """Say nothing until the client has enough of that."""
    with contextlib.suppress(OSError):
        client.recv(1)
    return b""


class Middleman:
    """Passes connections on to a server, but for handshakes of WebSockets.

    Args:
        port: The server's.
        way: What it does with handshakes.

    Attributes:
        url: Its own.
        upgrades: Handshakes so far.
    """

    def __init__(self, port: int, way: Way) -> None:
        self._port = port
        self._way = way
        self.upgrades = 0

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._open):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            with self._lock:
                self._open |= {client, far}
            for way in ((client, far), (far, client)):
                thread = threading.Thread(target=self._pass_on, args=way)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if _HANDSHAKE.match(data):
                    self.upgrades += 1
                    data = self._way(source, data)
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
