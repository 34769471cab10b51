"""The supervisor's poller returns each event to the objects that wait for it."""

import os
import select
import socket
from collections.abc import Iterator

import pytest

from gym_http_server.processes.poller import READ, WRITE, Poller
from gym_http_server.supervisor import prefork


@pytest.fixture(params=[False, True], ids=["few", "many"])
def poller(request: pytest.FixtureRequest) -> Iterator[Poller]:
    poller = Poller(many=request.param)
    yield poller
    if isinstance(poller._poll, select.epoll):
        poller._poll.close()


def test_events_are_returned(poller: Poller) -> None:
    ours, theirs = socket.socketpair()
    taken: list[int] = []
    poller.add(ours, taken.append)
    poller.serve(0.0)
    assert taken == []
    theirs.send(b"x")
    poller.serve(5.0)
    assert taken == [READ]
    poller.want(ours, READ | WRITE)
    poller.serve(5.0)
    poller.want(ours, WRITE)
    poller.serve(5.0)
    assert taken == [READ, READ | WRITE, WRITE]
    poller.remove(ours)
    poller.remove(ours)
    poller.want(ours, READ)
    poller.serve(0.0)
    assert len(taken) == 3
    ours.close()
    theirs.close()


def test_an_end_is_something_to_read(poller: Poller) -> None:
    reader, writer = os.pipe()
    ours, theirs = socket.socketpair()
    taken: list[int] = []
    poller.add(reader, taken.append)
    os.close(writer)
    poller.serve(5.0)
    assert taken == [READ]
    poller.remove(reader)
    os.close(reader)
    poller.add(ours, taken.append)
    poller.want(ours, WRITE)
    theirs.close()
    poller.serve(5.0)
    assert taken == [READ, WRITE]
    poller.remove(ours)
    ours.close()


def test_removed_descriptors_return_no_events(poller: Poller) -> None:
    """Nor does a new object get the events of the descriptor's former owner."""
    pairs = [socket.socketpair() for _ in range(2)]
    taken: list[str] = []

    def take(name: str, other: socket.socket) -> None:
        taken.append(name)
        poller.remove(other)
        poller.add(other, lambda events: taken.append("newcomer"))

    poller.add(pairs[0][0], lambda events: take("first", pairs[1][0]))
    poller.add(pairs[1][0], lambda events: take("second", pairs[0][0]))
    for _, theirs in pairs:
        theirs.send(b"x")
    poller.serve(5.0)
    assert taken in (["first"], ["second"])
    for pair in pairs:
        for each in pair:
            each.close()


def test_settling_ends_where_pools_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefork, "_fillings", [])
    monkeypatch.setattr(prefork, "_POOL_BYTES", 1 << 60)
    monkeypatch.setattr(prefork, "_MOST_HOLES", 3)
    prefork._fill_holes()
    assert len(prefork._fillings) == 3 * (2 + len(prefork._SIZES))
