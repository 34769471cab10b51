"""Hosts are forked in advance, and creates succeed when the fork server fails."""

import concurrent.futures
import signal
from collections.abc import Callable

import psutil
import pytest

from tests.support.api import Api, no_content
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

ENV_ID = "CartPole-v1"


@pytest.fixture
def api(make_server: Callable[..., Server]) -> Api:
    server = make_server()
    spares(server)
    return Api(server)


def spares(server: Server) -> list[psutil.Process]:
    """Wait for spare hosts, of which there may be several, and return them."""
    return wait_until(lambda: server.services("spare host"), 10.0, "a spare host")


def fork_server(server: Server) -> psutil.Process:
    """Return the fork server."""
    (found,) = server.services("fork server")
    return found


def play(api: Api) -> None:
    """Use and close an instance."""
    instance = api.create(ENV_ID)
    instance.reset()
    instance.step(0)
    no_content(instance.close())


def test_a_spare_host_becomes_the_host_of_the_next_instance(api: Api) -> None:
    waiting = spares(api.server)
    instance = api.create(ENV_ID)
    host = api.server.host(instance.id)
    assert host in waiting
    assert host.ppid() == api.server.supervisor.pid
    # The end of an instance ends no process that no environment has started.
    following = spares(api.server)
    no_content(instance.close())
    assert all(each.is_running() for each in following)
    second = api.create(ENV_ID)
    assert api.server.host(second.id) in following
    no_content(second.close())


def test_many_creates_at_a_time_do_not_wait_for_spare_hosts(api: Api) -> None:
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        made = list(pool.map(lambda _: api.create(ENV_ID), range(12)))
    assert len({each.id for each in made}) == 12
    for each in made:
        each.reset()
        no_content(each.close())


def test_dead_spare_hosts_cost_no_create(api: Api) -> None:
    ended = spares(api.server)
    for each in ended:
        each.kill()
    wait_until(lambda: not any(each.is_running() for each in ended))
    play(api)
    assert not set(spares(api.server)) & set(ended)
    play(api)


def test_a_fork_server_that_ends_is_replaced(api: Api) -> None:
    instance = api.create(ENV_ID)
    instance.reset()
    ended, orphans = fork_server(api.server), spares(api.server)
    ended.kill()
    play(api)
    wait_until(lambda: api.server.services("fork server"), 10.0, "another fork server")
    wait_until(
        lambda: not any(each.is_running() for each in orphans),
        10.0,
        "the end of the old spare hosts",
    )
    assert "the fork server ended; starting another one" in api.server.stderr
    waiting = spares(api.server)
    second = api.create(ENV_ID)
    assert api.server.host(second.id) in waiting
    instance.step(0)
    no_content(second.close())
    no_content(instance.close())


def test_a_stopped_fork_server_is_replaced(api: Api) -> None:
    before = fork_server(api.server)
    before.send_signal(signal.SIGSTOP)
    # The first one takes the spare host.
    for _ in range(2):
        play(api)
    wait_until(lambda: not before.is_running())
    assert fork_server(api.server) != before
    assert "the fork server ended; starting another one" in api.server.stderr


def test_spare_hosts_are_as_many_as_were_taken_lately(api: Api) -> None:
    def are(count: int) -> bool:
        return len(api.server.services("spare host")) == count

    assert are(1)
    for _ in range(3):
        play(api)
    wait_until(lambda: are(3), 10.0, "three spare hosts")
    wait_until(lambda: are(1), 20.0, "one spare host")
