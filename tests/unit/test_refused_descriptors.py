"""Descriptors that an environment sends to processes of the server."""

import os
import socket
from pathlib import Path

import pytest

from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.rundir.sockets import listen
from gym_http_server.web.backends.call_socket import CallSocket
from gym_http_wire.frames import HEADER

KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])


@pytest.mark.skipif(KERNEL < (6, 16), reason="Linux before 6.16")
def test_descriptors_from_a_host_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "host.sock")
    with listen(path, 1) as listener:
        connection = CallSocket(path, 1024)
        host, _ = listener.accept()
        with host:
            with pytest.raises(PermissionError):
                socket.send_fds(host, [b"x"], [0])
            host.sendall(b"x")
            assert connection.socket.recv(2) == b"x"
        connection.close()


def test_a_connection_with_more_descriptors_than_frames_ends() -> None:
    ours, theirs = socket.socketpair()
    # The beginning of one frame, a byte at a time.
    data = HEADER.pack(100, 0, 0, 0, 0, 1) + bytes(10)
    connection = FrameSocket(ours, max_descriptors=16)
    with theirs:
        received = []
        for byte in data[:20]:
            socket.send_fds(theirs, [bytes([byte])], [0])
            received.append(connection.receive())
    connection.close()
    assert received[0] == []
    assert received[-1] is None
