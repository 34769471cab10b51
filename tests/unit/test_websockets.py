"""WebSockets that a web worker keeps: silence, ends and clients that do not read."""

from collections.abc import Iterator

import gevent  # type: ignore[import-untyped]
import pytest
from gevent.socket import socketpair  # type: ignore[import-untyped]

from gym_http_server.web.api import websockets
from gym_http_server.web.api.websockets import (
    PING_S,
    SILENT_S,
    Ending,
    KeptSocket,
    KeptSockets,
)
from gym_http_wire.websocket import Close
from tests.support.fake_clock import FakeClock
from tests.support.websocket import PING, PONG, frame

WAIT_S = 10.0


class Kept:
    """A kept socket, its client, and what it has reported."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.lefts = 0
        self.ending: Ending | None = None
        mine, self.client = socketpair()
        self.client.settimeout(WAIT_S)
        self.kept = KeptSocket(
            *(mine, 1 << 20, self._on_left, lambda: self.ending),
            clock=lambda: self.clock.now,
        )
        self.kept.begin(b"", b"")

    def _on_left(self) -> None:
        self.lefts += 1

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass, and look."""
        self.clock.now += seconds
        self.kept.look()
        gevent.sleep(0)


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept()
    with gevent.Timeout(4 * WAIT_S), made.client, made.kept:
        yield made
    gevent.get_hub().destroy(destroy_loop=True)


def test_a_silent_client_is_pinged_and_then_cut(kept: Kept) -> None:
    kept.pass_time(PING_S - 1)
    kept.pass_time(2)
    assert kept.client.recv(100) == b"\x89\x00"
    kept.pass_time(2)
    kept.pass_time(SILENT_S)
    assert kept.client.recv(100) == b""
    assert kept.kept.receive() is None
    assert (kept.kept.left, kept.lefts) == (True, 1)
    assert SILENT_S + 2 * websockets.TICK_S < 30


def test_a_client_that_answers_pings_may_be_silent_for_long(kept: Kept) -> None:
    for _ in range(100):
        kept.pass_time(PING_S + 1)
        assert kept.client.recv(100) == b"\x89\x00"
        kept.client.sendall(frame(PONG))
        gevent.sleep(0.001)
    kept.client.sendall(frame(1, b"at last"))
    assert kept.kept.receive() == b"at last"


def test_what_has_to_close_closes_between_two_messages(kept: Kept) -> None:
    kept.client.sendall(frame(1, b"one"))
    assert kept.kept.receive() == b"one"
    kept.ending = (Close.GOING_AWAY, "the server is stopping")
    kept.pass_time(1)
    kept.kept.send(1, b"answer")
    assert kept.kept.receive() is None
    assert kept.client.recv(100) == (
        b"\x81\x06answer" + b"\x88\x18\x03\xe9the server is stopping"
    )


def test_what_had_to_close_during_a_message_closes_after_it(kept: Kept) -> None:
    kept.client.sendall(frame(1, b"one"))
    assert kept.kept.receive() == b"one"
    all_kept = KeptSockets()
    with all_kept.keep(kept.kept):
        kept.ending = (Close.POLICY, "gone")
        all_kept.note_endings()
        kept.ending = None
    assert kept.kept.receive() is None
    assert kept.client.recv(100) == b"\x88\x06\x03\xf0gone"


def test_a_message_is_not_taken_from_one_that_has_to_close(kept: Kept) -> None:
    waiting = gevent.spawn(kept.kept.receive)
    gevent.sleep(0)
    kept.ending = (Close.POLICY, "gone")
    kept.client.sendall(frame(1, b"one"))
    assert waiting.get(timeout=WAIT_S) is None
    assert kept.client.recv(100) == b"\x88\x06\x03\xf0gone"


def test_an_idle_one_that_has_to_close_closes_at_once(kept: Kept) -> None:
    waiting = gevent.spawn(kept.kept.receive)
    gevent.sleep(0)
    kept.ending = (Close.POLICY, "gone")
    kept.pass_time(0)
    assert waiting.get(timeout=WAIT_S) is None
    assert kept.client.recv(100) == b"\x88\x06\x03\xf0gone"


def test_a_client_that_reads_nothing_is_cut(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websockets, "SEND_S", 0.05)
    kept.kept.send(1, bytes(50_000_000))
    assert kept.kept.receive() is None
    assert kept.lefts == 1


def test_a_slow_reader_gets_everything(kept: Kept) -> None:
    sending = gevent.spawn(kept.kept.send, 1, bytes(3_000_000))
    size = 0
    while size < 3_000_010:
        size += len(kept.client.recv(50_000))
    sending.get(timeout=WAIT_S)
    assert size == 3_000_010


def test_messages_are_read_as_they_are_answered(kept: Kept) -> None:
    gevent.spawn(kept.client.sendall, frame(1, b"x" * 60_000) * 50)
    gevent.sleep(0.05)
    assert len(kept.kept._inbox) <= 2
    for _ in range(50):
        assert kept.kept.receive() == b"x" * 60_000


def test_pings_are_answered_during_a_message(kept: Kept) -> None:
    kept.client.sendall(frame(1, b"one") + frame(PING, b"now"))
    assert kept.kept.receive() == b"one"
    assert kept.client.recv(100) == b"\x8a\x03now"


def test_looking_ends_with_the_last_socket(kept: Kept) -> None:
    all_kept = KeptSockets()
    with all_kept.keep(kept.kept):
        looking = all_kept._looking
        assert len(all_kept) == 1
    looking.join(timeout=WAIT_S)
    assert looking.dead


def test_what_ends_with_a_client_is_not_interrupted() -> None:
    done = []

    def on_left() -> None:
        gevent.sleep(0.05)
        done.append(True)

    mine, client = socketpair()
    with client, gevent.Timeout(WAIT_S):
        with KeptSocket(mine, 100, on_left, lambda: None) as kept:
            kept.begin(b"", b"")
            client.close()
            assert kept.receive() is None
        assert done == [True]
    gevent.get_hub().destroy(destroy_loop=True)


def test_a_flood_does_not_hold_up_the_end(kept: Kept) -> None:
    kept.client.sendall(frame(1, b"x") * 10)
    assert kept.kept.receive() == b"x"
    kept.kept.close(Close.NORMAL)
    assert kept.kept.receive() is None


def test_a_client_whose_messages_wait_is_not_silent(kept: Kept) -> None:
    kept.client.sendall(frame(1, b"a step") * 5)
    assert kept.kept.receive() == b"a step"
    kept.pass_time(2 * SILENT_S)
    for _ in range(4):
        assert kept.kept.receive() == b"a step"
