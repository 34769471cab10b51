"""The faults: each kills a process and waits until the server has recovered."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.processes import gunicorn
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

RECOVERY_SECONDS = 30.0
PAUSE_SECONDS = 5.0

_CLIENT = """
import sys, gym_http_client
env = gym_http_client.RemoteEnv(sys.argv[1], "CartPole-v1")
env.reset()
print("stepping", flush=True)
while True:
    env.step(0)
"""


def kill_host(server: Server) -> None:
    """Kill the host of an instance; its ID is known as ended then."""
    api = Api(server)
    answer = _persistent(api, "POST", "/v1/envs/", {"env_id": "hostile/Harmless-v0"})
    instance = Instance(api, answer["instance_id"])
    answer = _persistent(api, "POST", instance.path("reset/"), {})
    os.kill(answer["info"]["pid"], signal.SIGKILL)
    wait_until(
        lambda: _status(api, instance.path()) == 410,
        RECOVERY_SECONDS,
        "the end to be known",
    )


def kill_worker(server: Server) -> None:
    """Kill a web worker; gunicorn starts another."""
    _pause()
    _, workers = gunicorn(server.pid)
    victim = random.choice(sorted(workers, key=lambda each: each.pid))
    victim.kill()
    wait_until(
        lambda: len(gunicorn(server.pid)[1] - {victim}) == len(workers),
        RECOVERY_SECONDS,
        "another web worker",
    )


def kill_broker(server: Server) -> None:
    """Kill the process that holds the free connections of external environments."""
    _pause()
    before = _broker(server)
    if before is not None:
        before.kill()
        wait_until(
            lambda: _broker(server) not in (None, before),
            RECOVERY_SECONDS,
            "another broker",
        )


def kill_client(server: Server) -> None:
    """Kill a client that steps; the idle timeout ends its instance."""
    with subprocess.Popen(
        [sys.executable, "-c", _CLIENT, server.url],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'clients' / 'python'}"},
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"stepping\n"
        client.kill()


def _pause() -> None:
    # Nothing is waited for: the load goes on between two kills.
    time.sleep(PAUSE_SECONDS)


def _broker(server: Server) -> psutil.Process | None:
    return next(iter(server.services("broker")), None)


def _persistent(api: Api, method: str, path: str, body: object) -> Any:
    """Send a request again where a killed web worker did not answer it."""

    def sent() -> Any:
        try:
            return calls.ok(api.request(method, path, body))
        except OSError:
            return None

    return wait_until(sent, RECOVERY_SECONDS, f"an answer to {method} {path}")


def _status(api: Api, path: str) -> int:
    try:
        return api.get(path).status
    except OSError:
        return 0


FAULTS: dict[str, Callable[[Server], None]] = {
    "kill_host": kill_host,
    "kill_worker": kill_worker,
    "kill_broker": kill_broker,
    "kill_client": kill_client,
}
