"""Metrics after twenty instances that ended in every way there is."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from gym_http_client import RemoteEnv
from tests.live.test_metrics import Values, metrics, sums
from tests.support.api import Api, Instance, error, ok
from tests.support.peers.agent_calls import create_external, reset_external
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.zmq_peers import zmq_url
from tests.support.processes import titled
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until
from tests.support.websocket import TEXT, WebSocket

FLAGS = (
    *("--import", "tests.support.envs.hostile", "--max-instances", "3"),
    # On a busy machine, a leak needs seconds to reach the limit of memory. A stopped
    # host has to meet the deadline before the idle timeout.
    *("--step-deadline", "6", "--idle-timeout", "14", "--orphan-timeout", "0.5"),
    *("--host-memory", "300M", "--external-grace", "0.5", "--workers", "2"),
    *("--zmq", "tcp://127.0.0.1:0"),
)
HARMLESS = "hostile/Harmless-v0"
ORPHAN = """
import os, signal, sys
from gym_http_client import RemoteEnv
env = RemoteEnv(sys.argv[1], "Acrobot-v1")
env.reset(seed=0)
env.step(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Truth:
    """The instances that a test made, the steps that it took, and their ends.

    Args:
        api: A client of the server.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.made: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.ends: Counter[tuple[str, str]] = Counter()
        self._last: Values = {}

    def make(self, env_id: str = HARMLESS, **options: Any) -> Instance:
        """Make an instance, and reset it."""
        self.made[env_id] += 1
        instance = self.api.create(env_id, **options)
        instance.reset(seed=1)
        return instance

    def take(self, env_id: str, count: int) -> None:
        """Note steps."""
        self.steps[env_id] += count

    def end(self, env_id: str, reason: str) -> None:
        """Wait until the metrics have an end; check that none of them has fallen."""
        self.ends[env_id, reason] += 1
        key = "gym_instances_ended_total", (env_id, reason)
        wanted = self.ends[env_id, reason]
        wait_until(lambda: metrics(self.api).get(key) == wanted, 25.0, f"an end: {key}")
        self.check_none_fell()

    def check_none_fell(self) -> None:
        """Check that no counter has fallen since the last check."""
        now = sums(metrics(self.api))
        for key, value in self._last.items():
            assert now[key] >= value, key
        self._last = now


def test_metrics_agree_after_ends_of_every_kind(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server(*FLAGS, token=None))
    truth = Truth(api)
    _close_after_steps_through_every_door(truth)
    _crash(truth)
    _exceed_limits(truth)
    _lose_peers(truth)
    _leave(truth)
    assert truth.made.total() == 20
    values = metrics(api)
    for env_id, count in truth.made.items():
        assert values["gym_instances_made_total", (env_id,)] == count, env_id
    for env_id, count in truth.steps.items():
        assert values["gym_steps_total", (env_id,)] == count, env_id
    ended = {
        labels: value
        for (name, labels), value in values.items()
        if name == "gym_instances_ended_total"
    }
    assert ended == truth.ends
    assert values["gym_slots_taken", ()] == 0


def _close_after_steps_through_every_door(truth: Truth) -> None:
    api = truth.api
    rest = truth.make()
    rest.step(0)
    rest.post("step/", {"actions": [0, 0, 0]})
    with WebSocket.to(rest, sec_websocket_protocol=TEXT) as stream:
        stream.call(op="step", action=0)
    truth.take(HARMLESS, 5)
    rest.close()
    truth.end(HARMLESS, "closed")
    other = truth.make()
    ok(other.post("rollout/", {"actions": [[0, 0], [0]]}))
    step = {"instance_id": other.id, "action": 0}
    ok(api.post("/v1/batch/step/", {"steps": [step]}))
    truth.take(HARMLESS, 4)
    assert api.request("DELETE", other.path()).status in (200, 204)
    truth.end(HARMLESS, "closed")
    vector = truth.make("CartPole-v1", num_envs=4)
    vector.step([0, 1, 0, 1])
    truth.take("CartPole-v1", 4)
    vector.close()
    truth.end("CartPole-v1", "closed")
    for url in (api.server.url, zmq_url(api.server)):
        truth.made["MountainCar-v0"] += 1
        with RemoteEnv(url, "MountainCar-v0") as env:
            env.reset(seed=1)
            for _ in range(7):
                env.step(0)
        truth.take("MountainCar-v0", 7)
        truth.end("MountainCar-v0", "closed")


def _crash(truth: Truth) -> None:
    for vice in ("Segfault", "Abort", "KillSelf", "Exit0", "KillSelf"):
        env_id = f"hostile/{vice}-v0"
        instance = truth.make(env_id)
        instance.step(0)
        truth.take(env_id, 1)
        error(instance.post("step/", {"action": 1}), 502, "env-crashed")
        truth.end(env_id, "crashed")
    # From outside, between two calls.
    instance = truth.make()
    instance.step(0)
    truth.take(HARMLESS, 1)
    truth.api.server.host(instance.id).kill()
    truth.end(HARMLESS, "crashed")
    # A web worker's death changes nothing.
    next(e for e in truth.api.server.members() if titled(e, "web worker")).kill()
    wait_until(lambda: truth.api.get("/readyz").status == 200, 20.0, "a web worker")
    truth.check_none_fell()


def _exceed_limits(truth: Truth) -> None:
    loop = truth.make("hostile/GilLoop-v0")
    error(loop.post("step/", {"action": 1}), 504, "step-deadline")
    truth.end("hostile/GilLoop-v0", "step-deadline")
    stopped = truth.make()
    os.kill(stopped.reset()["info"]["pid"], signal.SIGSTOP)
    error(stopped.post("step/", {"action": 0}), 504, "step-deadline")
    truth.end(HARMLESS, "unresponsive")
    leak = truth.make("hostile/Leak-v0")
    error(leak.post("step/", {"action": 1}), 502, "env-crashed")
    truth.end("hostile/Leak-v0", "memory")


def _lose_peers(truth: Truth) -> None:
    api = truth.api
    with ExternalEnv.to(api) as external:
        env_id = "external/game"
        truth.made[env_id] += 1
        instance = create_external(api, external)
        reset_external(instance, external)
    truth.end(env_id, "external-gone")
    clock = {"mode": "free_running", "hz": 50, "default_action": [0.0]}
    lost = {"agent_timeout_s": 0.2, "on_agent_lost": "close"}
    truth.make("Pendulum-v1", realtime=clock | lost)
    truth.end("Pendulum-v1", "agent-lost")


def _leave(truth: Truth) -> None:
    api = truth.api
    truth.made["Acrobot-v1"] += 1
    python_path = str(ROOT / "clients" / "python")
    subprocess.run(
        [sys.executable, "-c", ORPHAN, api.server.url],
        env={**os.environ, "PYTHONPATH": python_path},
    )
    truth.take("Acrobot-v1", 1)
    idle = [truth.make(), truth.make()]

    def successor() -> Instance | None:
        for each in idle:
            each.get("action_space/")
        made = api.post("/v1/envs/", {"env_id": "Blackjack-v1"})
        return Instance(api, made.json()["instance_id"]) if made.status == 200 else None

    follower = wait_until(successor, 20.0, "the orphan's slot")
    truth.made["Blackjack-v1"] += 1
    truth.end("Acrobot-v1", "orphaned")
    follower.close()
    truth.end("Blackjack-v1", "closed")
    truth.ends[HARMLESS, "idle"] += 1
    truth.end(HARMLESS, "idle")
