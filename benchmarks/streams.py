"""Compares the duration of a step over a stream with that of an empty round trip."""

from __future__ import annotations

from benchmarks.gauges import MICROSECONDS
from benchmarks.measuring import Plan
from benchmarks.ping_pong import BESIDE_PING_PONG, BESIDE_STEP_AND_PING_PONG
from benchmarks.pinning import Mode
from benchmarks.race import race
from benchmarks.report import Row
from gym_http_client.bench.agents import StreamAgent

__all__ = ["InnerAgent", "remote_env_same", "stream_same", "stream_split"]


class InnerAgent(StreamAgent):
    """Sends the requests of `RemoteEnv` for a step, without its wrapping code."""

    def reset(self) -> None:
        """Begin an episode, over a stream."""
        super().reset()
        # The handle that `RemoteEnv` uses; another row measures `RemoteEnv` itself.
        handle = self._env._handle
        assert handle
        self._call = handle.call

    def step(self, action: int) -> bool:
        """Take a step."""
        answer = self._call("POST", "step/", {"action": action})
        return bool(answer["terminated"] or answer["truncated"])


def stream_same(plan: Plan) -> list[Row]:
    """Measure the stream on one core."""
    return _stream(plan, "stream_same", Mode.SAME)


def stream_split(plan: Plan) -> list[Row]:
    """Measure the stream across cores, where our ends poll before they sleep."""
    return _stream(plan, "stream_split", Mode.SPLIT)


def remote_env_same(plan: Plan) -> list[Row]:
    """Measure whole steps of a `RemoteEnv`."""
    return race(
        plan.halved(),
        "remote_env_same",
        Mode.SAME,
        StreamAgent,
        1,
        BESIDE_STEP_AND_PING_PONG,
        gauge=MICROSECONDS,
    )


def _stream(plan: Plan, name: str, mode: Mode) -> list[Row]:
    return race(
        plan.halved(), name, mode, InnerAgent, 1, BESIDE_PING_PONG, gauge=MICROSECONDS
    )
