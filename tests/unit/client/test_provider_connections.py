"""A provider's connection waits for a message until its timeout."""

import socket

from gym_http_client.serving.connections import SocketConnection
from gym_http_wire.external.framing import CountedFraming


def test_a_line_waits_for_a_message_or_for_its_time() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        line = SocketConnection(ours, CountedFraming(1024))
        assert line.receive(0.0) is None
        assert line.receive(0.01) is None
        line.send(b"{}", text=True)
        theirs.sendall(theirs.recv(1024))
        message = line.receive(10.0)
        assert message is not None
        assert message.payload == b"{}"
        line.close()
