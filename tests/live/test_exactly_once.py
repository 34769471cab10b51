"""Over a bad network, a remote environment takes as many steps as its local reference.

The clients step until each fault has occurred often enough. CHAOS_TIMES=10 requires ten
times as many of each.
"""

import copy
import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import gymnasium
import psutil
import pytest

from gym_http_client import RemoteEnv
from gym_http_client import Server as Address
from gym_http_client.envs.handles import Handle
from gym_http_client.http.retries import Retries
from tests.support import processes
from tests.support.api import Api
from tests.support.envs import overwritten_array
from tests.support.faults.http_faults import Fault, FaultyNetwork
from tests.support.faults.stream_faults import REFUSED, StreamFault
from tests.support.identity import assert_identical
from tests.support.server import Server
from tests.support.wait import wait_until

ENVS = (
    "CartPole-v1",
    "FrozenLake-v1",
    "Taxi-v4",
    "Pendulum-v1",
    "overwritten/Array-v0",
)
IMPORT = ("--import", overwritten_array.__name__)
RESET = ("observation", "info")
STEP = ("observation", "reward", "terminated", "truncated", "info")
TIMES = float(os.environ.get("CHAOS_TIMES", "1"))
KILL_EVERY = 1.0
LEAST_KILLED = 3
MOST_SECONDS = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::DeprecationWarning"),
]


class Walk:
    """One client that steps beside its local reference until it is stopped.

    Args:
        url: Where the client finds the server.
        number: Determines environment, seed and actions.
        streams: Whether it uses a stream.
        ahead: The number of pending requests, if it does not wait for
            each answer.
    """

    def __init__(
        self, url: str, number: int, *, streams: bool = True, ahead: int = 0
    ) -> None:
        self.steps = 0
        self._number = number
        self._env_id = ENVS[number % len(ENVS)]
        self._ahead = ahead
        # Not in the client's thread: concurrent imports there may fail.
        self._local: Any = gymnasium.make(self._env_id)
        retries = Retries(first=0.005, longest=0.2)
        self._server = Address(url, time_limit=0.5, retries=retries, streams=streams)

    def run(self, stop: threading.Event) -> None:
        """Step, and check after each step that both results are equal."""
        handle = self._server.create({"env_id": self._env_id})
        remote = RemoteEnv.over(handle)
        self._local.action_space.seed(self._number)
        try:
            if self._ahead:
                self._run_ahead(handle, stop)
            else:
                self._walk(remote, stop)
            state = self._local.unwrapped.np_random.bit_generator.state
            theirs = remote.np_random.bit_generator.state
            assert theirs == state, "the generators differ"
        finally:
            remote.close()
            self._local.close()

    def _walk(self, remote: RemoteEnv, stop: threading.Event) -> None:
        local = self._local
        seed: int | None = self._number
        over = True
        while over or not stop.is_set():
            if over:
                ours, theirs = remote.reset(seed=seed), local.reset(seed=seed)
                assert_identical(ours, theirs, f"reset of {self}")
                seed = None
            action = local.action_space.sample()
            expected = local.step(action)
            assert_identical(remote.step(action), expected, str(self))
            self.steps += 1
            over = expected[2] or expected[3]

    def _run_ahead(self, handle: Handle, stop: threading.Event) -> None:
        expected: deque[tuple[Any, ...]] = deque()
        seed: int | None = self._number
        over = True
        while expected or not stop.is_set():
            while len(expected) < self._ahead and not stop.is_set():
                if over:
                    handle.send("reset/", {"seed": seed, "options": None})
                    given = self._local.reset(seed=seed)
                    seed, over = None, False
                else:
                    action = self._local.action_space.sample()
                    handle.send("step/", {"action": action})
                    given = self._local.step(action)
                    over = given[2] or given[3]
                expected.append(copy.deepcopy(given))
            answer, given = handle.receive(), expected.popleft()
            names = RESET if len(given) == len(RESET) else STEP
            assert_identical(tuple(answer[name] for name in names), given, str(self))
            self.steps += 1

    def __str__(self) -> str:
        return f"{self._env_id} of client {self._number}, step {self.steps}"


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
        pytest.param(Case(16, 0.07, 30, ahead=(0, 8)), id="streams"),
        pytest.param(Case(5, 0.2, 15), id="streams-worse"),
        pytest.param(
            Case(5, 0.2, 15, ahead=(8,), flags=("--stream-relay",)),
            id="streams-relayed-worse",
        ),
        pytest.param(Case(16, 0.07, 30, streams=False), id="rest"),
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
