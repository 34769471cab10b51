"""`RunningWorld` hosts a class with ``run()`` and queues, in a process of its own.

Such a world keeps its own time. It puts dicts into ``sensor_q``, with ``sensors`` and
``rewards``; ``truncated`` says that an episode has ended and another one begins, and
``terminated`` that all have ended. It gets dicts with ``actions`` from ``action_q``.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from gym_http_core.env_errors import env_exceptions
from gym_http_core.myrtle_queues import make_world
from gym_http_core.value_queue import ValueQueue
from gym_http_server.host import fork_guard
from gym_http_server.host.isolation import close_descriptors, reseed
from gym_http_server.host.realtime.world import Capture
from gym_http_server.host.realtime.worlds.adapters import Shape
from gym_http_server.linux import prctl
from gym_http_server.processes.titles import begin_title

__all__ = ["RunningWorld"]

#: Time for a world to end after SIGTERM.
STOP_SECONDS = 2.0

Make = Callable[..., Any]


class RunningWorld:
    """A world that goes on by itself, in a child process.

    The process starts with the first reset. It starts again with a reset within an
    episode, since such a world cannot be reset. A reset after an episode's end waits
    for the world's next episode.

    A capture has the newest sensors. It adds the rewards of all messages since the
    last capture, by channel; the number of those with sensors is ``messages`` in its
    info. Where it takes one message at a time, it has what this one says.

    Args:
        make: Makes the object, as `myrtle_queues.make_world` calls it.

    Attributes:
        ended: Whether the world's last episode has ended.
        singly: Whether a capture takes one message, instead of all.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._process: _Process | None = None
        self._messages: deque[dict[str, Any]] = deque()
        self._in_episode = False
        self._sensors: Any = None
        self._rewards: list[float | None] = []
        self._count = 0
        self.ended = False
        self.singly = False
        # The object may have opened a device, so one that only announces its sizes ends
        # before the next one is made.
        announcing = _Process(make, None, run=False)
        try:
            self.shape = Shape(*announcing.next()["shape"])
        finally:
            announcing.end()
        # It stays the same while processes and their queues come and go.
        self._ear = select.epoll()
        self._hears = False

    def reset(self, seed: int | None, options: Any) -> tuple[Any, dict[str, Any]]:
        """Wait for the first sensors of an episode; return them and an info."""
        if self._process is None or self._in_episode or self.ended:
            self._stop()
            self.ended = False
            self._process = _Process(self._make, seed, run=True)
            self._process.next()
        self._in_episode = True
        self._forget()
        while self._sensors is None:
            if not self._messages:
                self._messages.append(self._process.next())
            if self._take(self._messages.popleft()) and self.ended:
                raise RuntimeError("the world ended before its first sensors")
        # Returned now; rewards that came with them are in the next capture.
        self._count = 0
        return self._sensors, {}

    def send(self, action: Any) -> None:
        """Send an action to the world; ``None`` sends nothing."""
        if action is not None and self._process is not None:
            self._process.put({"actions": np.asarray(action)})

    def capture(self) -> Capture:
        """Return what the world has said since the last capture."""
        if self._process is None:
            raise RuntimeError("the world does not run: expected a reset first")
        over = False
        if not self.ended and not (self.singly and self._messages):
            self._messages.extend(self._process.all())
        while self._messages and not over:
            over = self._take(self._messages.popleft())
            if self.singly:
                break
        captured = Capture(
            self._sensors, self._rewards, False, over, {"messages": self._count}
        )
        self._in_episode = not over
        self._rewards = [None] * self.shape.n_rewards
        self._count = 0
        return captured

    def wait(self) -> None:
        """Do nothing: the world keeps its own time."""

    def end(self, action: Any) -> None:
        """Send the last action."""
        self.send(action)

    @property
    def n_rewards(self) -> int:
        """The number of reward channels."""
        return self.shape.n_rewards

    @property
    def has_more(self) -> bool:
        """Whether a message that has arrived waits for `capture`."""
        return bool(self._messages)

    def fileno(self) -> int:
        """Return a descriptor that is readable when a world that is heard speaks."""
        return self._ear.fileno()

    def listen(self, hears: bool) -> None:
        """Let the descriptor be readable when the world speaks, or not."""
        if hears == self._hears or self._process is None:
            return
        self._hears = hears
        if hears:
            self._ear.register(self._process, select.EPOLLIN)
        else:
            self._ear.unregister(self._process)

    def speaks(self) -> bool:
        """Receive what has arrived; return whether there is a message.

        Raises:
            RuntimeError: The world failed, or its process has ended.
        """
        if not self._messages and not self.ended and self._process is not None:
            self._messages.extend(self._process.all())
        return bool(self._messages)

    def close(self) -> None:
        """End the process, for good."""
        self._stop()
        self._ear.close()

    def _stop(self) -> None:
        """End the process."""
        self.listen(False)
        process, self._process = self._process, None
        self._messages.clear()
        self._in_episode = False
        if process is not None:
            process.end()

    def _forget(self) -> None:
        self._sensors = None
        self._rewards = [None] * self.shape.n_rewards
        self._count = 0

    def _take(self, message: dict[str, Any]) -> bool:
        """Handle a message of the world; return whether it ends the episode."""
        if "sensors" in message:
            self._sensors = self.shape.sensors(message["sensors"])
            self._count += 1
        if message.get("rewards") is not None:
            rewards = self.shape.rewards(message["rewards"])
            self._rewards = [
                new if old is None else old if new is None else old + new
                for old, new in zip(self._rewards, rewards, strict=True)
            ]
        self.ended = bool(message.get("terminated"))
        # At the begin of an episode, it is the end of the one before.
        over = bool(message.get("truncated")) and self._sensors is not None
        return over or self.ended


class _Process:
    """The process of a world, and the queues between it and this one.

    Args:
        make: Makes the world, in the process.
        seed: Seed of the global random generators there, or ``None``.
        run: Whether to run the world, instead of announcing its sizes only.
    """

    def __init__(self, make: Make, seed: int | None, *, run: bool) -> None:
        self._from_world, sensors = ValueQueue.pair()
        self._to_world, actions = ValueQueue.pair()
        host = os.getpid()
        self._pid: int | None = os.fork()
        if self._pid:
            sensors.abandon()
            actions.abandon()
            return
        status = 1
        try:
            fork_guard.claim()
            prctl.die_with_parent(host, signal.SIGKILL)
            close_descriptors([sensors.fileno(), actions.fileno()])
            begin_title("world of")
            _seed(seed)
            status = _run(make, sensors, actions, run=run)
        finally:
            _flush()
            os._exit(status)

    def fileno(self) -> int:
        """Return the descriptor from which the world's messages are read."""
        return self._from_world.fileno()

    def put(self, message: dict[str, Any]) -> None:
        """Send a message to the world."""
        # The next capture reports the end of the process.
        with contextlib.suppress(BrokenPipeError):
            self._to_world.put(message)

    def next(self) -> dict[str, Any]:
        """Wait for the next message of the world.

        Raises:
            RuntimeError: The world failed.
        """
        return _checked(self._get())

    def all(self) -> list[dict[str, Any]]:
        """Return the messages that have arrived.

        Raises:
            RuntimeError: The world failed, or has ended without saying so.
        """
        messages = []
        # A world that is faster than this loop would hold it.
        for _ in range(10_000):
            if self._from_world.empty() and not self._from_world.ended:
                break
            messages.append(self.next())
            if messages[-1].get("terminated"):
                break
        return messages

    def end(self) -> None:
        """End the process: SIGTERM, and SIGKILL if it takes too long."""
        self._from_world.abandon()
        self._to_world.abandon()
        pid, self._pid = self._pid, None
        if pid is None:
            return
        # The world may have set SIGCHLD to be ignored, so nothing waits for it.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGTERM)
            _wait(pid)

    def _get(self) -> Any:
        try:
            return self._from_world.get()
        except EOFError:
            how = self._reap()
            raise RuntimeError(f"the process of the world has ended: {how}") from None

    def _reap(self) -> str:
        pid, self._pid = self._pid, None
        if pid is None:
            return "it was waited for"
        # Its end of the queue is closed, so it ends now, or closed it itself.
        code = os.waitstatus_to_exitcode(_wait(pid))
        return f"signal {-code}" if code < 0 else f"exit status {code}"


def _wait(pid: int) -> int:
    """Wait until a child has ended, kill it if that takes too long, return its status.

    Raises:
        ChildProcessError: It has been waited for.
    """
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(STOP_SECONDS * 1000):
            os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]
    finally:
        os.close(descriptor)


def _checked(message: Any) -> dict[str, Any]:
    """Return a message of a world.

    Raises:
        RuntimeError: It is the report of an exception, or is not a dict.
    """
    if isinstance(message, tuple):
        raise RuntimeError(f"the world raised {message[0]}\n{message[1]}")
    if not isinstance(message, dict):
        raise RuntimeError(
            f"the world put {message!r:.80} into sensor_q: expected a dict with "
            "'sensors', 'rewards', 'truncated' or 'terminated'"
        )
    return message


def _run(make: Make, sensors: ValueQueue, actions: ValueQueue, *, run: bool) -> int:
    """Make a world and run it; return the exit status of this process."""
    try:
        world = make_world(make, sensors, actions)
        sensors.put({"shape": list(Shape.of(world))})
        if run:
            _run_to_end(world)
            # Its last episode is over, whether it said so or not.
            sensors.put({"terminated": True})
        sensors.close()
        return 0
    except env_exceptions() as error:
        text = f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            sensors.put((text, traceback.format_exc()))
            sensors.close()
        with contextlib.suppress(OSError):
            traceback.print_exc()
        return 1


def _run_to_end(world: Any) -> None:
    try:
        world.run()
    except SystemExit as error:
        # Those of Myrtle 0.0.1 to 0.0.5 end so.
        if error.code:
            raise


def _seed(seed: int | None) -> None:
    """Seed the global random generators, which the world may draw from."""
    if seed is None:
        reseed()
    else:
        random.seed(seed)
        np.random.seed(seed % 2**32)


def _flush() -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
