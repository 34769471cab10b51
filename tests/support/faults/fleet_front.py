"""The address of a fleet that clients are told, and one that its tickets name."""

import json
import re
import socket
import time
from typing import Any

from tests.support.faults.lying_proxy import Exchange, Lie, LyingProxy

_LENGTH = re.compile(rb"(?i)content-length: *[0-9]+")


class Recorder(LyingProxy):
    """A proxy that records the requests that it forwards.

    Attributes:
        heads: Their heads.
        times: When streams were requested, in monotonic seconds.
    """

    def __init__(self, port: int, lie: Lie | None = None) -> None:
        super().__init__(port, lie or Lie(request=self.record))
        self.heads: list[str] = []
        self.times: list[float] = []

    def record(self, exchange: Exchange) -> None:
        """Record a request."""
        self.heads.append(exchange.head.decode())
        if "stream?" in exchange.path:
            self.times.append(time.monotonic())

    def paths(self, part: str) -> list[str]:
        """Return the recorded paths that have a part."""
        found = [head.split(" ", 2)[1] for head in self.heads]
        return [path for path in found if part in path]

    def sessions(self) -> list[str]:
        """Return the session of each stream that was requested here."""
        return [
            re.search(r"session=([\w-]+)", path)[1]  # type: ignore[index]
            for path in self.paths("stream?")
        ]


class CutDirect(Recorder):
    """Cuts its first stream after some messages, and answers no later one.

    Args:
        port: The node's.
        messages: Messages from the node until the cut; ``None`` for no end.
    """

    def __init__(self, port: int, messages: int | None = None) -> None:
        super().__init__(port, Lie(request=self._begin, message=self._count))
        self._left = messages

    def attend(self, connection: socket.socket, number: int) -> None:
        """Forward a stream; wait for the end of those after the cut."""
        super().attend(connection, number)
        if self._left == 0 and number > 0:
            connection.recv(1)

    def _begin(self, exchange: Exchange) -> None:
        self.record(exchange)
        if self._left == 0:
            raise ValueError("no answer")

    def _count(self, opcode: int, payload: bytes) -> tuple[int, bytes]:
        if self._left is not None:
            if self._left == 0:
                raise OSError("the stream is cut")
            self._left -= 1
        return opcode, payload


class FleetFront(Recorder):
    """The first address: it has instances made on one node, and changes tickets.

    Args:
        port: The port of the node to which it forwards.
        node: Name of the node on which instances are made; "" for any.
        answer: Changes the answers to requests for tickets, as decoded.
    """

    def __init__(self, port: int, node: str, answer: dict[str, Any]) -> None:
        super().__init__(port, Lie(request=self._begin, answer=self._answer))
        self._node = node
        self._changes = answer

    def _begin(self, exchange: Exchange) -> None:
        self.record(exchange)
        if self._node and exchange.method == "POST" and exchange.path == "/v1/envs/":
            body = json.loads(exchange.body) | {"node": self._node}
            exchange.body = json.dumps(body).encode()
            length = b"Content-Length: %d" % len(exchange.body)
            exchange.head = _LENGTH.sub(length, exchange.head)

    def _answer(self, exchange: Exchange) -> None:
        if exchange.path != "/v1/tickets/":
            return
        issued = json.loads(exchange.answer)
        assert "stream_url" in issued, issued
        changed = issued | {
            name: change(issued[name]) for name, change in self._changes.items()
        }
        exchange.answer = json.dumps(changed).encode()
