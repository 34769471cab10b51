"""Frames and descriptors over a Unix socket."""

import os
import socket
from collections.abc import Iterator

import pytest

from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_wire.frames import Frame, FrameError

LARGE = Frame(3, body=bytes(range(256)) * 8 * 1024)


@pytest.fixture
def pair() -> Iterator[tuple[FrameSocket, FrameSocket]]:
    """Two ends of one connection; the second receives descriptors."""
    one, other = socket.socketpair()
    ends = FrameSocket(one), FrameSocket(other, max_descriptors=2)
    yield ends
    for end in ends:
        end.close()


def test_a_descriptor_arrives_with_its_frame(
    pair: tuple[FrameSocket, FrameSocket],
) -> None:
    sender, receiver = pair
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb"), os.fdopen(writer, "wb"):
        sender.send(Frame(1, body=b"first"), reader)
        sender.send(Frame(2, body=b"second"), writer)
        frames = [receiver.receive_one(), receiver.receive_one()]
        assert [frame and frame.body for frame in frames] == [b"first", b"second"]
        taken = receiver.take_descriptor(), receiver.take_descriptor()
        for descriptor, original in zip(taken, (reader, writer), strict=True):
            assert descriptor is not None
            assert os.path.sameopenfile(descriptor, original)
            assert not os.get_inheritable(descriptor)
            os.close(descriptor)
    assert receiver.take_descriptor() is None


@pytest.mark.parametrize("reads", [True, False])
def test_an_end_that_closes_with_bytes_unread(
    pair: tuple[FrameSocket, FrameSocket], reads: bool
) -> None:
    sender, receiver = pair
    sender.send(Frame(1, body=b"answer"))
    if reads:
        receiver.receive_one()
    receiver.close()
    assert sender.receive() is None
    assert sender.left_unread is not reads


def test_what_is_no_socket_is_not_taken_as_one(
    pair: tuple[FrameSocket, FrameSocket],
) -> None:
    sender, receiver = pair
    reader, writer = os.pipe()
    sender.send(Frame(1), writer)
    os.close(writer)
    receiver.receive_one()
    assert receiver.take_socket() is None
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"", "the descriptor is still open"


def test_descriptors_that_nobody_takes_are_closed(
    pair: tuple[FrameSocket, FrameSocket],
) -> None:
    sender, receiver = pair
    reader, writer = os.pipe()
    sender.send(Frame(1), writer)
    os.close(writer)
    receiver.receive_one()
    receiver.close()
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b""


def test_queued_frames_are_sent_as_the_other_end_reads(
    pair: tuple[FrameSocket, FrameSocket],
) -> None:
    sender, receiver = pair
    sender.socket.setblocking(False)
    sender.queue(LARGE)
    sender.queue(Frame(4, body=b"behind"))
    assert sender.unsent
    received: list[Frame] = []
    while len(received) < 2:
        received += receiver.receive() or ()
        sender.flush()
    assert received == [LARGE, Frame(4, body=b"behind")]
    assert not sender.unsent
    receiver.close()
    sender.queue(LARGE)
    assert not sender.unsent, "frames are kept for an end that is closed"


def test_the_end_of_a_connection_and_malformed_bytes(
    pair: tuple[FrameSocket, FrameSocket],
) -> None:
    sender, receiver = pair
    receiver.socket.setblocking(False)
    assert receiver.receive() == []
    sender.socket.sendall(b"\xff" * 16)
    with pytest.raises(FrameError):
        receiver.receive()
    sender.close()
    assert sender.closed
    assert receiver.receive() is None
