"""rtgym on a clock that only the test moves, to compare our elastic mode with it.

rtgym's threads run here at once, on their own time, when they are started: nothing in a
time step depends on what the agent does meanwhile. `join` then waits for their end.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from gymnasium.spaces import Box, Tuple
from rtgym import RealTimeGymInterface
from rtgym.envs import real_time_env
from rtgym.envs.utils import benchmark

SPACE = Box(-1000, 1000, (1,), np.float64)


class FakeTime:
    """What rtgym uses of ``time``, ``threading`` and ``warnings``; seconds as floats.

    Attributes:
        timeouts: The times at which rtgym warned that a time step timed out.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self.timeouts: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def warn(self, message: str) -> None:
        assert "timed out" in message
        self.timeouts.append(self.now)

    def thread(
        self,
        target: Callable[..., None] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        daemon: bool = True,
    ) -> "_Thread":
        return _Thread(self, target, args, kwargs or {})


class _Thread:
    def __init__(self, time: FakeTime, target: Any, args: Any, kwargs: Any) -> None:
        self._time = time
        self._call = (target, args, kwargs)
        self._end = time.now

    def start(self) -> None:
        begin = self._time.now
        target, args, kwargs = self._call
        if target is not None:
            target(*args, **kwargs)
        self._end, self._time.now = self._time.now, begin

    def join(self) -> None:
        self._time.now = max(self._time.now, self._end)


class Interface(RealTimeGymInterface):
    """An interface that records its calls, which take given times.

    Args:
        time: The clock.
        durations: Times that calls take, by name, in turn; then 0.
        episode_length: Captures after which an episode terminates.
    """

    def __init__(
        self,
        time: FakeTime,
        durations: dict[str, Iterator[float]],
        episode_length: int | None = None,
    ) -> None:
        self.time = time
        self.log: list[tuple[float, str, Any]] = []
        self._durations = durations
        self._episode_length = episode_length
        self._steps = 0
        self._captures = 0
        self._control = 0.0

    def get_observation_space(self) -> Tuple[Any]:
        return Tuple((Box(0, np.inf, (1,)), SPACE))

    def get_action_space(self) -> Box:
        return SPACE

    def get_default_action(self) -> Any:
        return np.array([-1.0])

    def send_control(self, control: Any) -> None:
        self._record("send", float(control[0]))
        self._control = float(control[0])

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self._record("reset", None)
        self._steps = 0
        return [self._captures, self._control], {}

    def get_obs_rew_terminated_info(self) -> Any:
        self._captures += 1
        self._steps += 1
        self._record("capture", self._captures)
        over = self._steps == self._episode_length
        return [self._captures, self._control], float(self._captures), over, {}

    def _record(self, name: str, value: Any) -> None:
        self.log.append((self.time.now, name, value))
        self.time.now += next(self._durations.get(name, iter(())), 0.0)


@contextmanager
def rtgym_env(
    time: FakeTime, interface: Interface, **config: Any
) -> Iterator[real_time_env.RealTimeEnv]:
    """Make an environment of rtgym's first version on a fake clock.

    Args:
        time: The clock.
        interface: Its interface.
        config: Members of its configuration that differ from its defaults.
    """
    module = real_time_env
    with (
        mock.patch.object(module, "time", time),
        mock.patch.object(module, "Thread", time.thread),
        mock.patch.object(module, "warnings", time),
        mock.patch.object(benchmark, "time", time),
    ):
        given = {**module.DEFAULT_CONFIG_DICT, "interface": lambda: interface}
        yield module.RealTimeEnv(given | config)
