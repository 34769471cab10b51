"""When no process can be started, only requests that need a new one are refused.

The limit of processes does not bind root, so the server runs as a separate user.
"""

import contextlib
import os
import resource
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api
from tests.support.other_user import USER, as_another_user
from tests.support.server import Server
from tests.support.wait import wait_until

SERVICES = {"fork server", "spare host", "remover", "broker", "gateway"}
CREATE = {"env_id": "CartPole-v1"}


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Iterator[Server]:
    """A server that the limit of processes binds, with all services."""
    prefix = as_another_user()
    with tempfile.TemporaryDirectory(prefix="ghst-", dir="/tmp") as data:
        os.chown(data, USER, USER)
        options = ("--zmq", "tcp://127.0.0.1:0", "--data-dir", data)
        started = make_server(*options, prefix=prefix)
        wait_until(lambda: services(started) == SERVICES, 10.0, "all services")
        yield started


def services(server: Server) -> set[str]:
    """Return the titles of the processes below the supervisor that are no hosts."""
    below = processes.descendants(server.supervisor.pid)
    return {name for name in SERVICES for each in below if processes.titled(each, name)}


def limit(process: psutil.Process, processes: int) -> None:
    """Limit the number of processes of a process's user."""
    # By that user, since root may lack the permission here.
    command = ["prlimit", "--pid", str(process.pid), f"--nproc={processes}:"]
    subprocess.run(command, check=True, user=USER, group=USER, extra_groups=())


def limit_of(process: psutil.Process) -> int:
    """Return the limit of processes of a process."""
    words = Path(f"/proc/{process.pid}/limits").read_text()
    (line,) = (each for each in words.splitlines() if "Max processes" in each)
    return int(line.split()[2].replace("unlimited", "-1"))


@pytest.fixture
def exhausted(server: Server) -> Iterator[Callable[[], None]]:
    """The server can start no process until the given function is called."""
    supervisor = server.supervisor
    before = limit_of(supervisor)
    forking = [supervisor, *server.services("fork server")]

    def relieve() -> None:
        for each in forking:
            if each.is_running():
                limit(each, before)

    for each in forking:
        limit(each, 0)

    def without_spare_hosts() -> bool:
        processes.kill(waiting := server.services("spare host"))
        return not waiting

    wait_until(without_spare_hosts, 10.0, "no spare host")
    yield relieve
    relieve()


def test_requests_that_need_a_process_are_refused_and_leave_nothing(
    server: Server, exhausted: Callable[[], None]
) -> None:
    api = Api(server)
    key = {"Idempotency-Key": "once"}
    descriptors = server.supervisor_descriptors()
    for path, body in (("/v1/envs/", CREATE), ("/v1/registry/", None)):
        for _ in range(5):
            answer = api.post(path, body) if body else api.get(path)
            error = calls.error(answer, 503, "fork-failed")
            assert "Resource temporarily unavailable" in error["message"]
            assert answer.header("Retry-After")
        # Connections of web workers end a moment later.
        wait_until(lambda: server.supervisor_descriptors() == descriptors)
    answer = api.post("/v1/envs/", CREATE, headers=key)
    calls.error(answer, 503, "fork-failed")
    assert api.instances() == {}
    assert server.instance_folders() == set()
    exhausted()
    made = calls.ok(api.post("/v1/envs/", CREATE, headers=key))
    calls.no_content(calls.Instance(api, made["instance_id"]).close())
    assert calls.ok(api.get("/v1/registry/"))["count"] > 0


def test_services_that_end_are_started_once_that_is_possible(server: Server) -> None:
    api = Api(server)
    supervisor = server.supervisor
    instance = api.create()
    instance.reset()
    named = SERVICES - {"spare host"}

    def running() -> list[psutil.Process]:
        children = supervisor.children()
        return [c for c in children for n in named if processes.titled(c, n)]

    # A new spare host has the title of the fork server for a moment.
    wait_until(lambda: len(running()) == len(named), 10.0, "one process per service")
    ended = running()
    before = limit_of(supervisor)
    limit(supervisor, 0)
    try:
        for each in ended:
            each.kill()
        for name in named:
            wait_until(
                lambda name=name: f"cannot start the {name} yet" in server.stderr, 10.0
            )
        error = calls.error(api.post("/v1/external/", {}), (400, 503))
        assert error["code"] == "fork-failed"
        assert instance.step(0)
        assert api.instances() == {instance.id: "CartPole-v1"}
    finally:
        limit(supervisor, before)
    wait_until(lambda: services(server) == SERVICES, 10.0, "all services")
    assert api.post("/v1/external/", {}).status == 400
    calls.no_content(instance.close())


def settled(server: Server) -> int:
    """Count the supervisor's descriptors, once no more spare hosts are made."""
    wait_until(lambda: server.services("spare host"), 10.0, "a spare host")
    last: deque[int] = deque(maxlen=20)

    def same() -> bool:
        last.append(server.supervisor.num_fds())
        return len(last) == 20 and len(set(last)) == 1

    wait_until(same, 10.0, "the same number of descriptors")
    return server.supervisor_descriptors()


@contextlib.contextmanager
def free_descriptors(process: psutil.Process, count: int) -> Iterator[None]:
    """Permit a process to open one more file, or none."""
    # Of several looks, since it opens files of /proc now and then.
    looks = [set(os.listdir(f"/proc/{process.pid}/fd")) for _ in range(10)]
    used = {int(each) for each in set.intersection(*looks)}
    free = min(set(range(len(used) + 1)) - used)
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (free + count, hard))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_a_supervisor_without_descriptors_opens_no_monitor_and_lives(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api, supervisor = Api(server), server.supervisor
    before = settled(server)
    instance = api.create()
    instance.reset()
    # Its channel, output and log, its status page and the mapping of that, and the file
    # of instance IDs. The connection of the web worker ends a moment later, and the
    # next spare host has one.
    wait_until(lambda: settled(server) == before + 6, 20.0)
    monitor = {"directory": "one", "force": True, "resume": False}
    with free_descriptors(supervisor, 1):
        error = calls.error(instance.post("monitor/start/", monitor), 507, "disk-full")
        assert "could not open a file" in error["message"]
    assert "no process can be started to open a file" in server.stderr
    assert api.instances() == {instance.id: "CartPole-v1"}
    calls.no_content(instance.post("monitor/start/", monitor))
    calls.no_content(instance.post("monitor/close/"))
    calls.no_content(instance.close())


def test_a_supervisor_without_descriptors_reports_it(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api, supervisor = Api(server), server.supervisor
    idle = settled(server)
    instance = api.create()
    wait_until(lambda: settled(server) == idle + 6, 20.0)
    with free_descriptors(supervisor, 1):
        for answer, words in (
            (api.get("/v1/registry/"), "Too many open files"),
            (api.post("/v1/envs/", CREATE), "Too many open files"),
            # Last, since the broker is started again and again from then on.
            (api.post("/v1/external/", {}), "Too many open files"),
        ):
            problem = calls.error(answer, (429, 503))
            assert words in problem["message"], problem
            assert answer.header("Retry-After")
    assert calls.ok(api.get("/v1/registry/?search=CartPole"))["count"]
    instance.reset()


def test_a_supervisor_that_can_accept_nothing_rests(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api, supervisor = Api(server), server.supervisor
    with free_descriptors(supervisor, 0):
        before = sum(supervisor.cpu_times()[:2])
        body = api.get("/v1/registry/")
        calls.error(body, 503, "supervisor-unavailable")
        assert body.header("Retry-After")
        # The request waited for seconds.
        assert sum(supervisor.cpu_times()[:2]) - before < 1.0
    wait_until(lambda: api.get("/v1/registry/").status == 200, 30.0)
