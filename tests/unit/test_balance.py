"""The counts by which web workers leave new connections to each other."""

import os
from collections.abc import Callable

from gym_http_server.gunicorn_worker.balance import Balance


def in_a_fork(call: Callable[[], bool]) -> bool:
    """Call a function in a fork of this process; return its result."""
    pid = os.fork()
    if not pid:
        os._exit(call())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


class Worker:
    """A web worker with some connections, in the parent's memory."""

    def __init__(self, balance: Balance) -> None:
        self.balance = balance
        self.place = balance.reserve()

    def serves(self, connections: int) -> None:
        """Count connections as the fork would."""
        self._fork(lambda: self.balance.count(connections))

    def withdraws(self) -> None:
        """Stop accepting."""
        self._fork(self.balance.withdraw)

    def leaves(self, connections: int) -> bool:
        """Return whether it leaves the next connection to others."""

        def asked() -> bool:
            self.balance.count(connections)
            return self.balance.leaves_next()

        return self._fork(asked)

    def ends(self) -> None:
        """End in any way, as the parent notices."""
        self.balance.release(self.place)

    def _fork(self, call: Callable[[], bool | None]) -> bool:
        def called() -> bool:
            self.balance._own = self.place
            return bool(call())

        return in_a_fork(called)


def test_the_next_connection_is_left_to_those_with_fewer() -> None:
    balance = Balance(4)
    first, second = Worker(balance), Worker(balance)
    # A worker that does not accept yet has no count.
    assert not first.leaves(5)
    second.serves(4)
    assert first.leaves(5)
    assert not first.leaves(4)
    assert not first.leaves(3)


def test_a_worker_that_has_ended_is_not_waited_for() -> None:
    balance = Balance(2)
    first, second = Worker(balance), Worker(balance)
    second.serves(0)
    assert first.leaves(1)
    second.withdraws()
    assert not first.leaves(1)
    second.serves(0)
    second.ends()
    assert not first.leaves(1)
    third = Worker(balance)
    assert third.place == second.place
    assert not first.leaves(1)
    third.serves(0)
    assert first.leaves(1)


def test_workers_beyond_the_announced_ones_are_not_counted() -> None:
    balance = Balance(2)
    first, _, third = Worker(balance), Worker(balance), Worker(balance)
    assert third.place is None
    third.serves(0)
    assert not third.leaves(7)
    assert not first.leaves(1)
    third.withdraws()
    third.ends()
    assert Worker(balance).place is None


def test_none_is_left_for_2_ms_after_one_that_no_other_has_accepted() -> None:
    now = 5.0
    balance = Balance(2, lambda: now)
    Worker(balance).serves(0)
    balance.reserve()
    balance.count(3)
    assert balance.leaves_next()
    assert balance.leaves_next()
    balance.pause()
    now += 0.0015
    assert not balance.leaves_next()
    now += 0.001
    assert balance.leaves_next()
