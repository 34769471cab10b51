"""The supervisor's watches: what happens is taken once, by who is there for it."""

import os
import socket

import pytest

from gym_http_server.supervisor import heap
from gym_http_server.watches import READ, WRITE, Watches


def test_what_happens_is_taken() -> None:
    ours, theirs = socket.socketpair()
    taken: list[int] = []
    watches = Watches()
    watches.add(ours, taken.append)
    watches.serve(0.0)
    assert taken == []
    theirs.send(b"x")
    watches.serve(5.0)
    assert taken == [READ]
    watches.want(ours, READ | WRITE)
    watches.serve(5.0)
    watches.want(ours, WRITE)
    watches.serve(5.0)
    assert taken == [READ, READ | WRITE, WRITE]
    watches.remove(ours)
    watches.remove(ours)
    watches.want(ours, READ)
    watches.serve(0.0)
    assert len(taken) == 3
    ours.close()
    theirs.close()


def test_an_end_is_something_to_read() -> None:
    reader, writer = os.pipe()
    ours, theirs = socket.socketpair()
    taken: list[int] = []
    watches = Watches()
    watches.add(reader, taken.append)
    os.close(writer)
    watches.serve(5.0)
    assert taken == [READ]
    watches.remove(reader)
    os.close(reader)
    watches.add(ours, taken.append)
    watches.want(ours, WRITE)
    theirs.close()
    watches.serve(5.0)
    assert taken == [READ, WRITE]
    ours.close()


def test_who_has_left_takes_nothing() -> None:
    """Nor does a newcomer take what came for who had the descriptor before."""
    pairs = [socket.socketpair() for _ in range(2)]
    taken: list[str] = []
    watches = Watches()

    def take(name: str, other: socket.socket) -> None:
        taken.append(name)
        watches.remove(other)
        watches.add(other, lambda events: taken.append("newcomer"))

    watches.add(pairs[0][0], lambda events: take("first", pairs[1][0]))
    watches.add(pairs[1][0], lambda events: take("second", pairs[0][0]))
    for _, theirs in pairs:
        theirs.send(b"x")
    watches.serve(5.0)
    assert taken in (["first"], ["second"])
    for pair in pairs:
        for each in pair:
            each.close()


def test_settling_ends_where_pools_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_fillings", [])
    monkeypatch.setattr(heap, "_POOL_BYTES", 1 << 60)
    monkeypatch.setattr(heap, "_MOST_HOLES", 3)
    heap._fill_holes()
    assert len(heap._fillings) == 3 * (2 + len(heap._SIZES))
