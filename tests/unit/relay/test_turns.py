"""Whose request is next, on a clock that tests set; costs are seconds of a request."""

from collections import Counter
from collections.abc import Callable

import pytest

from gym_http_server.services.relay.turns import Turns

Request = tuple[str, str, float]


class Bench:
    """Turns whose requests take the time that they name.

    Attributes:
        now: The time, in seconds.
        used: Seconds that the requests of each run took.
        over: Requests whose caller had its share.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.turns: Turns[Request] = Turns(lambda: self.now)
        self.used: Counter[str] = Counter()
        self.over: list[Request] = []

    def add(self, run: str, cost: float, count: int = 1, caller: str = "w") -> None:
        """Add requests that take so many seconds each."""
        for _ in range(count):
            self.turns.add(run, caller, (run, caller, cost))

    def transaction(self) -> list[str]:
        """Execute the requests of a transaction; return their runs and callers."""
        found = []
        for request, over in self.turns.take():
            run, caller, cost = request
            found.append(f"{run} {caller}")
            self.now += cost
            self.used[run] += round(cost * 1e6)
            if over:
                self.over.append(request)
        return found

    def work(self, seconds: float, again: Callable[[], None] | None = None) -> None:
        """Execute transactions until the time or the requests are over.

        Args:
            seconds: The time.
            again: Called after each transaction.
        """
        end = self.now + seconds
        while self.now < end and (self.turns or again is not None):
            if not self.transaction():
                due = self.turns.due()
                assert self.now < due < self.now + 1
                self.now = due
            if again is not None:
                again()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_small_requests_share_a_transaction(bench: Bench) -> None:
    for number in range(300):
        bench.add(f"run{number % 30}", 0.00006, caller=f"w{number % 7}")
    assert len(bench.transaction()) == 300
    assert not bench.turns
    assert bench.transaction() == []


def test_a_transaction_ends_after_50_ms(bench: Bench) -> None:
    for run in range(10):
        bench.add(f"run{run}", 0.015)
    began = bench.now
    # The fourth begins after 45 ms.
    assert len(bench.transaction()) == 4
    assert bench.now - began == pytest.approx(0.06)
    assert len(bench.transaction()) == 4
    assert len(bench.transaction()) == 2


def test_runs_get_the_same_time_whatever_their_requests_take(bench: Bench) -> None:
    bench.add("long", 0.04, 100)
    bench.add("short", 0.001, 4000)
    bench.add("middle", 0.007, 400)
    began = bench.now
    bench.work(3.0)
    assert all(0.9e6 < used < 1.1e6 for used in bench.used.values())
    assert len(bench.used) == 3
    # None of them leaves time that another one would have used.
    assert bench.used.total() == pytest.approx((bench.now - began) * 1e6)


def test_a_long_request_does_not_delay_the_answer_to_a_short_one(bench: Bench) -> None:
    bench.add("long", 0.04, 3)
    assert bench.transaction() == ["long w"]
    bench.add("short", 0.001)
    bench.add("shorter", 0.0001)
    assert bench.transaction() == ["short w", "shorter w"]


def test_callers_of_a_run_take_turns(bench: Bench) -> None:
    bench.add("run", 0.03, 10, caller="noisy")
    bench.add("run", 0.001, 2, caller="calm")
    assert bench.transaction() == ["run noisy"]
    assert bench.transaction()[:2] == ["run calm", "run calm"]


def test_callers_that_owe_come_after_one_that_does_not(bench: Bench) -> None:
    """Each of them sends its next request when the one before is answered."""
    noisy = [f"noisy{number}" for number in range(10)]
    for caller in noisy:
        bench.add("run", 0.04, caller=caller)
    for _ in range(10):
        (answered,) = bench.transaction()
        bench.add("run", 0.04, caller=answered.split()[1])
    for _ in range(20):
        bench.add("run", 0.001, caller="calm")
        assert bench.transaction() == ["run calm"]
        (answered,) = bench.transaction()
        bench.add("run", 0.04, caller=answered.split()[1])


def test_one_connection_leaves_time_as_many_do(bench: Bench) -> None:
    bench.add("calm", 0.001)
    bench.transaction()
    bench.add("noisy", 0.04)
    assert bench.transaction() == ["noisy w"]
    bench.add("noisy", 0.04)
    assert bench.transaction() == []
    assert bench.turns.due() == pytest.approx(bench.now + 0.04)
    bench.add("calm", 0.001)
    assert bench.transaction() == ["calm w"]
    bench.now = bench.turns.due()
    assert bench.transaction() == ["noisy w"]


def test_a_run_with_more_requests_leaves_time_to_one_that_is_active(
    bench: Bench,
) -> None:
    bench.add("noisy", 0.04, 1000)
    began, served = bench.now, 0

    def answered() -> None:
        # Its next request follows 5 ms after the answer to the one before.
        nonlocal served, began
        if bench.used["calm"] > served * 1000 and bench.now >= began + 0.005:
            served += 1
            bench.add("calm", 0.001)
        began = bench.now

    bench.add("calm", 0.001)
    bench.work(10.0, answered)
    assert 3.5e6 < bench.used["noisy"] < 6e6


def test_a_run_that_is_alone_leaves_no_time(bench: Bench) -> None:
    bench.add("calm", 0.001)
    bench.transaction()
    bench.now += 1
    bench.add("noisy", 0.04, 100)
    began = bench.now
    while bench.turns:
        assert bench.transaction() == ["noisy w"]
    assert bench.now - began == pytest.approx(4.0)
    assert not bench.over


def test_a_request_is_over_the_share_behind_others_of_its_caller(bench: Bench) -> None:
    bench.add("noisy", 0.04, 10)
    bench.add("calm", 0.001)
    bench.work(0.8)
    # The fourth one waited for 120 ms of the others.
    assert len(bench.over) == 7
    assert {run for run, _, _ in bench.over} == {"noisy"}


def test_one_request_at_a_time_is_never_over_the_share(bench: Bench) -> None:
    for _ in range(100):
        bench.add("long", 0.2)
        bench.add("calm", 0.001, 3)
        bench.work(0.25)
    assert bench.over == []


def test_a_stall_is_paid_for_in_a_while(bench: Bench) -> None:
    bench.add("stalled", 60.0)
    bench.add("stalled", 0.001)
    bench.add("calm", 0.001)
    bench.transaction()
    assert bench.transaction() == ["calm w"]
    bench.work(0.3)
    assert not bench.turns


def test_at_the_end_all_are_taken(bench: Bench) -> None:
    bench.add("noisy", 0.04, 3)
    bench.add("calm", 0.001, caller="a")
    bench.add("calm", 0.001, caller="b")
    assert len([turn for turn in bench.turns.drain() if not turn.over]) == 5
    assert not bench.turns
