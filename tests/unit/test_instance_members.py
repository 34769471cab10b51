"""Tables of instances' members: their limits, and what reading them loads."""

import subprocess
import sys

from gym_http_core import batches, episode_log
from gym_http_server.operations import instances


def test_limits_are_those_of_the_engine() -> None:
    assert instances.MAX_STEPS == batches.MAX_STEPS
    assert instances.MAX_EPISODES == batches.MAX_EPISODES
    assert instances.EPISODES["last"].default == episode_log.MAX_KEPT


def test_tables_load_nothing_heavy() -> None:
    code = "import sys, gym_http_server.operations.table; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "flask", "gevent", "gymnasium"}
    assert not heavy & set(found.stdout.split())
