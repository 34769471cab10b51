"""The loads by which web workers leave new connections to each other."""

import copy

import pytest

from gym_http_server.web.gunicorn_worker.balance import Balance


class Clock:
    """A clock, and the processor time of the process that is looked at."""

    def __init__(self) -> None:
        self.now_s = 5.0
        self.used_s = 1.0


class Worker:
    """A web worker: as after a fork, it shares the memory and nothing else."""

    def __init__(self, parent: Balance, clock: Clock) -> None:
        self.place = parent.reserve()
        self.balance = copy.copy(parent)
        self._clock = clock

    def runs(self, connections: int, busy: float = 0.0) -> None:
        """Run for 0.3 s, measuring every 0.1 s."""
        self.balance.count(connections)
        for _ in range(3):
            self.balance.measure()
            self._clock.now_s += 0.1
            self._clock.used_s += busy * 0.1
        self.balance.measure()

    def leaves(self, connections: int, busy: float = 0.0) -> bool:
        """Return whether it leaves the next connection to others."""
        self.runs(connections, busy)
        return self.balance.leaves_next()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def parent(clock: Clock) -> Balance:
    return Balance(2, lambda: clock.now_s, lambda: clock.used_s)


def test_the_next_connection_is_left_to_workers_with_fewer(
    parent: Balance, clock: Clock
) -> None:
    first, second = Worker(parent, clock), Worker(parent, clock)
    # A worker that does not accept yet has no load.
    assert not first.leaves(5)
    second.runs(4)
    assert first.leaves(5)
    assert not first.leaves(4)
    assert not first.leaves(3)


@pytest.mark.parametrize(
    ("connections", "busy", "left"),
    [(7, 0.1, True), (7, 0.005, False), (3, 0.9, False), (4, 1.0, True), (3, 3, False)],
)
def test_a_busy_worker_has_the_load_of_four_connections(
    connections: int, busy: float, left: bool, parent: Balance, clock: Clock
) -> None:
    first, second = Worker(parent, clock), Worker(parent, clock)
    second.runs(7)
    assert first.leaves(connections, busy) is left


def test_connections_count_between_measurements(parent: Balance, clock: Clock) -> None:
    first, second = Worker(parent, clock), Worker(parent, clock)
    first.runs(2)
    second.runs(2)
    assert not first.balance.leaves_next()
    second.balance.count(1)
    assert first.balance.leaves_next()
    first.balance.count(1)
    assert not first.balance.leaves_next()


def test_a_worker_has_used_no_time_of_its_parents(
    parent: Balance, clock: Clock
) -> None:
    first, second = Worker(parent, clock), Worker(parent, clock)
    second.runs(0)
    clock.used_s = 0.0
    clock.now_s += 0.01
    first.balance.measure()
    assert not first.balance.leaves_next()


def test_a_worker_that_has_ended_is_not_waited_for(
    parent: Balance, clock: Clock
) -> None:
    first, second = Worker(parent, clock), Worker(parent, clock)
    second.runs(0)
    assert first.leaves(1)
    second.balance.withdraw()
    assert not first.leaves(1)
    second.balance.count(0)
    second.balance.measure()
    assert not first.leaves(1)
    parent.release(second.place)
    third = Worker(parent, clock)
    assert third.place == second.place
    third.runs(0)
    assert first.leaves(1)
    # It was killed.
    parent.release(third.place)
    assert not first.leaves(1)


def test_workers_beyond_the_announced_ones_are_not_considered(
    parent: Balance, clock: Clock
) -> None:
    first, _, third = (Worker(parent, clock) for _ in range(3))
    assert third.place is None
    third.runs(0)
    assert not first.leaves(1)
    assert not third.leaves(7)
    third.balance.withdraw()
    parent.release(third.place)
    assert parent.reserve() is None


def test_not_more_than_64_are_left_at_once_and_10_a_second(
    parent: Balance, clock: Clock
) -> None:
    first, second = Worker(parent, clock), Worker(parent, clock)
    second.runs(0)
    first.runs(3)

    def left() -> int:
        return sum(first.balance.leaves_next() for _ in range(200))

    assert left() == 65
    clock.now_s += 1.01
    assert left() == 10
    clock.now_s += 3600
    assert left() == 65
