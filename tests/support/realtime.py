"""A clock, a world and a loop for tests of real time, which run without time."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gym_http_server.host.activity import Activity
from gym_http_server.host.dispatch import Dispatch
from gym_http_server.host.inspection import Inspection
from gym_http_server.host.realtime.elastic import Elastic
from gym_http_server.host.realtime.free_running import FreeRunning
from gym_http_server.host.realtime.handlers import ClockedBroadcast, ClockedHandlers
from gym_http_server.host.realtime.mode import Event, Mode
from gym_http_server.host.realtime.operations import ClockedCalls, ClockedOperations
from gym_http_server.host.realtime.settings import ClockSettings
from gym_http_server.host.realtime.settings_request import read_settings
from gym_http_server.host.realtime.world import Capture
from gym_http_server.rundir.status import StatusPage, StatusReader
from gym_http_wire.elements import NotAnElement, reader
from gym_http_wire.problems import InvalidAction

BOX = Box(-1000, 1000, (1,), np.float64)
MS = 1_000_000
_read = reader(BOX)


class Clock:
    """A clock that only the test moves, in ns."""

    def __init__(self, now: int = 5_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class ScriptedWorld:
    """A world that records its calls, and takes time for them.

    Its observation is the number of its captures, and then the last action.

    Attributes:
        log: Each call, with the time at which it began.
        episode_length: Captures after which an episode terminates.
        rewards: Rewards of the captures, after which they are 1.
        durations: Times that calls take, by name: numbers of ns, used in turn.
        fail_in: Exceptions to raise, by the number of the capture.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.log: list[tuple[int, str, Any]] = []
        self.action: Any = None
        self.episode_length: int | None = None
        self.rewards: Iterator[Any] = iter(())
        self.durations: dict[str, Iterator[int]] = {}
        self.fail_in: dict[int, Exception] = {}
        self.captures = 0
        self.ended = False
        self._steps = 0

    def reset(self, seed: int | None, options: Any) -> tuple[Any, dict[str, Any]]:
        self._record("reset", seed)
        self._steps = 0
        return self._observation(), {}

    def send(self, action: Any) -> None:
        self._record("send", None if action is None else float(np.sum(action)))
        self.action = action

    def capture(self) -> Capture:
        self.captures += 1
        self._record("capture", self.captures)
        if self.captures in self.fail_in:
            raise self.fail_in[self.captures]
        self._steps += 1
        over = self._steps == self.episode_length
        reward = next(self.rewards, 1.0)
        return Capture(self._observation(), reward, over, False, {})

    def wait(self) -> None:
        self._record("wait", None)

    def end(self, action: Any) -> None:
        self._record("end", float(np.sum(action)))

    def named(self, name: str) -> list[tuple[int, Any]]:
        """Return when and with what a call was made."""
        return [(time, value) for time, each, value in self.log if each == name]

    def _observation(self) -> Any:
        acting = 0.0 if self.action is None else float(np.sum(self.action))
        return np.array([self.captures, acting])

    def _record(self, name: str, value: Any) -> None:
        self.log.append((self.clock.now, name, value))
        self.clock.now += next(self.durations.get(name, iter(())), 0)


class Run:
    """A mode with its world, driven as a host drives it.

    Args:
        given: The member ``realtime``.
        limits: Further arguments of `read_settings`.
    """

    def __init__(self, given: dict[str, Any], **limits: Any) -> None:
        self.settings = settings_of(given, **limits)
        self.clock = Clock()
        self.world = ScriptedWorld(self.clock)
        kind = Elastic if self.settings.mode == "elastic" else FreeRunning
        self.mode: Mode = kind(self.settings, self.world, self.clock)
        self.events: list[Event] = []

    def until(self, now: int) -> None:
        """Let time pass up to a time, doing what is due."""
        while self.mode.due_ns is not None and self.mode.due_ns <= now:
            self.clock.now = max(self.clock.now, self.mode.due_ns)
            self.events += self.mode.advance()
        self.clock.now = max(self.clock.now, now)

    def sleep(self, ns: int) -> None:
        """Let time pass."""
        self.until(self.clock.now + ns)

    def wait_for(self, ready: Callable[[str], bool], caller: str = "") -> None:
        """Do what is due until a request may be executed."""
        while not ready(caller):
            due = self.mode.due_ns
            assert due is not None, "the request would wait for ever"
            self.clock.now = max(self.clock.now, due)
            if ready(caller):
                break
            self.events += self.mode.advance()

    def reset(self, seed: int | None = None, caller: str = "") -> Any:
        self.mode.arrive(caller)
        self.wait_for(self.mode.may_reset, caller)
        result = self.mode.reset(seed, None, caller)
        self.events += self.mode.take_events()
        return result

    def step(self, action: float, caller: str = "") -> Any:
        self.mode.arrive(caller)
        self.wait_for(self.mode.may_step, caller)
        result = self.mode.step(np.array([action], float), caller)
        self.events += self.mode.take_events()
        return result

    def act(self, caller: str = "", **request: Any) -> Any:
        return self.mode.act(request, caller, read_action, True)

    def since_start(self, name: str) -> list[int]:
        """Return when calls of the world were made, since the clock began."""
        times = [time for time, _ in self.world.named(name)]
        return [time - self.mode._origin for time in times]


@contextlib.contextmanager
def handlers_of(run: Run, env: Any) -> Iterator[ClockedHandlers]:
    """Return the handlers of an environment whose clock is that of a run."""
    operations = ClockedOperations(env, run.mode)
    exact = ClockedCalls(operations)
    reader = StatusReader()
    page = StatusPage(reader.file)
    activity = Activity(page, operations)
    inspection = Inspection(operations, exact, activity, "00000000", "Pendulum-v1")
    dispatch = Dispatch(
        operations,
        exact,
        inspection,
        activity,
        open_file=lambda request: -1,
        max_answer=1 << 20,
        broadcast=ClockedBroadcast,
        handlers=ClockedHandlers,
    )
    assert isinstance(dispatch.handlers, ClockedHandlers)
    yield dispatch.handlers
    page.close()
    reader.close()


def settings_of(given: dict[str, Any], **limits: Any) -> ClockSettings:
    """Read settings with the limits of a common server."""
    arguments: dict[str, Any] = {
        "action_space": BOX,
        "max_hz": 1000,
        "max_spin_us": 1000,
        "external": False,
        **limits,
    }
    return read_settings(given, **arguments)


def read_action(value: Any) -> Any:
    """Read an action of `BOX` as a host does."""
    try:
        return _read(value)
    except NotAnElement as error:
        raise InvalidAction(str(error)) from None
