"""Measures what busy polling costs other processes: one on each core beside a stream.

These neighbours compute without end. The stream's two ends poll for messages before
they sleep, as they do by default, or never.
"""

from __future__ import annotations

import functools
import threading
import time

from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Mode, available
from benchmarks.report import Row, row
from benchmarks.servers import our_server
from gym_http_client.bench.agents import ENV_ID, StreamAgent
from gym_http_client.bench.players import Players, Round
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.server import Server

__all__ = ["StillAgent", "spin_neighbour", "spin_neighbour_idle"]

_BASELINE = "no spinning"
# A turn of a neighbour takes about half a millisecond.
_ADDENDS = range(20_000)
_PAUSE_SECONDS = 0.002


class _Neighbour:
    """Computes, without any server."""

    def __init__(self, url: str, seed: int) -> None:
        pass

    def reset(self) -> None:
        """Do nothing: there are no episodes."""

    def step(self, action: int) -> bool:
        """Take a turn."""
        sum(_ADDENDS)
        return False

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class StillAgent(StreamAgent):
    """Never polls: it sleeps at once."""

    def __init__(self, url: str, seed: int) -> None:
        self._env = RemoteEnv(Server(url, spin_us=0), ENV_ID)
        self._first_seed = seed


class _IdleAgent(StreamAgent):
    """Pauses before each step, for longer than the other end polls."""

    def step(self, action: int) -> bool:
        """Wait, and take a step."""
        time.sleep(_PAUSE_SECONDS)
        return super().step(action)


class _StillIdleAgent(_IdleAgent, StillAgent):
    """Pauses as long, and never polls."""


def spin_neighbour(plan: Plan) -> list[Row]:
    """Measure neighbours of a stream that is used without pauses."""
    return _beside(plan, "spin_neighbour", StreamAgent, StillAgent)


def spin_neighbour_idle(plan: Plan) -> list[Row]:
    """Measure neighbours of a stream on which polling is in vain."""
    return _beside(plan, "spin_neighbour_idle", _IdleAgent, _StillIdleAgent)


def _beside(
    plan: Plan, name: str, spins: type[StreamAgent], still: type[StreamAgent]
) -> list[Row]:
    plan.say(f"{name}: starting")
    cores = available()
    with (
        our_server(cores) as ours,
        our_server(cores, "--spin-us", "0") as theirs,
        Players(spins, ours.url, 1) as spinning,
        Players(still, theirs.url, 1) as sleeping,
        Players(_Neighbour, "", len(cores)) as neighbours,
    ):
        measure = functools.partial(_turns, plan, neighbours)
        rounds = in_turn(plan, lambda: measure(spinning), lambda: measure(sleeping))
    figures = [median([result.rate for result in side]) for side in rounds]
    return [row(name, Mode.FREE, figures[0], "turns/s", _BASELINE, figures[1])]


def _turns(plan: Plan, neighbours: Players, stream: Players) -> Round:
    """Let the neighbours compute while the stream is used."""
    use = threading.Thread(target=stream.play, args=(plan.seconds,))
    use.start()
    try:
        result = neighbours.play(plan.seconds)
    finally:
        use.join()
    plan.say(f"  {result.rate:10.1f} turns/s")
    return result
