"""A small HTTP server that sends exactly the bytes that a test scripts."""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from tests.support.listener import Listener

#: A test's handler of a connection, which is closed when it returns.
Act = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Seen:
    """One request as it arrived, and the number of its connection, from 0."""

    head: bytes
    body: bytes
    connection: int

    def header(self, name: str) -> str | None:
        """Return a header's value, or None."""
        for line in self.head.decode().split("\r\n")[1:]:
            key, _, value = line.partition(": ")
            if key.lower() == name.lower():
                return value
        return None

    @property
    def line(self) -> str:
        """The request line without the version."""
        return self.head.decode().split("\r\n")[0].removesuffix(" HTTP/1.1")


@dataclass
class ScriptedServer(Listener):
    """Answers requests by its script, in order; repeats the last answer forever.

    An answer is bytes, after which the connection stays open, or a function. A function
    handles the socket, which is closed afterwards.
    """

    answers: deque[bytes | Act]
    seen: list[Seen] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, *answers: bytes | Act) -> Self:
        """Create a server with a script; it does not listen yet."""
        return cls(deque(answers))

    def attend(self, connection: socket.socket, number: int) -> None:
        """Answer requests in the order of the script."""
        # A client may go away whenever it wants.
        with contextlib.suppress(ConnectionError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while request := read_request(connection):
                with self._turn:
                    self.seen.append(Seen(*request, number))
                    more = len(self.answers) > 1
                    answer = self.answers.popleft() if more else self.answers[0]
                if not isinstance(answer, bytes):
                    answer(connection)
                    break
                connection.sendall(answer)


def read_request(connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Read one request, or None when the client has closed the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    _, found, size = head.lower().partition(b"content-length:")
    missing = int(size.split()[0]) - len(body) if found else 0
    while missing > 0:
        piece = connection.recv(missing)
        if not piece:
            return None
        body += piece
        missing -= len(piece)
    return head, body


def http_answer(
    body: bytes = b"", *headers: str, status: int = 200, version: str = "1.1"
) -> bytes:
    """Return a whole answer with a length."""
    lines = [f"HTTP/{version} {status} X", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def then_close(data: bytes = b"", turns: threading.Barrier | None = None) -> Act:
    """Send bytes and close the connection without announcing it.

    With a barrier for two, the connection ends between two waits of the test, so that
    the test can read the bytes before, and is sure of the end afterwards.
    """

    def act(connection: socket.socket) -> None:
        connection.sendall(data)
        if turns is not None:
            turns.wait(20)
            connection.close()
            turns.wait(20)

    return act


def then_reset(data: bytes = b"", turns: threading.Barrier | None = None) -> Act:
    """Send bytes and reset the connection, as `then_close` closes it."""
    close = then_close(data, turns)

    def act(connection: socket.socket) -> None:
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        close(connection)

    return act


def silence(connection: socket.socket) -> None:
    """Send nothing until the client closes the connection."""
    connection.recv(1)
