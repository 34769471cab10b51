"""Over a bad network, a remote environment takes as many steps as its local reference.

The clients step until each fault has occurred often enough. CHAOS_TIMES=10 requires ten
times as many of each.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import gymnasium
import psutil
import pytest

from tests.support import processes
from tests.support.api import Api
from tests.support.faults.http_faults import Fault, FaultyNetwork
from tests.support.faults.stream_faults import REFUSED, StreamFault
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.walks import IMPORT, Walk

TIMES = float(os.environ.get("CHAOS_TIMES", "1"))
KILL_EVERY = 1.0
LEAST_KILLED = 3
MOST_SECONDS = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::DeprecationWarning"),
]


class Case(NamedTuple):
    """The faults of the network, and the clients that use it.

    Attributes:
        clients: Their number.
        probability: The probability of a fault per request.
        least: How often each fault has to occur; the clients step until then.
        ahead: The numbers of pending requests of the clients, in turn.
        streams: Whether they use streams.
        flags: Of the server.
    """

    clients: int
    probability: float
    least: int
    ahead: tuple[int, ...] = (0,)
    streams: bool = True
    flags: tuple[str, ...] = ()

    def have_occurred(self, counts: Counter[str]) -> bool:
        """Return whether each fault has occurred often enough."""
        least = self.least * TIMES
        # There are fewer handshakes than messages.
        if self.streams and counts[REFUSED] < least / 2:
            return False
        faults = StreamFault if self.streams else Fault
        return all(counts[fault] >= least for fault in faults)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(16, 0.07, 20, ahead=(0, 8)), id="streams"),
        pytest.param(Case(5, 0.2, 15), id="streams-worse"),
        pytest.param(
            Case(5, 0.2, 15, ahead=(8,), flags=("--stream-relay",)),
            id="streams-relayed-worse",
        ),
        pytest.param(Case(16, 0.07, 20, streams=False), id="rest"),
        pytest.param(Case(4, 0.2, 15, streams=False), id="rest-worse"),
    ],
)
def test_no_fault_adds_or_loses_a_step(
    make_server: Callable[..., Server], case: Case
) -> None:
    server = make_server("--workers", "2", *IMPORT, *case.flags)
    with FaultyNetwork(
        server.port, probability=case.probability, seed=case.clients
    ) as chaos:
        walks = [
            Walk(
                chaos.url,
                number,
                streams=case.streams,
                ahead=case.ahead[number % len(case.ahead)],
            )
            for number in range(case.clients)
        ]
        deadline = time.monotonic() + MOST_SECONDS * TIMES

        def enough(killed: int) -> bool:
            often = killed >= LEAST_KILLED and case.have_occurred(chaos.counts())
            return often or time.monotonic() > deadline

        killed = _walk_all(walks, server, enough)
        counts = chaos.finish()
    steps = [walk.steps for walk in walks]
    print(f"{sum(steps)} steps, {killed} workers killed, {dict(counts)}")
    assert Api(server).instances() == {}
    assert case.have_occurred(counts), counts
    assert killed >= LEAST_KILLED
    assert min(steps) > 0


# A client that still sends a request again is waited for.
@pytest.mark.timeout(180)
@pytest.mark.parametrize("streams", [True, False], ids=["streams", "rest"])
def test_without_keys_every_client_goes_astray(
    make_server: Callable[..., Server], streams: bool
) -> None:
    server = make_server(*IMPORT)
    never = threading.Event()
    with (
        FaultyNetwork(server.port, probability=0.07, seed=1, keys=False) as chaos,
        ThreadPoolExecutor() as pool,
    ):
        walks = [Walk(chaos.url, number, streams=streams) for number in range(4)]
        ends = [pool.submit(walk.run, never) for walk in walks]
        wait(ends, 30.0)
        never.set()
        errors = [end.exception() for end in ends]
        # Whichever fault it is that leads a client astray first.
        chaos.finish()
    astray = (AssertionError, gymnasium.error.ResetNeeded)
    assert [error for error in errors if not isinstance(error, astray)] == []


def _walk_all(walks: list[Walk], server: Server, enough: Callable[[int], bool]) -> int:
    """Run all clients and kill web workers; return how many were killed.

    Args:
        walks: The clients, which run in parallel.
        server: Its web workers are killed, one every `KILL_EVERY` seconds.
        enough: Called with the number of kills; returns whether all may stop.
    """
    stop = threading.Event()
    dice = random.Random(0)
    killed = 0
    with ThreadPoolExecutor(len(walks)) as pool:
        ends: list[Future[None]] = [pool.submit(walk.run, stop) for walk in walks]
        try:
            while (
                not enough(killed) and not wait(ends, KILL_EVERY, FIRST_EXCEPTION).done
            ):
                _kill_a_worker(server, dice)
                killed += 1
        finally:
            stop.set()
    errors = [error for end in ends if isinstance(error := end.exception(), Exception)]
    if errors:
        raise ExceptionGroup(f"{len(errors)} clients went astray", errors)
    return killed


def _kill_a_worker(server: Server, dice: random.Random) -> None:
    def workers() -> list[psutil.Process]:
        return sorted(processes.gunicorn(server.pid)[1], key=lambda each: each.pid)

    wait_until(lambda: len(workers()) == 2, 10.0, "a new worker")
    dice.choice(workers()).kill()
