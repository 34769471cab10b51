"""A proxy that changes single answers of a correct server."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from gym_http_wire.websocket import MessageReader, encode
from tests.support.listener import Listener, shut_down

LIMIT = 64 * 1024 * 1024


@dataclass
class Exchange:
    """A request and its answer, which a lie may change.

    Attributes:
        head: The request's first line and headers.
        body: The request's body.
        status: Status of the answer; 0 before there is one.
        headers: Headers of the answer, by name in lower case.
        answer: Body of the answer.
    """

    head: bytes
    body: bytes
    status: int
    headers: dict[str, str]
    answer: bytes

    @property
    def method(self) -> str:
        """The method."""
        return self.head.split(b" ", 1)[0].decode()

    @property
    def path(self) -> str:
        """The path, with the query."""
        return self.head.split(b" ", 2)[1].decode()


@dataclass(frozen=True)
class Lie:
    """The changes that a proxy makes to requests and answers.

    Attributes:
        request: Changes a request before it is forwarded.
        answer: Changes an answer.
        message: Returns the replacement of a stream's message; None drops it.
        lost: Whether an answer gets lost after the request was executed.
    """

    request: Callable[[Exchange], None] = lambda exchange: None
    answer: Callable[[Exchange], None] = lambda exchange: None
    message: Callable[[int, bytes], tuple[int, bytes] | None] | None = None
    lost: Callable[[Exchange], bool] = lambda exchange: False


class LyingProxy(Listener):
    """Forwards requests to a server, one for each connection, and streams.

    Args:
        port: The server's.
        lie: The changes that it makes.
    """

    def __init__(self, port: int, lie: Lie) -> None:
        self._port = port
        self._lie = lie

    def attend(self, connection: socket.socket, number: int) -> None:
        """Forward one exchange, or a stream."""
        with (
            self.onward(self._port) as server,
            contextlib.suppress(OSError, ValueError),
        ):
            self._pass(connection, server)

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        head, rest = _head_of(client)
        body = _body_of(client, head, rest)
        exchange = Exchange(head, body, 0, {}, b"")
        self._lie.request(exchange)
        server.sendall(exchange.head + b"\r\n\r\n" + exchange.body)
        answer, rest = _head_of(server)
        while answer.split(b" ")[1] == b"100":
            answer, rest = _head_of(server, rest)
        status, exchange.headers = _read(answer)
        exchange.status = status
        if status == 101:
            client.sendall(answer + b"\r\n\r\n")
            self._relay(client, server, rest)
            return
        exchange.answer = _body_of(server, answer, rest)
        if self._lie.lost(exchange):
            return
        self._lie.answer(exchange)
        exchange.headers["content-length"] = str(len(exchange.answer))
        exchange.headers["connection"] = "close"
        if exchange.status == 204:
            del exchange.headers["content-length"]
        lines = [f"{name}: {value}" for name, value in exchange.headers.items()]
        text = "\r\n".join([f"HTTP/1.1 {exchange.status} Told", *lines, "", ""])
        client.sendall(text.encode("latin-1") + exchange.answer)

    def _relay(
        self, client: socket.socket, server: socket.socket, early: bytes
    ) -> None:
        back = threading.Thread(target=self._say, args=(server, client, early))
        back.start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
        for each in (client, server):
            shut_down(each)
        back.join()

    def _say(self, server: socket.socket, client: socket.socket, data: bytes) -> None:
        reader = MessageReader(masked=False, max_message=LIMIT)
        message = self._lie.message or (lambda opcode, payload: (opcode, payload))
        with contextlib.suppress(OSError):
            while True:
                for opcode, payload in reader.feed(data) if data else ():
                    answer = message(opcode, bytes(payload))
                    if answer is not None:
                        client.sendall(encode(*answer))
                data = server.recv(65536)
                if not data:
                    break
        shut_down(client)


def _head_of(peer: socket.socket, data: bytes = b"") -> tuple[bytes, bytes]:
    while b"\r\n\r\n" not in data:
        piece = peer.recv(65536)
        if not piece:
            raise ValueError("the head is cut off")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _body_of(peer: socket.socket, head: bytes, rest: bytes) -> bytes:
    match = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head)
    size = int(match[1]) if match else 0
    while len(rest) < size:
        piece = peer.recv(65536)
        if not piece:
            raise ValueError("the body is cut off")
        rest += piece
    return rest


def _read(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ")[1]), {n.lower(): v.strip() for n, _, v in pairs}
