"""No way to create an instance retries when no external environment is connected."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from gym_http_client import Client, RemoteEnv, RemoteVectorEnv, Retries, ServerError
from gym_http_client import Server as Place
from gym_http_client.gym3 import Gym3Env
from tests.support.peers.zmq_peers import zmq_url
from tests.support.server import Server

ENV_ID = "external/nobody"

# A client that retried would do so for two minutes.
pytestmark = pytest.mark.timeout(40)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--zmq", "tcp://127.0.0.1:0") as server:
        yield server


@pytest.fixture(autouse=True)
def errors_are_collected(nothing_left_behind: None) -> Iterator[None]:
    """Free the errors: they hold their answers, which hold their connections."""
    yield
    gc.collect()


def never(_pause: float) -> None:
    raise AssertionError("it is asked again")


def retries(total: float = 120.0) -> Retries:
    return Retries(total=total, sleep=never)


def away(create: Callable[[], Any]) -> None:
    with pytest.raises(ServerError) as caught:
        create()
    assert (caught.value.status_code, caught.value.code) == (503, "external-away")
    assert f"{ENV_ID} is not connected" in caught.value.message


@pytest.mark.parametrize("wait", [{}, {"wait_s": 0}, {"wait_s": 1}])
@pytest.mark.parametrize(
    "of", [lambda server: server.url, zmq_url], ids=["http", "zmq"]
)
def test_adapters(
    server: Server, of: Callable[[Server], str], wait: dict[str, Any]
) -> None:
    there = Place(of(server), retries=retries())
    away(lambda: RemoteEnv(there, ENV_ID, **wait))
    away(lambda: RemoteVectorEnv(there, ENV_ID, num_envs=2, **wait))
    away(lambda: Gym3Env(RemoteVectorEnv(there, ENV_ID, num_envs=2, **wait)))


def test_gymnasium_make_without_an_external_environment(server: Server) -> None:
    for name, url in (("Remote", server.url), ("ZeroMQ", zmq_url(server))):
        options = {"url": url, "env_id": ENV_ID, "wait_s": 1}
        away(
            lambda name=name, options=options: gymnasium.make(  # type: ignore[misc]
                f"gym_http/{name}-v0", **options
            )
        )
        away(
            lambda name=name, options=options: gymnasium.make_vec(  # type: ignore[misc]
                f"gym_http/{name}-v0", 2, **options
            )
        )


@pytest.mark.parametrize("wait", [{}, {"wait_s": 0}, {"wait_s": 1}])
def test_the_calls_of_gym_http_api(server: Server, wait: dict[str, Any]) -> None:
    with Client(server.url, retries=retries()) as client:
        away(lambda: client.env_create(ENV_ID, **wait))


def test_the_wait_is_on_top_of_time_limits(server: Server) -> None:
    hasty = retries(total=0.5)
    for url in (server.url, zmq_url(server)):
        there = Place(url, time_limit=0.5, retries=hasty)
        away(lambda there=there: RemoteEnv(there, ENV_ID, wait_s=1.5))  # type: ignore[misc]
    with Client(server.url, timeout=0.5, retries=hasty) as client:
        away(lambda: client.env_create(ENV_ID, wait_s=1.5))
