"""The list of instances that the supervisor makes."""

import json
import time

from gym_http_server.supervisor.instance import Ended, Tombstones
from gym_http_server.supervisor.listing import listed


def test_the_last_hundred_that_ended_are_listed() -> None:
    tombstones = Tombstones()
    for number in range(150):
        ended = Ended("CartPole-v1", "closed", 0, "a long tail", time.monotonic())
        tombstones.add(f"{number:08x}", ended)
    rows = json.loads(listed([], tombstones.newest_first()))["ended"]
    wanted = [f"{number:08x}" for number in range(149, 49, -1)]
    assert [row["instance_id"] for row in rows] == wanted
    assert "a long tail" not in str(rows)
