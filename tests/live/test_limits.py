"""Limits: the number of instances, the idle timeout, and the sizes of requests."""

import socket
import threading
from collections.abc import Callable

import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.raw import RawConnection, Response
from tests.support.server import Server
from tests.support.wait import wait_until


def test_creates_beyond_the_slots_are_429(make_server: Callable[..., Server]) -> None:
    server = make_server(
        "--import", "tests.support.envs.hostile", "--max-instances", "4"
    )
    api = Api(server)
    body = {"env_id": "hostile/SlowInit-v0", "kwargs": {"seconds": 1.0}}
    answers: list[Response] = []
    threads = [
        threading.Thread(target=lambda: answers.append(api.post("/v1/envs/", body)))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    made = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status != 200]
    assert len(made) == 4
    for answer in refused:
        calls.error(answer, 429, "too-many-instances")
        assert answer.header("Retry-After")
    calls.Instance(api, made[0].json()["instance_id"]).close()
    assert api.create()


@pytest.fixture
def short_idle_server(make_server: Callable[..., Server]) -> Server:
    """A server that ends instances after a second without use."""
    return make_server("--import", "tests.support.envs.hostile", "--idle-timeout", "1")


def test_idle_instances_are_ended_and_busy_ones_are_not(
    short_idle_server: Server,
) -> None:
    api = Api(short_idle_server)
    idle = api.create()
    busy = api.create("hostile/Slow-v0", kwargs={"seconds": 5.0})
    stepping = api.create()
    for instance in (idle, busy, stepping):
        instance.reset(seed=0)
    answers: list[Response] = []
    step = threading.Thread(
        target=lambda: answers.append(busy.post("step/", {"action": 1}))
    )
    step.start()

    def ended() -> bool:
        if not step.is_alive():
            raise AssertionError("the idle instance outlived a step of 5 s")
        # Neither listing nor looking counts as use.
        stepping.post("reset/", {"seed": 0})
        return idle.get("").status == 410 and idle.id not in api.instances()

    wait_until(ended, message="the idle instance to end")
    assert stepping.reset(seed=0)
    error = calls.error(idle.post("reset/"), 410, "instance-ended")
    assert error["reason"] == "idle"
    step.join(20.0)
    assert calls.ok(answers[0])


def test_a_client_that_leaves_in_create_leaves_nothing(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    api = Api(server)
    body = b'{"env_id": "hostile/SlowInit-v0"}'
    head = f"POST /v1/envs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        wait_until(server.environments, 5.0, "a host")
    wait_until(lambda: not server.environments(), 3.0, "the host to be gone")
    # The supervisor notices the end of a process after the process has ended.
    wait_until(
        lambda: calls.ok(api.get("/v1/"))["instances"] == 0, 3.0, "the slot to be free"
    )
    assert server.instance_folders() == set()


def _head(header_bytes: int, *, whole: bool = True) -> bytes:
    """Return a head whose headers have exactly so many bytes, with few of them."""
    headers = "Host: 127.0.0.1\r\n"
    while (left := header_bytes - len(headers)) > 0:
        size = left if left < 8000 else 7000
        headers += f"X: {'x' * (size - 5)}\r\n"
    # The end of the last line does not count.
    return f"GET /v1/ HTTP/1.1\r\n{headers}".encode()[: None if whole else -2] + b"\r\n"


@pytest.mark.parametrize(
    ("header_bytes", "status"), [(60 * 1024 + 2, 200), (60 * 1024 + 3, 431)]
)
def test_request_heads_have_at_most_64_kib(
    server: Server, header_bytes: int, status: int
) -> None:
    with RawConnection(server.port) as connection:
        connection.send(_head(header_bytes))
        answer = connection.read_response()
    assert answer.status == status
    if status == 431:
        error = calls.error(answer, 431, "headers-too-large")
        assert "61440 bytes for all of them" in error["message"]


def test_a_head_without_end_is_refused_early(server: Server) -> None:
    with RawConnection(server.port) as connection:
        connection.send(_head(70 * 1024, whole=False))
        calls.error(connection.read_response(), 431, "headers-too-large")
