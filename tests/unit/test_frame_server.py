"""Frames are served to peers that read nothing, send half of one, or disconnect."""

import os
import socket
from collections.abc import Iterator

import pytest

from gym_http_server.processes.frame_server import FrameServer
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.poller import Poller
from gym_http_wire.frames import Frame, encode

#: More than a socket accepts while its peer reads nothing.
LARGE = bytes(4 * 1024 * 1024)


class Serving:
    """A server whose answers have as many bytes as the request's number."""

    def __init__(self) -> None:
        self.poller = Poller()
        self.server = FrameServer[FrameSocket](self.poller, "tester", self._end)
        self.handled: list[int] = []
        self.ended: list[FrameSocket] = []
        self.files: list[int] = []
        self._peers: list[FrameSocket] = []

    def connect(self) -> tuple[FrameSocket, FrameSocket]:
        """Return a connection that is served, and its peer."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.settimeout(10)
        served, peer = FrameSocket(ours, 1024), FrameSocket(theirs, max_descriptors=4)
        self._peers.append(peer)
        self.server.add(served, self._handle)
        return served, peer

    def turn(self) -> None:
        """Serve what has happened."""
        self.poller.serve(0)

    def close(self) -> None:
        """Close all connections."""
        for served in list(self.server.connections):
            self.server.disconnect(served)
        for peer in self._peers:
            peer.close()

    def _handle(self, connection: FrameSocket, frame: Frame) -> None:
        self.handled.append(frame.number)
        body = LARGE[: frame.number]
        files, self.files = self.files, []
        self.server.answer(connection, Frame(0, frame.number, body=body), files)

    def _end(self, connection: FrameSocket) -> None:
        self.ended.append(connection)


@pytest.fixture
def serving() -> Iterator[Serving]:
    """A server without connections."""
    made = Serving()
    yield made
    made.close()


def stuck(serving: Serving) -> tuple[FrameSocket, FrameSocket]:
    """Return a connection of whose answers a part is sent, and its peer."""
    served, peer = serving.connect()
    peer.send(Frame(1, len(LARGE)))
    serving.turn()
    assert serving.server.stuck == {served}
    return served, peer


def test_a_peer_that_reads_nothing_delays_only_itself(serving: Serving) -> None:
    served, peer = stuck(serving)
    _, other = serving.connect()
    for number in (1, 2):
        peer.send(Frame(1, number))
        other.send(Frame(1, number))
        serving.turn()
        assert other.receive_one() == Frame(0, number, body=bytes(number))
    assert serving.handled == [len(LARGE), 1, 2], "a request was read too early"
    peer.socket.setblocking(False)
    answers: list[Frame] = []
    while len(answers) < 3:
        answers += peer.receive() or ()
        serving.turn()
    assert [each.number for each in answers] == [len(LARGE), 1, 2]
    assert answers[0].body == LARGE
    assert not serving.server.stuck
    assert serving.server.connections >= {served}


def test_a_peer_that_reads_nothing_for_too_long_is_disconnected(
    serving: Serving,
) -> None:
    served, peer = stuck(serving)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    serving.server.answer(served, Frame(0, 5), [writer])
    serving.server.disconnect_stuck(1000.0)
    assert not serving.ended
    serving.server.disconnect_stuck(-1.0)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"", "the file of its answer is still open"
    assert serving.ended == [served]
    assert served.closed
    assert not serving.server.stuck
    while peer.receive() is not None:
        pass


def test_half_a_frame_waits_for_the_other_half(serving: Serving) -> None:
    served, peer = serving.connect()
    data = encode(Frame(1, 7, body=b"a body"))
    peer.socket.sendall(data[:18])
    serving.turn()
    assert serving.handled == []
    peer.socket.sendall(data[18:])
    serving.turn()
    assert serving.handled == [7]
    # Its end within a frame ends the connection.
    peer.socket.sendall(data[:18])
    serving.turn()
    peer.close()
    serving.turn()
    assert serving.ended == [served]
    assert served.closed


def test_files_of_unsent_answers_are_closed_with_the_connection(
    serving: Serving,
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    served, peer = stuck(serving)
    with os.fdopen(reader, "rb") as pipe:
        serving.server.answer(served, Frame(0, 5), [writer])
        peer.close()
        # One turn finds that nobody reads, the other the end.
        for _ in range(2):
            serving.turn()
        assert pipe.read() == b"", "the descriptor is still open"
    assert serving.ended == [served]
    assert served.closed
    assert not serving.server.stuck
    assert not serving.poller.poll(0)


def test_a_file_is_sent_with_its_answer_and_closed(serving: Serving) -> None:
    _, peer = serving.connect()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with os.fdopen(reader, "rb") as pipe:
        serving.files = [writer]
        peer.send(Frame(1, 5))
        serving.turn()
        assert peer.receive_one() == Frame(0, 5, body=bytes(5))
        received = peer.take_descriptor()
        assert received is not None
        os.write(received, b"by the peer")
        os.close(received)
        assert pipe.read() == b"by the peer"
        assert pipe.read() == b"", "the descriptor is still open"


def test_a_malformed_request_ends_its_connection(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    served, peer = serving.connect()
    _, other = serving.connect()
    peer.socket.sendall(b"\xff" * 100)
    other.send(Frame(1, 3))
    serving.turn()
    assert serving.ended == [served]
    assert peer.receive_one() is None
    assert other.receive_one() == Frame(0, 3, body=bytes(3))
    (line,) = caplog.records
    assert line.name == "gym_http_server.tester"
    assert line.getMessage().startswith("a request to the tester is malformed: Frame")
    # A second disconnect has no effect, and neither has a late answer.
    serving.server.disconnect(served)
    serving.server.answer(served, Frame(0))
    assert serving.ended == [served]


def test_a_connection_that_is_forgotten_stays_open(serving: Serving) -> None:
    served, peer = serving.connect()
    serving.server.forget(served)
    assert serving.ended == [served]
    peer.send(Frame(1, 3))
    serving.turn()
    assert serving.handled == []
    assert served.receive() == [Frame(1, 3)]
    served.close()
