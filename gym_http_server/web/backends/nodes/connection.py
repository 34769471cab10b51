"""A connection to another node, with one request at a time."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import NamedTuple

from gym_http_server.web.backends.budget import LARGE, Budget, LargeBody

__all__ = [
    "ArrivingBody",
    "Check",
    "NodeAnswer",
    "NodeConnection",
    "NodeLost",
    "NodeStream",
]

#: Seconds without a byte, either way, after which the caller's check is called.
LOOK_SECONDS = 1.0
#: Seconds in which a node takes a piece of an upload, though its disk may be busy.
UPLOAD_SECONDS = 30.0
MAX_HEAD = 64 * 1024
_RECEIVE_BYTES = 64 * 1024
# No body follows the head of such an answer, whatever size it has.
_BODYLESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
# Headers that are added here, too: to every answer, or to one that is no problem.
_ADDED_HERE = frozenset({"date", "server", "x-content-type-options"})
_ADDED_TO_RESULTS = "x-request-id"

#: Called while no byte arrives; raises an exception to wait no longer.
Check = Callable[[], None]


class ArrivingBody(NamedTuple):
    """The body of a request, which is still arriving.

    Attributes:
        pieces: The body.
        size: Its size; ``None`` if it is not known.
    """

    pieces: Iterable[bytes]
    size: int | None

    @property
    def framing(self) -> str:
        """The line of the header that says where it ends."""
        if self.size is None:
            return "Transfer-Encoding: chunked\r\n"
        return f"Content-Length: {self.size}\r\n"


class NodeAnswer(NamedTuple):
    """A node's answer.

    Attributes:
        status: HTTP status.
        headers: Names and values.
        body: The body; a large one counts in the budget.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes | LargeBody


class NodeStream(NamedTuple):
    """A stream of another node's instance, after its handshake.

    Attributes:
        socket: The connection to the node.
        early: What the node has sent: the answer to the handshake, and more.
    """

    socket: socket.socket
    early: bytes


class _Head(NamedTuple):
    """The head of an answer.

    Attributes:
        status: HTTP status.
        headers: Names and values, without those that are added here.
        size: Bytes of the body.
        kept: Whether the connection may carry another request.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    size: int
    kept: bool


class NodeLost(Exception):
    """The node does not answer."""


class NodeConnection:
    """A connection to a node.

    Args:
        sock: The socket.
        boot: The node's boot.

    Attributes:
        boot: The node's boot.
        kept: Whether it may carry another request.
        kept_at: When its last request ended, monotonic seconds.
    """

    def __init__(self, sock: socket.socket, boot: str) -> None:
        self._socket = sock
        self.boot = boot
        self.kept = False
        self.kept_at = 0.0

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @property
    def usable(self) -> bool:
        """Whether the other end is open and has sent nothing."""
        self._socket.settimeout(0.0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def end(self) -> None:
        """End the request that waits, as if the node had closed the connection."""
        with contextlib.suppress(OSError):
            # The method of a socket with TLS would break the wait's own call.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def exchange(
        self, data: bytes, budget: Budget | None, check: Check | None
    ) -> NodeAnswer:
        """Send a request and receive its answer.

        Args:
            data: The request; empty if it was uploaded.
            budget: Counts a large answer; ``None`` if none can be.
            check: Called while the node is silent; ``None``: it has no time limit, but
                `end` ends it.

        Raises:
            NodeLost: The node does not answer, or its answer is malformed.
            OSError: The connection failed.
            AnswerBudgetFull: There is no room for it.
        """
        head, rest = self._begin(data, check)
        return self._finish(_read_head(head), rest, budget, check)

    def upload(self, head: bytes, body: ArrivingBody) -> None:
        """Send a request whose body is still arriving.

        The node may answer before it has all of it, and close the connection.
        """
        self._socket.settimeout(UPLOAD_SECONDS)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(head)
            for piece in body.pieces:
                if body.size is None:
                    self._socket.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                else:
                    self._socket.sendall(piece)
            if body.size is None:
                self._socket.sendall(b"0\r\n\r\n")

    def open_stream(self, data: bytes, check: Check) -> NodeAnswer | NodeStream:
        """Send a handshake; return the stream, or the answer that refuses it.

        Raises:
            NodeLost: The node does not answer, or its answer is malformed.
            OSError: The connection failed.
        """
        head, rest = self._begin(data, check)
        if head.startswith(b"HTTP/1.1 101 "):
            self._socket.settimeout(None)
            return NodeStream(self._socket, head + b"\r\n\r\n" + rest)
        answer = self._finish(_read_head(head), rest, None, check)
        self.close()
        return answer

    def _begin(self, data: bytes, check: Check | None) -> tuple[bytes, bytes]:
        """Send a request; return the head of its answer, and what follows it."""
        # A timer for each wait would cost more than the wait.
        self._socket.settimeout(LOOK_SECONDS if check else None)
        self._send(data, check)
        begun = b""
        while b"\r\n\r\n" not in begun:
            begun += self._receive(check)
            if len(begun) > MAX_HEAD:
                raise NodeLost
        head, _, rest = begun.partition(b"\r\n\r\n")
        return head, rest

    def _send(self, data: bytes, check: Check | None) -> None:
        """Send bytes, as slowly as the node takes them."""
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except TimeoutError:
                if check is None:
                    raise
                check()

    def _finish(
        self, head: _Head, rest: bytes, budget: Budget | None, check: Check | None
    ) -> NodeAnswer:
        """Receive the rest of an answer."""
        self.kept = head.kept
        headers = list(head.headers)
        if budget is not None and head.size > LARGE:
            large = self._receive_large(head.size, rest, budget, check)
            return NodeAnswer(head.status, headers, large)
        pieces = [rest]
        left = head.size - len(rest)
        while left > 0:
            pieces.append(self._receive(check))
            left -= len(pieces[-1])
        if left < 0:
            raise NodeLost
        return NodeAnswer(head.status, headers, b"".join(pieces))

    def _receive_large(
        self, size: int, rest: bytes, budget: Budget, check: Check | None
    ) -> LargeBody:
        """Receive a body that counts in the budget, and begins with some bytes."""
        body = LargeBody(budget.take(size, self.boot))
        body[: len(rest)] = rest
        with memoryview(body) as view:
            ready = len(rest)
            while ready < size:
                piece = self._receive(check)
                if len(piece) > size - ready:
                    raise NodeLost
                view[ready : ready + len(piece)] = piece
                ready += len(piece)
        return body

    def _receive(self, check: Check | None) -> bytes:
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError:
                if check is None:
                    raise
                check()
                continue
            if not data:
                raise NodeLost
            return data


@functools.lru_cache(maxsize=64)
def _read_head(head: bytes) -> _Head:
    """Read the head of an answer; those of short answers repeat within a second."""
    first, *lines = head.decode("latin-1").split("\r\n")
    try:
        status, size, kept = int(first[9:12]), 0, True
        headers = []
        for line in lines:
            name, _, value = line.partition(":")
            lower, value = name.lower(), value.strip()
            if lower == "content-length":
                size = int(value)
            elif lower == "connection":
                kept = value.lower() != "close"
            elif lower == "transfer-encoding":
                raise NodeLost
            elif lower == _ADDED_TO_RESULTS and status < 400:
                continue
            elif lower not in _ADDED_HERE:
                headers.append((name, value))
    except ValueError:
        raise NodeLost from None
    return _Head(status, tuple(headers), 0 if status in _BODYLESS else size, kept)
