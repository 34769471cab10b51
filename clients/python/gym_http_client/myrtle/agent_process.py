"""`AgentProcess` runs an agent in a process, with queues instead of a server."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from typing import Any, Self

from gym_http_core.myrtle_queues import make_agent
from gym_http_core.value_queue import ValueQueue

__all__ = ["AgentFailed", "AgentProcess"]

_END_SECONDS = 5.0


class AgentFailed(RuntimeError):
    """The process of an agent failed; its traceback is on the standard error."""


class AgentProcess:
    """An agent in a process of its own, which is forked: agents need no pickle.

    Args:
        make: Makes the agent, as `myrtle_queues.make_agent` calls it.

    Raises:
        OSError: This system has no forked processes.

    Attributes:
        sensor_q: This process's end of the queue of updates.
        action_q: This process's end of the queue of actions.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise OSError(
                "agents run in forked processes, which this system lacks: run the "
                "trial on Linux or macOS, or in WSL"
            )
        self.sensor_q, sensors = ValueQueue.pair()
        self.action_q, actions = ValueQueue.pair()
        context = multiprocessing.get_context("fork")
        # A daemon ends with this process. If that is killed, the queues end.
        self._process = context.Process(
            target=self._run, args=(make, sensors, actions), daemon=True
        )
        self._process.start()
        sensors.abandon()
        actions.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.sensor_q.abandon()
        self.action_q.abandon()
        self._process.close()

    def stop(self) -> None:
        """End the process: SIGTERM, and SIGKILL if it takes too long."""
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def finish(self) -> None:
        """Announce the end of the world, and wait until the agent has ended.

        Raises:
            AgentFailed: It failed.
        """
        # It may have ended.
        with contextlib.suppress(BrokenPipeError):
            self.sensor_q.put({"terminated": True})
        self._process.join(_END_SECONDS)
        if self._process.exitcode:
            raise AgentFailed(f"the agent {self.end_of()}: see its output above")

    def end_of(self) -> str:
        """Return how the agent's process has ended."""
        self._process.join(_END_SECONDS)
        code = self._process.exitcode
        if code is None:
            return "has closed its queues and goes on"
        return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"

    def _run(
        self, make: Callable[..., Any], sensors: ValueQueue, actions: ValueQueue
    ) -> None:
        # Ctrl-C is for the trial, which then ends this process.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Or they would stay open when the parent closes them.
        self.sensor_q.abandon()
        self.action_q.abandon()
        try:
            make_agent(make, sensors, actions).run()
        except EOFError:
            # The trial was killed.
            if not sensors.ended:
                raise
        sensors.close()
        actions.close()
