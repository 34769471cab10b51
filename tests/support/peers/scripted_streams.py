"""A server with streams whose answers a test scripts."""

import json
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from gym_http_wire.values import binary
from gym_http_wire.websocket import accept_of
from tests.support import websocket
from tests.support.peers.scripted_server import Act, ScriptedServer, http_answer

#: Returns the answer to the request of a number; None closes the connection.
Reply = Callable[[int], bytes | None]
_MEDIA = "Content-Type: application/vnd.gym-http.binary"
_HEADER_BYTES = 16


class StreamRequest(NamedTuple):
    """A request on a stream.

    Attributes:
        number: Its number.
        acknowledged: Whether it acknowledges all earlier answers.
    """

    number: int
    acknowledged: bool


class ScriptedStreams:
    """Records the requests on the streams of a scripted server.

    Attributes:
        server: The server, for a `with` statement.
        requests: All requests on streams.
    """

    def __init__(self) -> None:
        self.server = ScriptedServer.of(http_answer(b"", status=500))
        self.requests: list[StreamRequest] = []

    def script(self, *answers: bytes | Act) -> ScriptedServer:
        """Set the answers to handshakes and requests; see `ScriptedServer`."""
        self.server.answers.clear()
        self.server.answers.extend(answers)
        return self.server

    @property
    def lines(self) -> list[str]:
        """The HTTP requests in short: the stream's session, or the key."""
        return [
            seen.header("Idempotency-Key")
            or seen.line.rpartition("/")[2].partition("&lost=")[0]
            for seen in self.server.seen
        ]

    def stream(self, *replies: Reply) -> Act:
        """Open a stream, answer some requests, and send nothing to all others."""

        def act(sock: socket.socket) -> None:
            key = self.server.seen[-1].header("Sec-WebSocket-Key") or ""
            sock.sendall(
                b"HTTP/1.1 101 X\r\nSec-WebSocket-Protocol: gym-http.v1\r\n"
                b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept_of(key).encode()
            )
            waiting = list(replies)
            while (number := self._receive(sock)) is not None:
                if waiting:
                    answer_body = waiting.pop(0)(number)
                    if answer_body is None:
                        return
                    sock.sendall(answer_body)

        return act

    def _receive(self, sock: socket.socket) -> int | None:
        head = _exactly(sock, 2)
        if not head:
            return None
        size = head[1] & 127
        if size == 126:
            size = int.from_bytes(_exactly(sock, 2))
        mask = _exactly(sock, 4)
        message = websocket.masked(_exactly(sock, size), mask)
        number = int.from_bytes(message[12:_HEADER_BYTES], "little")
        self.requests.append(StreamRequest(number, message[8] == 1))
        return number


def answer_value(value: Any, ahead: int = 0) -> Reply:
    """Answer a request with a value, or the request that comes ``ahead`` later."""
    return answer_body(binary.encode(value), ahead=ahead)


def answer_problem(status: int, code: str, **extras: Any) -> Reply:
    """Answer with a problem."""
    body = {"code": code, "message": f"this is {code}", "extras": extras}
    return answer_body(json.dumps(body).encode(), status=status, form=1)


def answer_body(
    body: bytes, *, status: int = 200, form: int = 3, ahead: int = 0
) -> Reply:
    """Answer with any body."""

    def reply(number: int) -> bytes:
        message = websocket.binary(0, number + ahead, body, form=form, status=status)
        return raw(message)

    return reply


def raw(message: bytes, opcode: int = 2) -> bytes:
    """Return the frame of a message."""
    return websocket.frame(opcode, message, mask=b"")


def close_unanswered(_: int) -> None:
    """Close the connection instead of answering."""


def rest_answer(value: Any) -> bytes:
    """Answer with a value by REST."""
    return http_answer(binary.encode(value), _MEDIA)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data
