"""A number in shared memory arrives after what was written before it."""

import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from gym_http_server.host import doorbell
from gym_http_server.host.doorbell import LINE, Doorbell
from gym_http_wire.busy_poll import BusyPoll

EXCHANGES = 20_000
# More than a line of the cache, so that it is not written at once.
PAYLOAD = 64


@pytest.fixture
def numbers() -> memoryview:
    return memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")


@pytest.fixture(params=["polls", "sleeps"])
def make(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[memoryview, int], Doorbell]]:
    """Return a factory of doorbells whose waits poll or sleep."""
    polls = request.param == "polls"
    limit_ns = 200_000 if polls else 0
    monkeypatch.setattr(doorbell, "BusyPoll", lambda *_: BusyPoll(limit_ns, bool_true))
    made: list[Doorbell] = []

    def factory(numbers: memoryview, index: int) -> Doorbell:
        made.append(Doorbell(numbers, index, 1))
        return made[-1]

    yield factory
    for each in made:
        each.close()


def bool_true() -> bool:
    return True


def answer_all(payload: np.ndarray, there: Doorbell, back: Doorbell, count: int) -> int:
    """Answer exchanges in the other process; return its exit status."""
    ours, theirs = payload[PAYLOAD:], payload[:PAYLOAD]
    for number in range(1, count + 1):
        if not there.wait(number) or not (theirs == number).all():
            return 1
        ours[:] = 3 * theirs
        back.ring(number, number & 1)
    return 0


def exchange(
    make: Callable[[memoryview, int], Doorbell], numbers: memoryview, count: int
) -> None:
    """Exchange sequence numbers with another process, in a payload behind them."""
    payload = np.frombuffer(mmap.mmap(-1, 2 * PAYLOAD * 8), np.int64)
    payload.flags.writeable = True
    there, back = make(numbers, 0), make(numbers, LINE)
    pid = os.fork()
    if not pid:
        status = 2
        try:
            status = answer_all(payload, there, back, count)
        finally:
            os._exit(status)
    try:
        for number in range(1, count + 1):
            payload[:PAYLOAD] = number
            there.ring(number)
            assert back.wait(number)
            assert back.note == number & 1
            assert (payload[PAYLOAD:] == 3 * number).all()
        assert os.waitpid(pid, 0)[1] == 0
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def test_a_payload_is_there_when_its_number_is(
    make: Callable[[memoryview, int], Doorbell], numbers: memoryview
) -> None:
    exchange(make, numbers, EXCHANGES)


def test_a_wait_ends_with_another_descriptor(
    make: Callable[[memoryview, int], Doorbell], numbers: memoryview
) -> None:
    bell = make(numbers, 0)
    reading, writing = os.pipe()
    bell.watch(reading)
    # Rung for a number that is not the one to wait for.
    bell.ring(1)
    later = threading.Timer(0.05, os.close, [writing])
    later.start()
    assert not bell.wait(2)
    later.join()
    bell.ring(2)
    assert bell.wait(2)
    os.close(reading)


def test_a_doorbell_that_the_other_process_misuses(
    make: Callable[[memoryview, int], Doorbell], numbers: memoryview
) -> None:
    bell = make(numbers, 0)
    os.eventfd_write(bell.descriptor, 2**64 - 2)
    bell.ring(1)
    assert bell.wait(1)
    later = threading.Timer(0.05, bell.ring, [2])
    later.start()
    assert bell.wait(2)
    later.join()
