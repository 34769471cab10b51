"""A connection to another node, with one request at a time."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable
from typing import NamedTuple

from gym_http_server.web.backends.arriving_answer import ArrivingAnswer, Check
from gym_http_server.web.backends.budget import LARGE
from gym_http_server.web.backends.nodes.answers import (
    AnswerHead,
    NodeAnswer,
    NodeLost,
    read_head,
)
from gym_http_wire.messages import NODE_PROOF

__all__ = ["ArrivingBody", "NodeConnection", "NodeStream", "NotTheNode"]

#: Seconds without a byte, either way, after which the caller's check is called.
LOOK_SECONDS = 1.0
#: Seconds in which a node takes a piece of an upload, though its disk may be busy.
UPLOAD_SECONDS = 30.0
#: Seconds in which a node says whether it wants a body. A proxy in between may not let
#: it say so.
CONTINUE_SECONDS = 5.0
MAX_HEAD = 64 * 1024
_RECEIVE_BYTES = 64 * 1024
_CONTINUE = b"HTTP/1.1 100 "
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError)


class ArrivingBody(NamedTuple):
    """The body of a request, which is still arriving.

    Attributes:
        pieces: The body.
        size: Its size; ``None`` if it is not known.
        expected: Whether it arrives once the node wants it.
    """

    pieces: Iterable[bytes]
    size: int | None
    expected: bool = False

    @property
    def framing(self) -> str:
        """The lines of the header that say how it is sent."""
        expect = "Expect: 100-continue\r\n" if self.expected else ""
        if self.size is None:
            return f"Transfer-Encoding: chunked\r\n{expect}"
        return f"Content-Length: {self.size}\r\n{expect}"


class NodeStream(NamedTuple):
    """A stream of another node's instance, after its handshake.

    Attributes:
        socket: The connection to the node.
        early: What the node has sent: the answer to the handshake, and more.
    """

    socket: socket.socket
    early: bytes


class NotTheNode(NodeLost):
    """The answer does not show that it is the node's."""


class NodeConnection:
    """A connection to a node.

    Args:
        sock: The socket.
        boot: The node's boot.
        proof: What its answers have to show.

    Attributes:
        boot: The node's boot.
        kept: Whether it may carry another request after the answer.
        kept_at: When its last request ended, monotonic seconds.
    """

    def __init__(self, sock: socket.socket, boot: str, proof: str) -> None:
        self._socket = sock
        self._proof = proof
        self.boot = boot
        self.kept = False
        self.kept_at = 0.0
        # What has arrived before the answer was waited for.
        self._early = b""

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @property
    def usable(self) -> bool:
        """Whether the other end is open and has sent nothing."""
        self._socket.settimeout(0.0)
        try:
            self._socket.recv(1)
        except _NOT_YET:
            return True
        except OSError:
            pass
        return False

    def end(self) -> None:
        """End the request that waits, as if the node had closed the connection."""
        with contextlib.suppress(OSError):
            # The method of a socket with TLS would break the wait's own call.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def exchange(self, data: bytes, check: Check | None) -> NodeAnswer:
        """Send a request and receive its answer, or the beginning of a large one.

        Args:
            data: The request.
            check: Called while the node is silent; ``None``: it has no time limit, but
                `end` ends it.

        Raises:
            NodeLost: The node does not answer, or its answer is malformed.
            OSError: The connection failed.
        """
        self.kept = False
        return self._receive_answer(check, sent=self._send(data, check))

    def upload(
        self, head: bytes, body: ArrivingBody, check: Check | None
    ) -> NodeAnswer:
        """Send a request whose body is still arriving, and receive its answer.

        The node may answer before it has all of it, and close the connection.
        Arguments and errors are those of `exchange`.
        """
        self.kept = False
        sent = self._upload(head, body)
        return self._receive_answer(check, sent=sent, expected=body.expected)

    def _receive_answer(
        self, check: Check | None, *, sent: bool, expected: bool = False
    ) -> NodeAnswer:
        """Receive an answer, or the beginning of a large one.

        Args:
            check: Called while the node is silent.
            sent: Whether all of the request was sent.
            expected: Whether 100 Continue may come before the answer.
        """
        # A timer for each wait would cost more than the wait.
        self._socket.settimeout(LOOK_SECONDS if check else None)
        text, rest = self._receive_head(check)
        if expected and text.startswith(_CONTINUE):
            # It came when all of the body was sent.
            self._early = rest
            text, rest = self._receive_head(check)
        head = self._checked(text)
        body: bytes | ArrivingAnswer
        if head.size > LARGE:
            if len(rest) > head.size:
                raise NodeLost
            body = ArrivingAnswer(self, head.size, rest, check)
        else:
            body = self._receive_body(head.size, rest, check)
        self.kept = sent and head.kept
        return NodeAnswer(head.status, list(head.headers), body)

    def _checked(self, text: bytes) -> AnswerHead:
        """Return the head of an answer, if it shows that it is the node's."""
        try:
            head = read_head(text)
        except NodeLost:
            raise NotTheNode from None
        if head.proof != self._proof:
            raise NotTheNode
        return head

    def _send(self, data: bytes, check: Check | None) -> bool:
        """Send a request, as slowly as the node takes it.

        Returns:
            Whether all of it was sent; else the node may have answered early.
        """
        self._socket.settimeout(LOOK_SECONDS if check else None)
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except TimeoutError:
                if check is None:
                    raise
                check()
            except (BrokenPipeError, ConnectionResetError):
                return False
        return True

    def _upload(self, head: bytes, body: ArrivingBody) -> bool:
        """Send a request whose body is still arriving; return whether all was sent."""
        sent = 0
        self._socket.settimeout(UPLOAD_SECONDS)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(head)
            if body.expected and self._has_answered(CONTINUE_SECONDS):
                return False
            for piece in body.pieces:
                if self._has_answered():
                    return False
                sent += len(piece)
                if body.size is None:
                    self._socket.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                else:
                    self._socket.sendall(piece)
            if body.size is None:
                self._socket.sendall(b"0\r\n\r\n")
            elif sent < body.size:
                # The node would wait for what the client has not sent.
                socket.socket.shutdown(self._socket, socket.SHUT_WR)
                return False
            return True
        return False

    def _has_answered(self, seconds: float = 0.0) -> bool:
        """Whether the node has answered, and does not want the rest of a body.

        Args:
            seconds: For how long to wait until it answers, or wants the body.
        """
        self._socket.settimeout(seconds)
        try:
            received = self._socket.recv(_RECEIVE_BYTES)
        except (*_NOT_YET, TimeoutError):
            return False
        finally:
            self._socket.settimeout(UPLOAD_SECONDS)
        self._early += received
        if self._early.startswith(_CONTINUE) and b"\r\n\r\n" in self._early:
            self._early = self._early.partition(b"\r\n\r\n")[2]
        return not received or not _CONTINUE.startswith(self._early[: len(_CONTINUE)])

    def open_stream(
        self, data: bytes, proof: str, check: Check
    ) -> NodeAnswer | NodeStream:
        """Send a handshake; return the stream, or the answer that refuses it.

        Args:
            data: The handshake.
            proof: What the answer has to show that begins the stream.
            check: Called while the node is silent.

        Raises:
            NodeLost: The node does not answer, or its answer is malformed.
            OSError: The connection failed.
        """
        self._send(data, check)
        text, rest = self._receive_head(check)
        if text.startswith(b"HTTP/1.1 101 "):
            line = f"\r\n{NODE_PROOF}: {proof}".encode()
            head, shown, others = text.partition(line)
            if not shown:
                raise NotTheNode
            self._socket.settimeout(None)
            return NodeStream(self._socket, head + others + b"\r\n\r\n" + rest)
        refusal = self._checked(text)
        if refusal.size > LARGE:
            raise NodeLost
        body = self._receive_body(refusal.size, rest, check)
        self.close()
        return NodeAnswer(refusal.status, list(refusal.headers), body)

    def _receive_head(self, check: Check | None) -> tuple[bytes, bytes]:
        """Receive the head of an answer; return it, and what follows it."""
        begun, self._early = self._early, b""
        while (end := begun.find(b"\r\n\r\n", 0, MAX_HEAD)) < 0:
            if len(begun) >= MAX_HEAD:
                raise NodeLost
            begun += self._receive(check)
        return begun[:end], begun[end + 4 :]

    def _receive_body(self, size: int, rest: bytes, check: Check | None) -> bytes:
        """Receive a small body, which begins with some bytes."""
        pieces = [rest]
        left = size - len(rest)
        while left > 0:
            pieces.append(self._receive(check))
            left -= len(pieces[-1])
        if left < 0:
            raise NodeLost
        return b"".join(pieces)

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

    def receive_into(self, memory: memoryview, check: Check | None) -> int:
        """Receive bytes of a large body into memory, and return their number.

        Args:
            memory: The memory.
            check: Called while the node is silent; ``None``: there is no time limit.

        Raises:
            OSError: The node has closed the connection, or it failed.
        """
        self._socket.settimeout(LOOK_SECONDS if check else None)
        while True:
            try:
                count = self._socket.recv_into(memory)
            except TimeoutError:
                if check is None:
                    raise
                check()
                continue
            if not count:
                raise ConnectionResetError
            return count
