"""Tickets work once, expire, are limited in number, and are valid in all workers."""

import hashlib
from pathlib import Path

import pytest

from gym_http_server.errors import TooManyTickets
from gym_http_server.web.api import tickets
from gym_http_server.web.api.tickets import Tickets
from gym_http_wire.problems import DiskFull

SECOND = 10**9


class Clock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now_ns = 5 * SECOND

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def one(tmp_path: Path, clock: Clock) -> Tickets:
    """The tickets of one web worker."""
    return Tickets(str(tmp_path / "tickets"), clock)


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> Tickets:
    """The tickets of another web worker."""
    return Tickets(str(tmp_path / "tickets"), clock)


def test_a_ticket_of_another_worker_is_valid_once(one: Tickets, other: Tickets) -> None:
    for name in ("", "ada"):
        ticket = one.issue(name)
        assert other.take(ticket) == (name, "")
        assert other.take(ticket) is None
        assert one.take(ticket) is None


def test_tickets_differ_and_are_long(one: Tickets) -> None:
    made = {one.issue() for _ in range(50)}
    assert len(made) == 50
    assert {len(ticket) for ticket in made} == {32}


@pytest.mark.parametrize(
    ("elapsed_ns", "good"),
    [(0, True), (30 * SECOND - 1, True), (30 * SECOND, False), (90 * SECOND, False)],
)
def test_they_are_good_for_thirty_seconds(
    one: Tickets, clock: Clock, elapsed_ns: int, good: bool
) -> None:
    ticket = one.issue()
    clock.now_ns += elapsed_ns
    assert (one.take(ticket) is not None) is good
    assert one.take(ticket) is None


@pytest.mark.parametrize(
    "ticket", ["", "x", "A" * 32, "../draining", "\0" * 32, "é" * 32, "A" * 10_000]
)
def test_other_values_are_no_tickets(one: Tickets, ticket: str) -> None:
    one.issue()
    assert one.take(ticket) is None


def test_file_names_do_not_reveal_tickets(one: Tickets, tmp_path: Path) -> None:
    ticket = one.issue()
    (link,) = (tmp_path / "tickets").iterdir()
    assert link.name == hashlib.sha256(ticket.encode()).hexdigest()
    assert ticket not in str(link.readlink())
    assert (tmp_path / "tickets").stat().st_mode & 0o077 == 0


def test_too_many_are_refused_until_they_expire_or_are_used(
    one: Tickets,
    other: Tickets,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each is counted, so that a thousand take seconds.
    monkeypatch.setattr(tickets, "MAX_TICKETS", 64)
    made = [one.issue() for _ in range(64)]
    with pytest.raises(TooManyTickets, match="64") as caught:
        other.issue()
    assert caught.value.headers == {"Retry-After": "5"}
    assert one.take(made[0]) == ("", "")
    assert other.take(one.issue("ada", "3c657dbc")) == ("ada", "3c657dbc")
    clock.now_ns += 30 * SECOND
    one.issue()
    one.issue()
    assert len(list((tmp_path / "tickets").iterdir())) == 2


def test_no_room_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "tickets").write_text("a file where the folder should be")
    with pytest.raises(DiskFull, match="ticket cannot be stored"):
        Tickets(str(tmp_path / "tickets")).issue()
