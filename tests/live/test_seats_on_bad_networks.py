"""What a world did is what its players saw, on bad networks and after a kill.

CHAOS_TIMES=170 takes 10,000 steps.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api
from tests.support.envs.meeting import Agent, Meeting
from tests.support.faults.disconnecting_proxy import DisconnectingProxy
from tests.support.faults.http_faults import FaultyNetwork
from tests.support.peers.seat_holder import Entry, SeatHolder
from tests.support.seats import served_agents
from tests.support.server import Server

TIMES = float(os.environ.get("CHAOS_TIMES", "1"))
STEPS = int(60 * TIMES)
#: Steps of an episode.
LIFE = 20
#: The step, in the middle of an episode, at which the first program is killed.
KILLED_AT = STEPS // 2 // LIFE * LIFE + LIFE // 2
FAULTS = 0.1


class Killing(Meeting):
    """A meeting that kills one of its players before that gets the answer to a step.

    Args:
        log: As of a meeting.
        kill: Kills the player.
    """

    def __init__(self, log: list[Any], kill: Callable[[], None]) -> None:
        super().__init__({"a": LIFE, "b": LIFE}, log)
        self._kill = kill

    def step(self, actions: dict[Agent, Any]) -> tuple[dict[Agent, Any], ...]:
        """Take a step; in step `KILLED_AT`, kill the player."""
        answer = super().step(actions)
        if len(steps_of(self.log)) == KILLED_AT:
            self._kill()
        return answer


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * TIMES)
def test_the_log_of_the_world_is_what_both_saw(tmp_path: Path) -> None:
    log: list[Any] = []
    killed = threading.Event()
    ended = threading.Event()

    def kill() -> None:
        a.kill()
        killed.set()

    def cut() -> None:
        """Cut a connection of a seat at every tenth step, on either way."""
        seen = 0
        while not ended.wait(0.01):
            # Else no handshake might succeed.
            if len(log) >= seen + 1 / FAULTS:
                seen = len(log)
                proxy.cut_after(proxy.cuts % 2)

    with (
        Server() as server,
        FaultyNetwork(server.port, probability=FAULTS, seed=4, holds=False) as network,
        DisconnectingProxy(server.port) as proxy,
        served_agents(
            lambda: Killing(log, kill),
            f"http://127.0.0.1:{proxy.port}",
            name="m",
        ),
    ):
        # The first one is killed before it has taken all of its steps.
        a = SeatHolder(network.url, "external/m.a", tmp_path / "a", 10 * STEPS)
        b = SeatHolder(network.url, "external/m.b", tmp_path / "b", STEPS)
        cutting = threading.Thread(target=cut)
        try:
            a.start()
            b.start()
            cutting.start()
            assert killed.wait(30 + 15 * TIMES)
            Api(server).post(f"/v1/envs/{a.instance()}/close/")
            a.start()
            assert b.wait() == 0
        finally:
            ended.set()
            for holder in (a, b):
                holder.kill()
            cutting.join()
        counts = network.counts()
        print(dict(counts), proxy.cuts)
    steps = steps_of(log)
    assert_seen(b.entries(), "b", 1, steps)
    assert_seen(a.entries(), "a", 0, steps)
    assert {each["a"] // 100_000 for each in steps} == {0, 1}
    cuts = [line["cut"] for line in b.written() if "cut" in line]
    assert cuts == ["a left the episode"]
    assert proxy.cuts >= 3


def steps_of(log: list[Any]) -> list[dict[str, int]]:
    """Return the steps of the log of a meeting, without its resets."""
    return [each for each in log if isinstance(each, dict)]


def assert_seen(
    entries: list[Entry], agent: str, index: int, steps: list[dict[str, int]]
) -> None:
    """Compare a journal with the log of the world."""
    left = list(entries)
    for step in steps:
        entry = left.pop(0)
        while entry.seen is None and entry.action != step[agent]:
            # The world did not take it, as the program was killed or the episode cut.
            entry = left.pop(0)
        assert entry.action == step[agent]
        if entry.seen is not None:
            assert entry.seen == [step["a"], step["b"]]
    assert all(entry.seen is None for entry in left)
