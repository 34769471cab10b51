"""Many silent connections of OpenEnv cost others nothing, and free their slots."""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.api import Api, Instance
from tests.support.raw import RawConnection
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.timeout(900)]

#: How many, and for how long they are silent. The figures of a release are 500 and 120:
#: OPENENV_CROWD=500 OPENENV_SILENCE_S=120 pytest -s tests/live/test_openenv_crowd.py
CROWD = int(os.environ.get("OPENENV_CROWD", "12"))
SILENCE_S = float(os.environ.get("OPENENV_SILENCE_S", "0.5"))
STEPS = 400
#: A client in a process of its own, which answers pings and steps when it is told to.
PEER = """
import select, sys, time
from tests.support.peers.openenv import OpenEnvClient
from tests.support.server import Server
from tests.support.websocket import PING, PONG

port, count = map(int, sys.argv[1:])
server = Server.__new__(Server)
server.port, server.token = port, None
clients = [OpenEnvClient.connect(server, timeout=120) for _ in range(count)]
sockets = {each._socket: each for each in clients}

def answer_pings(timeout):
    ready = select.select([sys.stdin, *sockets], [], [], timeout)[0]
    for sock in set(ready) - {sys.stdin}:
        opcode, payload = sockets[sock].read_frame()
        assert opcode == PING, (opcode, payload)
        sockets[sock].send_frame(PONG, payload)
    return sys.stdin in ready

for each in clients:
    each.reset(seed=1)
    answer_pings(0)
print("ready", flush=True)
while not answer_pings(None):
    pass
rewards = [each.step(1)["reward"] for each in clients]
print(sum(rewards), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def crowd(server: Server, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start programs with so many connections, each with an instance."""
    with contextlib.ExitStack() as stack:
        started = []
        for first in range(0, count, 50):
            more = min(50, count - first)
            peer = subprocess.Popen(
                [sys.executable, "-c", PEER, str(server.port), str(more)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(peer)
            stack.callback(peer.kill)
            started.append(peer)
        for peer in started:
            assert peer.stdout
            assert peer.stdout.readline() == "ready\n"
        yield started


def median_step(instance: Instance) -> float:
    """Return the seconds that a step takes over REST, on a connection that is kept."""
    port = instance.api.server.port
    body = b'{"action": 0}'
    head = f"POST {instance.path('step/')} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    took = []
    with RawConnection(port) as rest:
        for _ in range(STEPS):
            began = time.perf_counter()
            rest.send(head.encode() + body)
            assert rest.read_response().status == 200
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def test_a_silent_crowd_is_answered_and_frees_its_slots(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--workers", "2", "--max-instances", str(CROWD + 1))
    api = Api(server)
    mine = api.create("FrozenLake-v1", max_episode_steps=-1)
    mine.reset()
    before = [median_step(mine) for _ in range(3)]
    with crowd(server, CROWD) as peers:
        assert len(api.instances()) == CROWD + 1
        quiet_until = time.monotonic() + SILENCE_S
        among = [median_step(mine) for _ in range(3)]
        remaining = quiet_until - time.monotonic()
        if remaining > 0:
            # Nothing can be waited for: that nothing happens is the subject.
            time.sleep(remaining)
        for peer in peers:
            assert peer.stdin
            peer.stdin.write("step\n")
            peer.stdin.flush()
        rewards = [float(p.stdout.readline()) for p in peers if p.stdout]
        assert sum(rewards) == CROWD
        began = time.monotonic()
        for peer in peers:
            os.kill(peer.pid, signal.SIGKILL)
        wait_until(lambda: set(api.instances()) == {mine.id}, 15.0, "the free slots")
    freed_s = time.monotonic() - began
    print(f"\n{CROWD} killed: slots free after {freed_s:.1f} s")
    ratio = min(among) / min(before)
    print(f"a step of others: {1e3 * min(before):.3f} ms, then {ratio:.2f} times that")
    assert freed_s < 60
    mine.close()
