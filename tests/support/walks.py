"""Clients that step beside their local references, over any network."""

import copy
import threading
from collections import deque
from typing import Any

import gymnasium

from gym_http_client import RemoteEnv
from gym_http_client import Server as Address
from gym_http_client.envs.handles import Handle
from gym_http_client.http.retries import Retries
from tests.support.envs import overwritten_array
from tests.support.identity import assert_identical

ENVS = (
    "CartPole-v1",
    "FrozenLake-v1",
    "Taxi-v4",
    "Pendulum-v1",
    "overwritten/Array-v0",
)
#: The flags of a server that has them all.
IMPORT = ("--import", overwritten_array.__name__)
RESET = ("observation", "info")
STEP = ("observation", "reward", "terminated", "truncated", "info")


class Walk:
    """One client that steps beside its local reference until it is stopped.

    Args:
        url: Where the client finds the server.
        number: Determines environment, seed and actions.
        streams: Whether it uses a stream.
        ahead: The number of pending requests, if it does not wait for
            each answer.
        node: Name of the server of a fleet that has its instance; "" for any.
    """

    def __init__(
        self,
        url: str,
        number: int,
        *,
        streams: bool = True,
        ahead: int = 0,
        node: str = "",
    ) -> None:
        self.steps = 0
        self._number = number
        self._env_id = ENVS[number % len(ENVS)]
        self._wish = {"env_id": self._env_id} | ({"node": node} if node else {})
        self._ahead = ahead
        # Not in the client's thread: concurrent imports there may fail.
        self._local: Any = gymnasium.make(self._env_id)
        retries = Retries(first=0.005, longest=0.2)
        self._server = Address(url, time_limit=0.5, retries=retries, streams=streams)

    def run(self, stop: threading.Event) -> None:
        """Step, and check after each step that both results are equal."""
        handle = self._server.create(self._wish)
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
