"""Peers over ZeroMQ that send exactly the messages of a test."""

import contextlib
import json
import re
from types import TracebackType
from typing import Any, Self

import psutil
import zmq

from tests.support.peers.external_env import BOX, THREE
from tests.support.server import Server
from tests.support.strict_json import parse_strictly
from tests.support.wait import wait_until

HELLO = {"type": "hello", "protocol": 1, "name": "game", "capabilities": ["reset"]}
HELLO |= {"observation_space": BOX, "action_space": THREE}
PATIENCE_MS = 20_000
_PLACE = re.compile(r"connect by ZeroMQ at (tcp://\S+)")


def zmq_url(server: Server) -> str:
    """Return the address at which a server accepts peers by ZeroMQ."""
    return wait_until(lambda: _PLACE.search(server.stdout))[1]


def gateway(server: Server) -> psutil.Process:
    """Return the gateway: the only process with threads that listens on its port."""

    def found() -> psutil.Process | None:
        port = int(zmq_url(server).rpartition(":")[2])
        for each in server.members():
            with contextlib.suppress(psutil.Error):
                # The supervisor keeps the socket for the next one; this has threads.
                ports = {line.laddr.port for line in each.net_connections("tcp")}
                if port in ports and each.num_threads() > 1:
                    return each
        return None

    return wait_until(found)


class ZmqPeer:
    """A ZeroMQ socket with its own context.

    Args:
        server: Where to connect.
        kind: Of the socket.
    """

    def __init__(self, server: Server, kind: int = zmq.DEALER) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self.socket: zmq.Socket[Any] = self._context.socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        self.socket.connect(zmq_url(server))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drop()

    def send_message(self, **message: Any) -> None:
        """Send a message."""
        self.socket.send(json.dumps(message).encode())

    def receive(self) -> Any:
        """Return the next message of the server."""
        return parse_strictly(self.socket.recv().decode())

    def call(self, **message: Any) -> Any:
        """Send a message and return the answer."""
        self.send_message(**message)
        return self.receive()

    def drop(self) -> None:
        """Destroy the context, and discard unsent messages."""
        self._context.destroy(linger=0)


class ZmqExternalEnv(ZmqPeer):
    """An external environment over ZeroMQ, after its hello, in plain JSON.

    Args:
        server: Where to connect.
        hello: Changes to the hello.
    """

    def __init__(self, server: Server, **hello: Any) -> None:
        super().__init__(server)
        self.welcome = self.call(**{**HELLO, **hello})

    @classmethod
    def to(cls, server: Server, **hello: Any) -> Self:
        """Connect, and check that the server sends a welcome."""
        external = cls(server, **hello)
        assert external.welcome["type"] == "welcome", external.welcome
        return external

    def expect(self, kind: str) -> Any:
        """Receive a request, which must be of this type; answer pings."""
        while (message := self.receive()) == {"type": "ping"}:
            self.send_message(type="pong")
        assert message["type"] == kind, message
        return message

    def answer(self, kind: str, **result: Any) -> Any:
        """Answer the next request, which must be of this type; return the request."""
        request = self.expect(kind)
        self.send_message(id=request["id"], result=result)
        return request
