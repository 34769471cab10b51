"""Trainers go on while servers of a fleet are drained, restarted, and added.

CHAOS_TIMES=5 restarts all servers, one after the other, with 30 trainers.
"""

import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from gym_http_client import RemoteEnv, Server
from tests.support.api import Api, Instance
from tests.support.fleet import linked_fleet, node, refusal, wait_until_known
from tests.support.identity import assert_identical
from tests.support.nginx import round_robin
from tests.support.wait import wait_until

NAMES = ("one", "two", "three")
TIMES = float(os.environ.get("CHAOS_TIMES", "1"))
TRAINERS = 3 if TIMES == 1 else int(6 * TIMES)
RESTARTED = 1 if TIMES == 1 else len(NAMES)
DRAIN_SECONDS = 2 if TIMES == 1 else 20

pytestmark = [pytest.mark.live, pytest.mark.toolchain]


class Trainer:
    """Makes an environment for each episode, and compares it with a local one.

    Args:
        url: The fleet.
        number: Determines seeds, and whether streams are used.
    """

    def __init__(self, url: str, number: int) -> None:
        self.made: Counter[str] = Counter()
        self._server = Server(url, streams=number % 2 == 0)
        self._seed = number
        self._local: Any = gymnasium.make("CartPole-v1")

    def run(self, stop: threading.Event) -> None:
        """Train until it is stopped."""
        while not stop.is_set():
            remote = RemoteEnv.over(self._server.create({"env_id": "CartPole-v1"}))
            self.made[remote.instance_id[:3]] += 1
            self._episode(remote)
            remote.close()
        self._local.close()

    def _episode(self, remote: RemoteEnv) -> None:
        self._seed += 100
        ours = remote.reset(seed=self._seed)
        assert_identical(ours, self._local.reset(seed=self._seed))
        self._local.action_space.seed(self._seed)
        over = False
        while not over:
            action = self._local.action_space.sample()
            expected = self._local.step(action)
            assert_identical(remote.step(action), expected)
            over = expected[2] or expected[3]


@pytest.mark.timeout(120 + 60 * TIMES)
def test_trainers_go_on_while_servers_are_restarted(tmp_path: Path) -> None:
    flags = ("--drain-until-idle", str(DRAIN_SECONDS), "--max-instances", "128")
    with linked_fleet(*NAMES, args=flags) as (redis, linked):
        servers = [each.server for each in linked]
        stop = threading.Event()
        with (
            round_robin(tmp_path, servers) as port,
            ThreadPoolExecutor(TRAINERS) as pool,
        ):
            url = f"http://127.0.0.1:{port}"
            trainers = [Trainer(url, number) for number in range(TRAINERS)]
            ends = [pool.submit(trainer.run, stop) for trainer in trainers]
            try:
                for name, each in list(zip(NAMES, servers, strict=True))[:RESTARTED]:
                    # Nobody closes it, so it outlasts the drain.
                    held = Api(each).create(node=name).id
                    os.kill(each.pid, signal.SIGTERM)
                    each.wait_exit(DRAIN_SECONDS + 30.0)
                    other = next(Api(one) for one in servers if one is not each)
                    wait_until(
                        lambda other=other, held=held: (
                            refusal(Instance(other, held).post("reset/"))
                            == (410, "instance-ended", "node-drained")
                        )
                    )
                    each.launch_again()
                    wait_until_known(redis, servers)
                    for over in wait(ends, 0.5, FIRST_EXCEPTION).done:
                        over.result()
                with node(redis, "four") as four:
                    began = time.monotonic()
                    number = Api(four).create(node="four").id[:3]
                    wait_until(
                        lambda: any(each.made[number] for each in trainers),
                        10.0,
                        "a create on the new server",
                    )
                    print(f"{time.monotonic() - began:.2f} s until a create")
                    stop.set()
                    wait(ends)
            finally:
                stop.set()
            for each in ends:
                each.result()
        made = sum((each.made for each in trainers), Counter())
        print(f"{made.total()} episodes on {dict(made)}")
        assert len(made) >= 4
