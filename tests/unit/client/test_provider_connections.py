"""A provider's connection waits for a message until its timeout."""

import socket

from gym_http_client.serving.connections import SocketConnection
from gym_http_wire.external.framing import CountedFraming


def test_a_line_waits_for_a_message_or_for_its_time() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = SocketConnection(ours, CountedFraming(1024))
        assert connection.receive(0.0) is None
        assert connection.receive(0.01) is None
        connection.send(b"{}", text=True)
        theirs.sendall(theirs.recv(1024))
        message = connection.receive(10.0)
        assert message is not None
        assert message.payload == b"{}"
        connection.close()
