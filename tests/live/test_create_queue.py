"""Create requests wait for a host, while all else is answered, and come in bursts."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from gym_http_client import RemoteEnv
from tests.support import api as calls
from tests.support.api import Api
from tests.support.raw import RawConnection, exchange
from tests.support.server import Server
from tests.support.wait import wait_until

ENV_ID = "CartPole-v1"
CREATE = {"env_id": ENV_ID}
#: The same as a request.
REQUEST = (
    b"POST /v1/envs/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: 25\r\n\r\n"
    b'{"env_id":"CartPole-v1"}\n'
)
#: Hosts may take as long as the default create deadline.
PATIENCE_S = 120.0
TRAINERS = 16
#: Instances of each, one after the other.
INSTANCES = 4


@pytest.fixture
def busy() -> Iterator[None]:
    """Two processes that occupy the processors, in sessions of their own."""
    # A test run that is killed ends them, too.
    lives = f"os.getppid() == {os.getpid()}"
    loop = [sys.executable, "-c", f"import os\nwhile {lives}: sum(range(100_000))"]
    loops = [subprocess.Popen(loop, start_new_session=True) for _ in range(2)]
    yield
    for each in loops:
        each.kill()
        each.wait()


@contextlib.contextmanager
def without_hosts(server: Server) -> Iterator[None]:
    """Let all create requests wait: no spare host is left, and none is forked."""
    (fork_server,) = server.services("fork server")
    fork_server.send_signal(signal.SIGSTOP)
    try:
        while spares := server.services("spare host"):
            for each in spares:
                # The supervisor ends those that it needs no more.
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            wait_until(lambda spares=spares: not any(e.is_running() for e in spares))
        yield
    finally:
        if fork_server.is_running():
            fork_server.send_signal(signal.SIGCONT)


def burst(server: Server, count: int) -> Counter[int]:
    """Send create requests at the same time; return how often each status came."""
    start = threading.Barrier(count)

    def create(_: int) -> int:
        start.wait()
        return exchange(server.port, REQUEST, timeout=PATIENCE_S).status

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(create, range(count)))


def test_all_else_is_answered_while_creates_wait(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api = Api(server)
    first = api.create()
    with without_hosts(server), ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(api.post, "/v1/envs/", CREATE) for _ in range(8)]
        assert api.get("/healthz").status == 200
        assert api.instances() == {first.id: ENV_ID}
        calls.no_content(first.close())
        assert not any(each.done() for each in waiting)
        (fork_server,) = server.services("fork server")
        fork_server.send_signal(signal.SIGCONT)
        assert {each.result().status for each in waiting} == {200}
    assert len(api.instances()) == 8


def test_a_create_is_dropped_whose_client_has_left(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api = Api(server)
    with without_hosts(server):
        before = server.supervisor.num_fds()
        with RawConnection(server.port) as client:
            client.send(REQUEST)
            wait_until(lambda: server.supervisor.num_fds() == before + 1)
        wait_until(lambda: server.supervisor.num_fds() == before)
    last = api.create()
    assert api.instances() == {last.id: ENV_ID}
    # None was made and then abandoned.
    assert server.stderr.count(" made, an instance") == 1
    assert "abandoned" not in server.stderr


def test_a_create_waits_until_its_deadline(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--create-deadline", "1")
    api = Api(server)
    with without_hosts(server):
        error = calls.error(api.post("/v1/envs/", CREATE), 504, "create-deadline")
    assert "was free within the 1 s allowed" in error["message"]
    calls.no_content(api.create().close())


def test_a_repeated_create_that_waits_makes_one_instance(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api = Api(server)
    key = {"Idempotency-Key": "once"}
    with ThreadPoolExecutor(3) as pool:
        with without_hosts(server):
            before = server.supervisor.num_fds()
            sent = [
                pool.submit(api.post, "/v1/envs/", CREATE, headers=key)
                for _ in range(3)
            ]
            wait_until(lambda: server.supervisor.num_fds() == before + 3)
        made = {calls.ok(each.result())["instance_id"] for each in sent}
    assert api.instances() == dict.fromkeys(made, ENV_ID)
    assert len(made) == 1


@pytest.mark.slow
@pytest.mark.alone
def test_a_burst_on_a_busy_machine_is_served(
    make_server: Callable[..., Server], busy: None
) -> None:
    # The supervisor has 1300 descriptors then, more than select() takes.
    count = 256
    server = make_server("--max-instances", str(count), "--workers", "2")
    api = Api(server)
    assert burst(server, count) == {200: count}
    assert len(api.instances()) == count
    assert api.get("/healthz").status == 200


@pytest.mark.slow
@pytest.mark.alone
def test_trainers_start_together(
    make_server: Callable[..., Server], busy: None
) -> None:
    server = make_server("--max-instances", "64", "--workers", "2")
    start = threading.Barrier(TRAINERS)

    def train(number: int) -> int:
        start.wait()
        with contextlib.ExitStack() as stack:
            for each in range(INSTANCES):
                env = stack.enter_context(
                    contextlib.closing(RemoteEnv(server.url, ENV_ID))
                )
                env.reset(seed=INSTANCES * number + each)
                env.step(0)
            return len(Api(server).instances())

    with ThreadPoolExecutor(TRAINERS) as pool:
        assert all(count >= INSTANCES for count in pool.map(train, range(TRAINERS)))
    assert Api(server).instances() == {}
