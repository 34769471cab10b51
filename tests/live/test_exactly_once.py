"""Over a bad network, a remote environment steps as often as its local twin.

That takes a while to show; CHAOS_SECONDS=5 shortens it, but not where CI is set.
"""

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

import gymnasium
import psutil
import pytest

from gym_http_client import RemoteEnv
from gym_http_client import Server as Address
from gym_http_client.retries import Retries
from tests.support.api import Api
from tests.support.chaos import Chaos, Fault
from tests.support.identity import assert_identical
from tests.support.server import Server
from tests.support.wait import wait_until

ENVS = ("CartPole-v1", "FrozenLake-v1", "Taxi-v4", "Pendulum-v1")
LONGEST = float("inf" if os.environ.get("CI") else os.environ.get("CHAOS_SECONDS", 60))
KILL_EVERY = 3.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::DeprecationWarning"),
]


class Walk:
    """One client that walks beside its local twin until it is told to stop.

    Args:
        url: Where the client finds the server.
        number: Decides about environment, seed and actions.
    """

    def __init__(self, url: str, number: int) -> None:
        self.steps = 0
        self._number = number
        self._env_id = ENVS[number % len(ENVS)]
        # Not in the client's thread: what is imported there at once may break.
        self._local: Any = gymnasium.make(self._env_id)
        retries = Retries(first=0.005, longest=0.2)
        self._server = Address(url, time_limit=0.5, retries=retries)

    def run(self, stop: threading.Event) -> None:
        """Walk, and demand at each step that both went the same way."""
        remote = RemoteEnv(self._server, self._env_id)
        try:
            self._walk(remote, self._local, stop)
        finally:
            remote.close()
            self._local.close()

    def _walk(self, remote: RemoteEnv, local: Any, stop: threading.Event) -> None:
        local.action_space.seed(self._number)
        seed: int | None = self._number
        over = True
        while over or not stop.is_set():
            here = f"{self._env_id} of client {self._number}, step {self.steps}"
            if over:
                ours, theirs = remote.reset(seed=seed), local.reset(seed=seed)
                assert_identical(ours, theirs, f"reset of {here}")
                seed = None
            action = local.action_space.sample()
            expected = local.step(action)
            assert_identical(remote.step(action), expected, here)
            self.steps += 1
            over = expected[2] or expected[3]
        state = local.unwrapped.np_random.bit_generator.state
        assert remote.np_random.bit_generator.state == state, "the generators differ"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("clients", "probability", "seconds", "least"),
    [(16, 0.07, 60.0, 200), (4, 0.2, 20.0, 30)],
)
def test_no_fault_adds_or_loses_a_step(
    make_server: Callable[..., Server],
    clients: int,
    probability: float,
    seconds: float,
    least: int,
) -> None:
    server = make_server("--workers", "2")
    least = round(least * min(1.0, LONGEST / seconds))
    seconds = min(seconds, LONGEST)
    with Chaos(server.port, probability=probability, seed=clients) as chaos:
        walks = [Walk(chaos.url, number) for number in range(clients)]
        end = time.monotonic() + seconds

        def enough() -> bool:
            counts = chaos.counts()
            bitten = min(counts[fault] for fault in Fault) >= least
            now = time.monotonic()
            return now > end + 2 * seconds or (now > end and bitten)

        killed = _walk_all(walks, server, enough)
        counts = chaos.finish()
    steps = [walk.steps for walk in walks]
    print(f"{sum(steps)} steps, {killed} workers killed, {dict(counts)}")
    assert Api(server).instances() == {}
    assert min(counts[fault] for fault in Fault) >= least
    assert killed >= seconds / KILL_EVERY / 2
    assert min(steps) > 0


def test_without_keys_every_client_goes_astray(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    never = threading.Event()
    with (
        Chaos(server.port, probability=0.07, seed=1, keys=False) as chaos,
        ThreadPoolExecutor() as pool,
    ):
        walks = [Walk(chaos.url, number) for number in range(4)]
        ends = [pool.submit(walk.run, never) for walk in walks]
        wait(ends, 30.0)
        never.set()
        errors = [end.exception() for end in ends]
        assert chaos.finish()[Fault.DOUBLED] > 0
    astray = (AssertionError, gymnasium.error.ResetNeeded)
    assert [error for error in errors if not isinstance(error, astray)] == []


def _walk_all(walks: list[Walk], server: Server, enough: Callable[[], bool]) -> int:
    """Let all walk, killing web workers meanwhile; tell how many were killed."""
    stop = threading.Event()
    dice = random.Random(0)
    killed = 0
    with ThreadPoolExecutor(len(walks)) as pool:
        ends: list[Future[None]] = [pool.submit(walk.run, stop) for walk in walks]
        try:
            while not enough() and not wait(ends, KILL_EVERY, FIRST_EXCEPTION).done:
                _kill_a_worker(server, dice)
                killed += 1
        finally:
            stop.set()
    errors = [error for end in ends if isinstance(error := end.exception(), Exception)]
    if errors:
        raise ExceptionGroup(f"{len(errors)} clients went astray", errors)
    return killed


def _kill_a_worker(server: Server, dice: random.Random) -> None:
    (gunicorn,) = (
        child
        for child in psutil.Process(server.pid).children()
        if "gunicorn" in " ".join(child.cmdline())
    )
    wait_until(lambda: len(gunicorn.children()) == 2, 10.0, "a new worker")
    dice.choice(gunicorn.children()).kill()
