"""The scenario of rtgym's own tests: rtgym passes it on a fake clock, and so do we.

Time steps take half a second, and capture after three eighths: exact floats.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np
import pytest

from gym_http_server.host.realtime.settings_request import read_change
from gym_http_server.host.realtime.world import Capture
from gym_http_wire.problems import ResetNeeded
from tests.support.realtime import BOX, Run, ScriptedWorld
from tests.support.rtgym_reference import FakeTime, Interface, rtgym_env

DEFAULT = -1.0
LENGTH = 3


class Env(Protocol):
    """An environment of either kind. An observation is [captured, control, sent]."""

    error: type[Exception]

    def now(self) -> float: ...
    def reset(self) -> list[Any]: ...
    def step(self, action: float) -> tuple[list[Any], bool, bool]: ...
    def change(self, period: float, capture: float) -> None: ...


class _Reporting(Interface):
    """An interface whose observations are times and controls."""

    sent: float | None = None
    control: float | None = None
    terminates_at: int | None = None

    def send_control(self, control: Any) -> None:
        self.sent, self.control = self.time.now, float(control[0])

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self._steps = 0
        return [self.time.now, self.control, self.sent], {}

    def get_obs_rew_terminated_info(self) -> Any:
        self._steps += 1
        over = self._steps == self.terminates_at
        return [self.time.now, self.control, self.sent], 0.0, over, {}


class Theirs:
    error: type[Exception] = RuntimeError

    def __init__(self, stack: ExitStack, terminates_at: int | None, **config: Any):
        self.time = FakeTime(16.0)
        interface = _Reporting(self.time, {})
        interface.terminates_at = terminates_at
        self.env = stack.enter_context(
            rtgym_env(
                self.time,
                interface,
                time_step_duration=0.5,
                start_obs_capture=0.375,
                act_buf_len=LENGTH,
                **config,
            )
        )

    def now(self) -> float:
        return self.time.now

    def reset(self) -> list[Any]:
        return list(self.env.reset()[0])

    def step(self, action: float) -> tuple[list[Any], bool, bool]:
        result = self.env.step(np.array([action]))
        return list(result[0]), result[2], result[3]

    def change(self, period: float, capture: float) -> None:
        self.env.set_time_step_duration(period)
        self.env.set_start_obs_capture(capture)


class _ReportingWorld(ScriptedWorld):
    sent: float | None = None
    terminates_at: int | None = None
    longest: int | None = None

    def send(self, action: Any) -> None:
        self.sent, self.action = self.clock.now / 1e9, action

    def capture(self) -> Capture:
        self._steps += 1
        terminated = self._steps == self.terminates_at
        truncated = self._steps == self.longest and not terminated
        return Capture(self._observation(), 0.0, terminated, truncated, {})

    def _observation(self) -> Any:
        control = None if self.action is None else float(self.action[0])
        return [self.clock.now / 1e9, control, self.sent]


class Ours:
    error: type[Exception] = ResetNeeded

    def __init__(self, stack: ExitStack, terminates_at: int | None, **config: Any):
        last = config.get("last_act_on_reset", False)
        self.run = Run(
            {
                "preset": "rtgym",
                "period_s": 0.5,
                "capture_s": 0.375,
                "default_action": [DEFAULT],
                "reset_action": "last" if last else "default",
                "history": {
                    "length": LENGTH,
                    "reset": config.get("reset_act_buf", True),
                },
            }
        )
        self.run.clock.now = 16_000_000_000
        world = self.run.world
        world.__class__ = _ReportingWorld
        assert isinstance(world, _ReportingWorld)
        world.terminates_at = terminates_at
        world.longest = config.get("ep_max_length")

    def now(self) -> float:
        return self.run.clock.now / 1e9

    def reset(self) -> list[Any]:
        return list(self.run.reset().observation)

    def step(self, action: float) -> tuple[list[Any], bool, bool]:
        result = self.run.step(action)
        return list(result.observation), result.terminated, result.truncated

    def change(self, period: float, capture: float) -> None:
        # rtgym's functions wait for the end of the time step.
        self.run.wait_for(self.run.mode.may_step)
        given = {"period_s": period, "capture_s": capture}
        settings = self.run.mode.settings
        self.run.mode.change(
            read_change(given, settings, action_space=BOX, max_hz=1000)
        )


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=[Theirs, Ours])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_times_and_controls(kind: Any, stack: ExitStack) -> None:
    env: Env = kind(stack, None)
    start = env.now()
    assert env.reset() == [start, None, None, [DEFAULT], [DEFAULT], [DEFAULT]]
    assert env.now() == start
    observation, terminated, truncated = env.step(0.0)
    # The default action was in force, from the reset on.
    assert observation[:3] == [start + 0.375, DEFAULT, start]
    assert observation[3:] == [[DEFAULT], [DEFAULT], [0.0]]
    assert not terminated
    assert not truncated
    assert env.now() == start + 0.5
    for number in range(1, 5):
        observation, _, _ = env.step(float(number))
        assert observation[0] == start + 0.5 * number + 0.375
        assert observation[1] == number - 1
        assert observation[-1] == [number]
        # The control in force was sent a time step before the step returned.
        assert env.now() - observation[2] == 0.5
    assert observation[3:] == [[2.0], [3.0], [4.0]]


def test_the_end_of_an_episode(kind: Any, stack: ExitStack) -> None:
    env: Env = kind(stack, 2, ep_max_length=2)
    env.reset()
    assert env.step(1.0)[1:] == (False, False)
    # Terminated excludes truncated.
    assert env.step(2.0)[1:] == (True, False)
    with pytest.raises(env.error):
        env.step(3.0)
    assert env.reset()[3:] == [[DEFAULT]] * 3
    assert env.step(4.0)[0][1] == DEFAULT


def test_the_longest_episode(kind: Any, stack: ExitStack) -> None:
    env: Env = kind(stack, None, ep_max_length=3)
    env.reset()
    ends = [env.step(1.0)[1:] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_reset_keeps_the_history(kind: Any, stack: ExitStack) -> None:
    env: Env = kind(stack, 2, reset_act_buf=False)
    env.reset()
    env.step(1.0)
    env.step(2.0)
    # The last action never acted: the default action replaces it.
    assert env.reset()[3:] == [[DEFAULT], [1.0], [DEFAULT]]
    assert env.step(3.0)[0][1] == DEFAULT


def test_a_reset_sends_the_last_action(kind: Any, stack: ExitStack) -> None:
    env: Env = kind(stack, 2, reset_act_buf=False, last_act_on_reset=True)
    env.reset()
    env.step(1.0)
    env.step(2.0)
    assert env.reset()[3:] == [[DEFAULT], [1.0], [2.0]]
    assert env.step(3.0)[0][1] == 2


def test_changes_hold_from_the_next_time_step_on(kind: Any, stack: ExitStack) -> None:
    env: Env = kind(stack, None)
    env.reset()
    start = env.now()
    env.step(0.0)
    # It is in flight, with its old durations.
    env.change(0.25, 0.125)
    assert env.step(1.0)[0][0] == start + 0.5 + 0.375
    assert env.now() == start + 1
    assert env.step(2.0)[0][0] == start + 1 + 0.125
    assert env.now() == start + 1.25
