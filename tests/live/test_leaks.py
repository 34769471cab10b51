"""Many instances, a third of them ended by failures, leave nothing behind."""

import contextlib
import itertools
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import psutil
import pytest

from gym_http_server.supervisor.output import MAX_KEPT_LOGS
from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api, Instance
from tests.support.server import Server
from tests.support.wait import wait_until

CYCLES = 150
WARM_UP = 60
CLIENTS = 4
MIB = 1 << 20


def normal(api: Api) -> None:
    """Create, use, close."""
    instance = api.create("hostile/Harmless-v0")
    instance.reset(seed=0)
    assert instance.step(0)["observation"] == 1
    calls.no_content(instance.close())


def killed(api: Api) -> None:
    """The host is killed."""
    instance = api.create("hostile/Harmless-v0")
    os.kill(instance.reset()["info"]["pid"], signal.SIGKILL)
    ended(instance)


def overdue(api: Api) -> None:
    """Take a step that exceeds its deadline."""
    instance = api.create("hostile/Loop-v0")
    instance.reset()
    calls.error(instance.post("step/", {"action": 1}), 504, "step-deadline")
    ended(instance)


def client_left(api: Api) -> None:
    """The client leaves while its instance is made."""
    body = b'{"env_id": "hostile/SlowInit-v0"}'
    head = b"POST /v1/envs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", api.server.port)) as connection:
        connection.sendall(head % len(body) + body)


def ended(instance: Instance) -> None:
    """The instance is known as ended."""
    wait_until(lambda: instance.get("").status == 410, 5.0, "the end to be known")


# Six normal lives, then one of each bad end.
LIVES: tuple[Callable[[Api], None], ...] = (
    *(normal, normal, killed, normal, normal, overdue, normal, normal, client_left),
)


def server_processes(server: Server) -> dict[str, psutil.Process]:
    """Return the supervisor and the web workers."""
    found = {}
    for process in psutil.Process(server.pid).children(recursive=True):
        if processes.titled(process, "supervisor"):
            found["supervisor"] = process
        elif processes.titled(process, "web worker"):
            found[f"worker {process.pid}"] = process
    return found


def descriptors_of(name: str, server: Server) -> int:
    """Count the descriptors of the supervisor or of a web worker."""
    if name == "supervisor":
        return server.supervisor_descriptors()
    return server_processes(server)[name].num_fds()


def run(api: Api, lives: Iterator[Callable[[Api], None]]) -> None:
    """Run all instances, distributed over four clients."""
    errors: list[BaseException] = []
    lock = threading.Lock()

    def work() -> None:
        with contextlib.suppress(StopIteration):
            while not errors:
                with lock:
                    life = next(lives)
                try:
                    life(api)
                except BaseException as error:
                    errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.timeout(600)
def test_nothing_piles_up(make_server: Callable[..., Server]) -> None:
    server = make_server(
        *("--import", "tests.support.envs.hostile", "--workers", "2"),
        *("--step-deadline", "0.2", "--max-instances", "32"),
    )
    api = Api(server)
    processes = server_processes(server)
    assert len(processes) == 3
    (remover,) = wait_until(lambda: server.services("remover"))
    # Before the first life: after it, connections to ended hosts wait to be swept.
    open_before = {name: descriptors_of(name, server) for name in processes}
    run(api, itertools.islice(itertools.cycle(LIVES), WARM_UP))
    empty(api)
    resident = {name: p.memory_info().rss for name, p in processes.items()}
    run(api, itertools.islice(itertools.cycle(LIVES), CYCLES))
    empty(api)
    assert server_processes(server) == processes
    for name, process in processes.items():
        # Logs of the last instances that ended are kept open.
        kept = MAX_KEPT_LOGS if name == "supervisor" else 0
        descriptors = open_before[name] + kept
        wait_until(
            lambda e=name, n=descriptors: abs(descriptors_of(e, server) - n) <= 5,
            10.0,
            f"the descriptors of {name} to be {descriptors} again",
        )
        assert process.num_threads() <= 2, name
        assert process.memory_info().rss - resident[name] < 3 * MIB, name
    staying = {*processes.values(), *gunicorn(server), remover}
    wait_until(lambda: server.members() == staying, message="no other process")
    assert server.instance_folders() == set()


def empty(api: Api) -> None:
    """Wait until no instance is left, nor being made."""
    wait_until(
        lambda: calls.ok(api.get("/v1/"))["instances"] == 0, 10.0, "an empty server"
    )


def gunicorn(server: Server) -> set[psutil.Process]:
    """Return gunicorn's arbiter."""
    children = psutil.Process(server.pid).children()
    return {p for p in children if processes.titled(p, "gunicorn")}
